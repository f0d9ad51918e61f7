//! `evbd`: the event builder as a daemon. One TOML file says which roles there are and where they
//! run.

mod log;
pub mod figure;
pub mod memory;
mod here;
mod check;
mod inputs;
mod control;
mod ctl;
mod service;
pub mod run;
pub mod bench;
mod keygen;
mod tools;
mod provision;
mod probe_buffer;
mod doctor;
pub mod cli;

#[cfg(feature = "fuzzing")]
pub use probe_buffer::fuzzing;
