//! Plain TCP sockets: the machine's throughput with the same processes and payload that is in
//! memory.

pub mod builder;
pub mod source;

#[cfg(test)]
mod tests;

pub use builder::build;
pub use source::send;
