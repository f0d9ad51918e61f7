//! The command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    bench, check, doctor, plan, probe_buffer, provision, run,
    tools::{dump, merge, verify},
};

#[derive(Parser)]
#[command(
    name = "evbd",
    version,
    about = "The event builder: all fragments of one event on one machine, none dropped"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the system that a configuration describes, or some of its roles.
    Run(run::RunArguments),
    /// Read a configuration, apply admission control and show the sums behind it.
    Check(check::CheckArguments),
    /// The sums of planning from numbers on the command line, and a configuration to begin with.
    Plan(plan::PlanArguments),
    /// Tell what this host can do for an event builder, and what to change.
    Doctor(doctor::DoctorArguments),
    /// Read event files and account for every event: counts, gaps, duplicates, damage.
    Verify(verify::VerifyArguments),
    /// List event files, or show one event.
    Dump(dump::DumpArguments),
    /// Merge a run's files, of all builders, into files in event order.
    Merge(merge::MergeArguments),
    /// Print, apply, remove or read back the kernel's traffic control for this host's part of a configuration.
    Provision(provision::ProvisionArguments),
    /// Measure the usable buffer of a switch port: `listen` on the builder's host, `send` on two or more sources' hosts.
    ProbeBuffer {
        #[command(subcommand)]
        end: probe_buffer::ProbeBufferCommand,
    },
    /// Measure.
    Bench {
        #[command(subcommand)]
        what: bench::BenchCommand,
    },
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    start_log();
    match Cli::parse().command {
        Command::Run(arguments) => run::main(&arguments),
        Command::Doctor(arguments) => doctor::main(&arguments),
        Command::Verify(arguments) => verify::main(&arguments),
        Command::Dump(arguments) => dump::main(&arguments),
        Command::Merge(arguments) => merge::main(&arguments),
        Command::Provision(arguments) => provision::main(&arguments),
        Command::ProbeBuffer { end } => probe_buffer::main(&end),
        Command::Bench { what } => bench::main(&what),
        Command::Check(arguments) => check::main(&arguments),
        Command::Plan(arguments) => plan::main(&arguments),
    }
}

/// Log lines go to standard error; `EVBD_LOG` chooses how many, by default warnings and worse.
fn start_log() {
    use tracing_subscriber::EnvFilter;

    let filter = EnvFilter::try_from_env("EVBD_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(ansi).with_writer(std::io::stderr).init();
}
