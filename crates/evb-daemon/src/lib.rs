//! `evbd`: the event builder as a daemon. One TOML file says which roles there are and where they
//! run.

#[macro_use]
mod say;
mod log;
pub mod figure;
pub mod memory;
pub mod config;
mod here;
pub mod admission;
pub mod check;
mod plan;
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
