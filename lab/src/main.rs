//! `cargo xtask lab`, `eco` and `uml`: `evbd` on networks that this machine makes for it. They use
//! the product's own code, so that the checks, which need none of it, do not wait for its build.
//!
//! - `lab`: a switched network with shallow ports in network namespaces, and the scenarios on it;
//! - `eco`: evb together with real programs that others have written, and on several hosts;
//! - `uml`: a command under another kernel, which has queueing disciplines that this host may lack.

mod repo;
mod uml;
mod lab;
mod eco;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "evbd on networks of this machine")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run `evbd` on a network with shallow switch ports (root); exit code 77 if this machine
    /// cannot make one.
    Lab(Box<lab::LabArgs>),
    /// Try evb with real programs that others have written, such as a browser or Slurm; exit code
    /// 77 if they are missing.
    Eco(eco::EcoArgs),
    /// One half of the lab's foreign traffic, on one of its hosts.
    #[command(hide = true)]
    LabTraffic {
        #[command(subcommand)]
        half: lab::traffic::Half,
    },
    /// Run a command under User-Mode Linux, whose kernel has fq, etf and netem; exit code 77 if
    /// there is none, 78 if its clock is too inaccurate to judge everything.
    Uml(uml::UmlArgs),
}

/// The exit code if this machine lacks what a task needs, with the meaning that automake's tests
/// give it.
const SKIPPED: u8 = 77;

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Lab(args) => lab::run(&args),
        Task::Eco(args) => eco::run(&args),
        Task::LabTraffic { half } => lab::traffic::run(half).map(|()| 0),
        Task::Uml(args) => uml::run(&args),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
