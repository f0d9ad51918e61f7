//! `cargo xtask`: the checks of this repository. This program does not depend on evb's own crates,
//! so that checks need not wait until evb is built.
//!
//! - `tidy`: the coding rules of this project, each a small check that is itself tested on
//!   deliberate violations;
//! - `lab`, `eco` and `uml`: the network lab, tests with third-party programs, and User-Mode Linux;
//!   they run in a separate program;
//! - `fuzz`: fuzz tests of every decoder and every state machine;
//! - `instructions`: the number of instructions per byte that a lane transfers, counted by
//!   valgrind;
//! - `studies`: the figures of the papers on which evb stands, reproduced;
//! - `seeds`: simulations of whole systems with random faults from seeds;
//! - `api`: a comparison of the public API of `evb` with its committed listing;
//! - `tutorial`: an execution of the tutorials, with a comparison of what they promise;
//! - `site`: a website with a search field, made of the Markdown pages;
//! - `sdk`: an installation of the C and C++ bindings;
//! - `release`: the files that a release offers for download: archives, packages, an image;
//! - `package`: a build of the crates as a registry would serve them;
//! - `bare`: the tests in a place where everything is missing that they may not need;
//! - `ci`: all checks, step by step, with a table of results at the end.

mod repo;
mod api;
mod built;
mod lab;
mod tidy;
mod fuzz;
mod instructions;
mod package;
mod seeds;
mod tutorial;
mod bare;
mod ci;
mod site;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use release::sdk;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The repository's own checks")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the coding rules of this project: crate graph, import order, purity, sizes, names,
    /// links.
    Tidy {
        /// Write the generated `clippy.toml` files instead of comparing them.
        #[arg(long)]
        bless: bool,
    },
    /// Run `evbd` on a simulated network whose switch ports have small buffers (needs root).
    Lab(lab::LabArgs),
    /// Test evb with third-party programs, such as a browser or Slurm.
    Eco(lab::LabArgs),
    /// Run a command under User-Mode Linux, whose kernel has fq, etf and netem; exit code 77 if
    /// User-Mode Linux is not available, 78 if its clock is too inaccurate to judge all results.
    Uml(lab::UmlArgs),
    /// Run each fuzz target for some time, and report the number of inputs and the findings.
    Fuzz(fuzz::FuzzArgs),
    /// Count the instructions per byte in user space with valgrind, and compare them with the
    /// committed counts.
    Instructions(instructions::InstructionArgs),
    /// Simulate whole systems, each with random faults from a seed.
    Seeds(seeds::SeedsArgs),
    /// Run the studies that reproduce the figures of five papers, and fill the pages in
    /// docs/studies.
    Studies(studies::StudiesArgs),
    /// Compare the public API of evb with the committed listing.
    Api(api::ApiArgs),
    /// Do what the tutorials say, command by command.
    Tutorial(tutorial::TutorialArgs),
    /// Make a website with a search field of the documentation, in target/site, and follow its
    /// links; exit code 77 if there is no mdbook and it cannot be installed.
    Site(site::SiteArgs),
    /// Build the C and C++ bindings and install them: headers, libraries, packages for CMake and
    /// pkg-config.
    Sdk(sdk::SdkArgs),
    /// Write the files that a release offers for download: archives for old and for all systems, a
    /// Debian package, a Python package, the C and C++ bindings, a container image.
    Release(release::ReleaseArgs),
    /// Package the crates as a registry would serve them, and check that they build.
    Package,
    /// Run the tests of the workspace where everything is missing that README.md does not require
    /// (needs root); exit code 77 if this machine cannot make such a place.
    Bare(bare::BareArgs),
    /// Run all checks of this list, as CI does.
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
        Task::Studies(args) => studies::run(&args),
        Task::Api(args) => api::run(&args).map(code),
        Task::Tutorial(args) => tutorial::run(&args).map(code),
        Task::Site(args) => site::run(&args),
        Task::Sdk(args) => sdk::run(&args).map(code),
        Task::Release(args) => release::run(&args).map(code),
        Task::Package => package::run().map(code),
        Task::Bare(args) => bare::run(&args),
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
