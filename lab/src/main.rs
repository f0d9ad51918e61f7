//! The commands `cargo xtask lab`, `eco` and `uml`, which run `evbd` on simulated networks. This
//! program is separate from `xtask` because it depends on evb's crates, whose build the other
//! checks of `xtask` need not wait for.
//!
//! - `lab`: a switched network with shallow ports in network namespaces, and the scenarios on it;
//! - `eco`: evb together with third-party programs such as Prometheus and Slurm, and on several
//!   hosts;
//! - `uml`: a command under User-Mode Linux, whose kernel has queueing disciplines that this host
//!   may lack.

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
    /// Run `evbd` on a simulated network whose switch ports have small buffers (needs root); exit
    /// code 77 if this machine cannot create such a network.
    Lab(Box<lab::LabArgs>),
    /// Test evb with third-party programs, such as a browser or Slurm; exit code 77 if these
    /// programs are missing.
    Eco(eco::EcoArgs),
    /// Used internally: run a traffic program of the lab, such as a bulk sender, on one of its
    /// hosts.
    #[command(hide = true)]
    LabTraffic {
        #[command(subcommand)]
        half: lab::traffic::Half,
    },
    /// Run a command under User-Mode Linux, whose kernel has fq, etf and netem; exit code 77 if
    /// User-Mode Linux is not available, 78 if its clock is too inaccurate to judge all results.
    Uml(uml::UmlArgs),
}

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
