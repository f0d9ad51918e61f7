//! The base of the programs that run evbd on networks of this machine: of the lab, of the papers'
//! scenarios, and of the checks of bindings and packages.
//!
//! - networks: namespaces behind switch ports with small buffers, disks, a line over a wide area;
//! - systems: a configuration, one evbd per host, and the outcome of a run;
//! - reports: the results as a table and as JSON, with a verdict on every bound;
//! - tests with programs of others: which programs they need, and how they run these.
#![allow(missing_docs)] // The programs of this repository alone use it; names and types say the rest.

pub mod interrupt;
pub mod guard;
pub mod network;
pub mod line;
pub mod disk;
pub mod system;
pub mod fleet;
pub mod outcome;
pub mod bench;
pub mod report;
pub mod reference;
pub mod iperf;
pub mod needs;
pub mod commands;
pub mod alone;
pub mod setting;
pub mod ratios;
pub mod venv;
