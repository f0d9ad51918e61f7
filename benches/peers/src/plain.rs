//! The program `plain`: sources send payload from memory to builders over plain TCP sockets, which
//! shows the throughput that the machine can reach with the same processes.

pub mod builder;
pub mod source;

#[cfg(test)]
mod tests;

pub use builder::build;
pub use source::send;
