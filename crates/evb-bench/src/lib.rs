//! `evbd bench`: measurements as for a paper, and the figures that show them.

pub mod figure;
mod run;
mod output;
mod cpu;
mod builder;
pub mod modes;
pub mod fill;
pub mod regularity;
pub mod shaping;

use std::process::ExitCode;

use clap::Subcommand;

pub use output::BenchError;
pub use run::{RunError, RunSystem};

/// The measurements of `evbd bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The event rate of a 4 × 4 event builder that asks its sources one after the other, over
    /// event sizes and slots: the measurement of the RCNP event builder (Nomachi et al.).
    Builder(builder::BuilderArguments),
    /// Credit, window, token bucket and no shaping side by side, on the simulated switch: goodput,
    /// drops, build latency.
    Modes(modes::ModesArguments),
    /// Goodput of credit over C·R/L (rate, time from a grant to its data, buffer), and drops, on
    /// the simulated switch with recorded delays of hosts.
    Fill(fill::FillArguments),
    /// The rate of each destination, asked against got, by executor, and its cost: with real roles
    /// over loopback.
    Shaping(shaping::ShapingArguments),
    /// The regularity of messages with random triggers behind shaping (the study of Yasu et al. for
    /// ATLAS), by executor, at the receiver.
    Regularity(regularity::RegularityArguments),
}

/// Runs the command; `run` runs the real systems that it measures.
pub fn main(command: &BenchCommand, run: RunSystem) -> ExitCode {
    match command {
        BenchCommand::Builder(arguments) => builder::main(arguments, run),
        BenchCommand::Modes(arguments) => modes::main(arguments),
        BenchCommand::Fill(arguments) => fill::main(arguments),
        BenchCommand::Shaping(arguments) => shaping::main(arguments, run),
        BenchCommand::Regularity(arguments) => regularity::main(arguments),
    }
}

/// Returns free ports of loopback.
fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let listeners: Vec<_> =
        (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
