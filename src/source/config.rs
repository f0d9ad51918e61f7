//! [`SourceConfig`]: a source's configuration.

#[cfg(test)]
mod tests;

use std::{net::IpAddr, time::Duration};

use evb_core::{
    alignment::{DetectorClock, TriggerCounter, message_of},
    id::{Peer, SourceId},
    session::Member,
    units::Bytes,
    wire::control::Hello,
};
use evb_net::{class::TrafficClass, host, lane::LaneOptions, pacing::Transport, security::Security};
use evb_shaper::{
    Shaping,
    cost::{CELL, PacketCost},
};

use super::{FrontEnds, PacingConfig};
use crate::role::{self, Access, TurnCounters};

/// A source's configuration; the supervisor provides all other settings.
///
/// ```
/// use std::time::Duration;
///
/// use evb::{
///     prelude::*,
///     source::{ClockWrap, DetectorClock},
/// };
///
/// let mut config = SourceConfig::new(SourceId::new(1), "daq0:7000");
/// config.max_fragment = "256 KiB".parse()?;
/// config.backlog = Bytes::mib(64);
/// config.start_timeout = Duration::from_secs(300);
/// // The timestamps are readings of a clock with 48 bits.
/// config.clock = Some(DetectorClock::new("125 MHz".parse()?, ClockWrap::Bits(48)));
/// assert_eq!(config.backlog.count() / config.max_fragment.count(), 256);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// The source's id, which must be in the supervisor's list.
    pub id: SourceId,
    /// The supervisor's address, `host:port`.
    pub supervisor: String,
    /// The local address to send from; `None` leaves the choice to the routing table.
    pub bind: Option<IpAddr>,
    /// The largest payload of a fragment, by which builders reserve memory.
    pub max_fragment: Bytes,
    /// Payload bytes that may wait for their events' decisions; beyond them, `push` waits.
    pub backlog: Bytes,
    /// Time for which the source tries to reach the supervisor.
    pub start_timeout: Duration,
    /// Shaping of the source's departures; the builders shape by their grants.
    pub shaping: Shaping,
    /// Pace towards each builder, in addition to any shaping, and the mechanism that keeps the
    /// pace.
    pub pacing: PacingConfig,
    /// Size of the largest IP packet on the path between source and builders, bytes.
    pub mtu: u32,
    /// Longest time that announcements may wait in full queues on their way, mostly in the queue of
    /// a builder's switch port: the port's buffer divided by its rate; zero if unknown. Successive
    /// announcements are at least this time apart, and over datagrams none is repeated earlier.
    pub queue_delay: Duration,
    /// Keeps the machine's idle cores awake during the run, if the operating system permits it
    /// ([`evb_net::host::keep_awake`]); `None`: if [`Self::queue_delay`] is known and shorter than
    /// [`BRISK`](crate::role::BRISK).
    pub keep_awake: Option<bool>,
    /// Time for which the source goes on polling its sockets after the last grant before it sleeps;
    /// `None`: it sleeps at once. Polling keeps the core busy: ask
    /// [`prove_polling`](evb_net::pacing::prove_polling) first.
    pub busy_poll: Option<Duration>,
    /// Least space that a packet occupies in a switch port's buffer.
    pub cell: Bytes,
    /// Transport of the lanes, which must be the same for all sources and builders of a run.
    pub transport: Transport,
    /// Options of the lanes' sockets.
    pub lane: LaneOptions,
    /// Traffic class of the packets of the supervisor connection.
    pub control: TrafficClass,
    /// Keys and certificates by which the source and its peers authenticate each other.
    pub security: Security,
    /// Counter of the turns of the source's event loop.
    pub turn_counters: TurnCounters,
    /// The front ends that feed the source, shared with their listener; `None`: the program pushes
    /// fragments itself.
    pub front_ends: Option<FrontEnds>,
    /// The trigger counter that readout or front ends push in place of event ids, such as the 16
    /// bits of a board; `None`: they push event ids. The source finds the event of each value, and
    /// counts those that have none. A source on demand has no counter.
    pub counter: Option<TriggerCounter>,
    /// CPU core on which the source's thread runs; `None`: any core.
    pub cpu: Option<usize>,
    /// Clock that the boards read for the timestamps of the fragments. The source tells it to the
    /// supervisor, which prefers a clock of this source in
    /// [`RunPlan::clocks`](crate::supervisor::RunPlan::clocks). `None`: without one in the plan,
    /// evb does not compare the timestamps of this source with those of others.
    pub clock: Option<DetectorClock>,
}

impl SourceConfig {
    /// Creates a configuration with defaults: fragments of up to 4 MiB, a backlog of 256 MiB, 30 s
    /// to reach the supervisor, no pacing.
    pub fn new(id: SourceId, supervisor: impl Into<String>) -> Self {
        Self {
            id,
            supervisor: supervisor.into(),
            bind: None,
            max_fragment: Bytes::mib(4),
            backlog: Bytes::mib(256),
            start_timeout: Duration::from_secs(30),
            shaping: Shaping::LOOPBACK,
            pacing: PacingConfig::default(),
            mtu: 1500,
            queue_delay: Duration::ZERO,
            keep_awake: None,
            busy_poll: None,
            cell: CELL,
            transport: Transport::Tcp,
            lane: LaneOptions::default(),
            control: TrafficClass::default(),
            security: Security::None,
            turn_counters: TurnCounters::default(),
            front_ends: None,
            counter: None,
            cpu: None,
            clock: None,
        }
    }

    /// Returns the facts with which the source registers at the supervisor.
    pub(super) fn member(&self) -> Member {
        let hello = Hello {
            boot_id: host::boot_id(),
            software: concat!("evb ", env!("CARGO_PKG_VERSION")).to_owned(),
            max_fragment: self.max_fragment.count(),
            clock: self.clock.as_ref().map(|clock| message_of(self.id, clock)),
            ..Hello::new(Peer::Source(self.id), Peer::Supervisor)
        };
        Member { supervisor: self.supervisor.clone(), hello, start_timeout: self.start_timeout }
    }

    pub(super) fn access(&self) -> Access {
        Access { bind: self.bind, class: self.control, security: self.security.clone() }
    }

    /// Returns the cost of lane bytes on the wire.
    pub(super) fn cost(&self) -> PacketCost {
        role::packet_cost(self.transport, self.mtu, self.cell, self.security.is_protected())
    }
}
