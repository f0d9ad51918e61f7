//! The programs that evb is compared with, side by side on the same work: plain sockets and a
//! ZeroMQ event builder.

mod barrier;
mod children;
mod compare;
mod latency;
mod launch;
mod payload;
mod place;
mod plain;
mod report;
mod role;
mod zeromq;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use place::Place;
use role::{BuilderArguments, SourceArguments, Work};
use std::io::Write;
use std::process::ExitCode;

/// Compare event builders on the same work: N sources, M builders, one process each, event e at
/// builder (e-1) mod M.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    /// Plain TCP sockets without an event builder's protocol: the highest rate that the machine can
    /// reach.
    Plain(Run),
    /// An event builder over ZeroMQ: each source has one PUSH socket per builder, each builder one
    /// PULL socket.
    Zeromq(Run),
    /// Run evbd, plain and zeromq in turns on the same workloads; print medians and ratios.
    Compare(compare::Comparison),
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
struct Run {
    /// Run only this role in this process, instead of starting a process for every role on this
    /// host.
    #[command(subcommand)]
    role: Option<Role>,
    /// Number of source processes, 1 to 64.
    #[arg(long, default_value_t = 1)]
    sources: u32,
    /// Number of builder processes.
    #[arg(long, default_value_t = 1)]
    builders: u32,
    #[command(flatten)]
    work: Work,
    /// Print JSON only.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Role {
    /// Run one source of the event builder.
    Source(SourceArguments),
    /// Run one builder of the event builder.
    Builder(BuilderArguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(program: Program) -> Result<()> {
    match program {
        Program::Plain(run) => match &run.role {
            Some(Role::Source(arguments)) => plain::send(arguments),
            Some(Role::Builder(arguments)) => plain::build(arguments),
            None => launch("plain", &run),
        },
        Program::Zeromq(run) => match &run.role {
            Some(Role::Source(arguments)) => zeromq::send(arguments),
            Some(Role::Builder(arguments)) => zeromq::build(arguments),
            None => launch("zeromq", &run),
        },
        Program::Compare(comparison) => compare::compare(&comparison),
    }
}

fn launch(program: &str, run: &Run) -> Result<()> {
    let report = launch::run(Place::Loopback, program, run.sources, run.builders, &run.work)?;
    let mut stdout = std::io::stdout().lock();
    if !run.json {
        writeln!(stdout, "{report}")?;
    }
    writeln!(stdout, "{}", serde_json::to_string(&report)?)?;
    Ok(())
}
