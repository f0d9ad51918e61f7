//! `evbd`: the event builder as a daemon. One TOML file lists the roles of a system and the hosts
//! on which they run.

mod log;
mod program;
mod inputs;
mod hooks;
mod control;
mod tap;
mod filters;
mod ctl;
mod service;
pub mod run;
mod tools;
mod shell;
pub mod cli;
#[cfg(test)]
mod tests;
