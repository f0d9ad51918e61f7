//! `evbd`: the event builder as a daemon. One TOML file says which roles there are and where they
//! run.

mod log;
mod check;
mod inputs;
mod control;
mod ctl;
mod service;
pub mod run;
mod bench;
mod tools;
pub mod cli;
