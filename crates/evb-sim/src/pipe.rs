//! [`LongPipe`]: one bulk flow over a long fat path, with a router that is slower than the sending
//! host: the study of Hiraki et al.
//!
//! ```text
//!   sender ── transmit queue ── link Y ──► router: queue ── X, half a round trip ──► receiver
//!   sender ◄── X, half a round trip ── router: queue ◄── acknowledgements ────────── receiver
//!              bursts of other traffic pass both queues of the router
//! ```
//!
//! TCP is that of [`RawFlows`](crate::RawFlows) with selective acknowledgements and a receive
//! window. It halves its window if the transmit queue of its host is full, as Linux does.

mod cross;
mod interface;
mod simulation;
#[cfg(test)]
mod tests;

use core::time::Duration;

use evb_core::units::{Bytes, Rate};
use evb_shaper::{
    Pace,
    cost::{CELL, PacketCost},
};

use simulation::Simulation;

/// A bulk flow over a long fat path. All hosts take no processor time.
#[derive(Clone, Debug, PartialEq)]
pub struct LongPipe {
    /// Y, the line rate of the sending host's link.
    pub host_rate: Rate,
    /// X, the line rate of the router, in both directions.
    pub bottleneck: Rate,
    /// Time of a round trip through empty queues.
    pub round_trip: Duration,
    /// Size of each of the router's two queues, in buffer bytes.
    pub router_buffer: Bytes,
    /// Number of packets that the sending host's queueing discipline holds, beyond the
    /// [`DRIVER_RING`] of the network interface.
    pub transmit_queue: usize,
    /// Receive window of the flow, in payload bytes.
    pub window: Bytes,
    /// True if the flow begins with its whole window instead of a slow start, as after a pause.
    pub begins_at_once: bool,
    /// The times at which packets leave the host.
    pub departures: Departures,
    /// Mean load of the router by other traffic, as a part of X, in each direction.
    pub cross_load: f64,
    /// The largest size of an IP packet, in bytes.
    pub mtu: u32,
    /// Duration of the simulation.
    pub span: Duration,
    /// The seed of all random draws.
    pub seed: u64,
}

/// Number of packets that the ring of a network interface's driver holds below the transmit queue:
/// the default of Linux's e1000.
pub const DRIVER_RING: usize = 256;

/// The times at which packets leave the sending host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Departures {
    /// Packets leave as soon as TCP permits.
    Unpaced,
    /// The interface lengthens the gap after each packet by this many bytes.
    Gap(Bytes),
    /// Clustered packet spacing (Hiraki et al.): TCP sends a packet every RTT/cwnd while this is
    /// longer than the precision of the host's timer, and as usual from then on.
    Spaced(Duration),
    /// A pace below TCP, as evb's executors keep it.
    Paced(KeptPace),
}

/// A pace and the executor that keeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeptPace {
    /// The pace.
    pub pace: Pace,
    /// Least time between the trains of packets.
    pub spacing: Duration,
    /// Lateness of a train that is not exceeded in 99 % of all cases; latenesses are exponentially
    /// distributed.
    pub precision: Duration,
}

/// The result of [`LongPipe::run`].
#[derive(Clone, Debug, PartialEq)]
pub struct PipeReport {
    /// Rate of the payload that arrived in order, over the whole time.
    pub goodput: Rate,
    /// For each millisecond, the packets of the flow whose last bit left the sending host.
    pub sent: Vec<u32>,
    /// For each millisecond, the packets of the flow that arrived at the receiving host.
    pub received: Vec<u32>,
    /// Packets of the flow that the router dropped.
    pub dropped: u64,
    /// Number of times that TCP found the transmit queue of its host full.
    pub refused: u64,
    /// Number of packets sent again.
    pub retransmits: u64,
    /// Number of retransmission timeouts.
    pub timeouts: u64,
    /// Largest number of buffer bytes in the router's queue towards the receiver.
    pub queue_peak: Bytes,
    /// Time at which clustered packet spacing ended.
    pub spaced_until: Option<Duration>,
}

impl LongPipe {
    /// Returns the window that fills the path at the bottleneck's rate: X·RTT, in payload bytes.
    pub fn full_window(bottleneck: Rate, round_trip: Duration, mtu: u32) -> Bytes {
        let cost = PacketCost::tcp(mtu, CELL);
        let packets = (bottleneck * round_trip).count() / cost.packet_line().count();
        Bytes::new(packets.max(1) * Self::segment(mtu))
    }

    /// Simulates the flow.
    pub fn run(&self) -> PipeReport {
        Simulation::new(self).run()
    }

    /// Returns the payload of a full packet.
    fn segment(mtu: u32) -> u64 {
        PacketCost::tcp(mtu, CELL).packet_payload().count()
    }
}
