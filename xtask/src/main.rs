//! `cargo xtask`: the checks of this repository. Nothing here needs evb's own crates, so that the
//! checks do not wait for their build.
//!
//! - `tidy`: the rules of the house, each a small check that is itself tested on planted
//!   violations;
//! - `lab`, `eco` and `uml`: the network lab, programs of others, another kernel, in a program of
//!   their own;
//! - `fuzz`: arbitrary bytes for every decoder and machine;
//! - `instructions`: the cost of a byte of a lane, counted by valgrind;
//! - `seeds`: whole systems with faults, from seeds, in the simulator;
//! - `api`: the public API of `evb`, compared with its listing;
//! - `package`: the crates as a registry would serve them;
//! - `ci`: everything, step by step, with a table at the end.

mod repo;
mod api;
mod built;
mod tidy;
mod lab;
mod fuzz;
mod instructions;
mod package;
mod seeds;
mod ci;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The repository's own checks")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the rules of the house: crate graph, import order, purity, sizes, names, links.
    Tidy {
        /// Write the generated `clippy.toml` files instead of comparing them.
        #[arg(long)]
        bless: bool,
    },
    /// Run `evbd` on a network with shallow switch ports (root).
    Lab(lab::LabArgs),
    /// Try evb with real programs that others have written, such as a browser or Slurm.
    Eco(lab::LabArgs),
    /// Run a command under User-Mode Linux, whose kernel has fq, etf and netem; exit code 77 if
    /// there is none, 78 if its clock is too inaccurate to judge everything.
    Uml(lab::UmlArgs),
    /// Run the fuzz targets, each for a time, and report how much was tried.
    Fuzz(fuzz::FuzzArgs),
    /// Count what a byte costs in user space, and compare with what is committed (valgrind).
    Instructions(instructions::InstructionArgs),
    /// Run whole systems from seeds, each with faults of its own.
    Seeds(seeds::SeedsArgs),
    /// Compare the public API of evb with its listing.
    Api(api::ApiArgs),
    /// Build the crates as a registry would serve them.
    Package,
    /// Run every check, as CI does.
    Ci(ci::CiArgs),
}

fn main() -> ExitCode {
    let code = |holds: bool| u8::from(!holds);
    let outcome = match Cli::parse().task {
        Task::Tidy { bless } => tidy::run(bless).map(code),
        Task::Lab(args) => lab::run("lab", &args).map(|never| match never {}),
        Task::Eco(args) => lab::run("eco", &args).map(|never| match never {}),
        Task::Uml(args) => lab::uml(&args).map(|never| match never {}),
        Task::Fuzz(args) => fuzz::run(&args).map(code),
        Task::Instructions(args) => instructions::run(&args).map(code),
        Task::Seeds(args) => seeds::run(&args),
        Task::Api(args) => api::run(&args).map(code),
        Task::Package => package::run().map(code),
        Task::Ci(args) => ci::run(&args).map(code),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
