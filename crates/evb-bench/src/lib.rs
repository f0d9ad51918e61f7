//! The program `evb-bench`: performance measurements, the figures that show their results, and a
//! pseudo-trigger.

pub mod figure;
mod run;
mod machine;
mod output;
mod cpu;
mod interval;
mod window;
mod lines;
mod ends;
mod builder;
mod trigger;
pub mod modes;
pub mod fill;
pub mod pipe;
pub mod regularity;
pub mod shaping;
pub mod stream;
pub mod request;
pub mod memory;
pub mod alignment;

use std::{path::PathBuf, process::ExitCode};

use clap::{CommandFactory as _, Parser, Subcommand};
use evb_config::complain;

pub use interval::Interval;
pub use machine::Machine;
pub use output::BenchError;
pub use run::RunError;

#[derive(Parser)]
#[command(
    name = "evb-bench",
    version,
    about = "Measurements of evb on this host or on a simulated switch, and a pseudo-trigger"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The measurements, and the pseudo-trigger.
#[derive(Debug, Subcommand)]
enum Command {
    /// Event rate of an event builder (4 × 4 by default) that requests data from its sources one
    /// after the other, over event sizes and slots: the measurement of the RCNP event builder
    /// (Nomachi et al.).
    Builder(builder::BuilderArguments),
    /// Shaping by credit, by window, by token bucket, and none, compared on the simulated switch:
    /// goodput, drops, build latency.
    Modes(modes::ModesArguments),
    /// Goodput and drops of credit-based shaping over C·R/L (rate, time from a grant to its data,
    /// buffer), on the simulated switch with recorded delays of hosts.
    Fill(fill::FillArguments),
    /// Goodput of a bulk flow over a long fat path, and its packets per millisecond, for hosts that
    /// are faster than the path and for remedies, on a simulated network (the study of Hiraki et
    /// al.).
    Pipe(pipe::PipeArguments),
    /// Requested and measured rate of each destination, and the processor time, by executor: with
    /// real sources and builders over loopback.
    Shaping(shaping::ShapingArguments),
    /// Regularity of randomly triggered messages after shaping, measured at the receiver, by
    /// executor (the study of Yasu et al. for ATLAS).
    Regularity(regularity::RegularityArguments),
    /// Throughput of one flow between two hosts over TCP and UDP, over the size of the records,
    /// with confidence intervals (the network tests of the BaBar event builder).
    Stream(stream::StreamArguments),
    /// Rate of requests and their responses between two hosts over TCP and UDP, over the length of
    /// the response and the number of outstanding requests (the tests of Nomachi et al.).
    Request(request::RequestArguments),
    /// Memory bandwidth of this host, and the part of it that is lost beside a shaper that wakes up
    /// many times a second (the studies of Yasu et al. at KEK and for ATLAS).
    Memory(memory::MemoryArguments),
    /// Flags, delays and verdicts of the alignment guard, with simulated boards that miss triggers,
    /// and its cost per event.
    Alignment(alignment::AlignmentArguments),
    /// Announce triggers to a supervisor, or by multicast to supervisor and sources alike: a
    /// pseudo-trigger.
    Trigger(trigger::TriggerArguments),
    /// Write the man pages of evb-bench and its commands.
    #[command(hide = true)]
    ManPages {
        /// Folder for the pages, which must exist.
        folder: PathBuf,
    },
}

/// Runs the command that is given on the command line.
pub fn main() -> ExitCode {
    evb_net::host::block_signals_of_writes();
    match &Cli::parse().command {
        Command::Builder(arguments) => builder::main(arguments),
        Command::Modes(arguments) => modes::main(arguments),
        Command::Fill(arguments) => fill::main(arguments),
        Command::Pipe(arguments) => pipe::main(arguments),
        Command::Shaping(arguments) => shaping::main(arguments),
        Command::Regularity(arguments) => regularity::main(arguments),
        Command::Stream(arguments) => stream::main(arguments),
        Command::Request(arguments) => request::main(arguments),
        Command::Memory(arguments) => memory::main(arguments),
        Command::Alignment(arguments) => alignment::main(arguments),
        Command::Trigger(arguments) => trigger::main(arguments),
        Command::ManPages { folder } => match clap_mangen::generate_to(Cli::command(), folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain!(
                    "error: cannot write the man pages to {}: {error}; give a folder that exists",
                    folder.display()
                );
                ExitCode::from(2)
            }
        },
    }
}

/// Returns TCP ports that are free on the loopback address.
fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let listeners: Vec<_> =
        (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
