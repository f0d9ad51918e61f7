//! Programs that the lab starts inside the namespaces of its hosts and that are not part of evb.
//! Each one is a hidden command of this binary.

use std::net::SocketAddr;

use anyhow::Result;
use clap::Subcommand;
use papers::traffic;

use super::{calibrate, flood::flood, relay::relay};

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Half {
    /// Relays TCP streams and UDP datagrams, and flips a bit in the given percentage of the
    /// datagrams.
    Relay { at: SocketAddr, to: SocketAddr, percent: f64 },
    /// Sends this number of datagrams in a burst, each with the given payload in bytes.
    Burst { to: SocketAddr, packets: u64, payload: u64 },
    /// Counts received datagrams until stdin is closed.
    Count { at: SocketAddr },
    /// Attacks the targets with datagrams and connections for the given seconds.
    Flood { seconds: f64, targets: Vec<SocketAddr> },
    #[command(flatten)]
    OfPapers(traffic::Half),
}

/// Runs one of the programs until it ends.
pub(crate) fn run(half: Half) -> Result<()> {
    match half {
        Half::Relay { at, to, percent } => relay(at, to, percent),
        Half::Burst { to, packets, payload } => calibrate::send(to, packets, payload),
        Half::Count { at } => calibrate::count(at),
        Half::Flood { seconds, targets } => flood(&targets, seconds),
        Half::OfPapers(half) => traffic::run(half),
    }
}
