//! [`SourceConfig`]: a source's configuration.

use std::{net::IpAddr, time::Duration};

use evb_core::{id::SourceId, units::Bytes};
use evb_net::{class::TrafficClass, lane::LaneOptions, pacing::Transport, security::Security};
use evb_shaper::{
    Shaping,
    cost::{CELL, PacketCost},
};

use super::PacingConfig;
use crate::role::{self, TurnCounters};

/// A source's configuration; the rest comes from the supervisor.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// The source's id, which must be in the supervisor's list.
    pub id: SourceId,
    /// The supervisor's address, `host:port`.
    pub supervisor: String,
    /// The local address to send from; `None` leaves it to routing.
    pub bind: Option<IpAddr>,
    /// The largest payload, by which builders reserve memory.
    pub max_fragment: Bytes,
    /// Payload bytes that may wait for a decision before `push` waits.
    pub backlog: Bytes,
    /// Time for which it tries to reach the supervisor.
    pub start_timeout: Duration,
    /// Shaping of departures; the builders do their half of it.
    pub shaping: Shaping,
    /// Pace towards each builder, in addition to any shaping, and the mechanism that keeps it.
    pub pacing: PacingConfig,
    /// Largest IP packet on the way, bytes.
    pub mtu: u32,
    /// Time that announcements may wait in full queues on their way, mostly that of a builder's
    /// port: its buffer divided by its rate; zero if unknown. They keep this distance from each
    /// other, and over datagrams none is repeated earlier.
    pub queue: Duration,
    /// Keeps the machine's idle cores awake during the run, if the system permits it
    /// ([`evb_net::host::keep_awake`]); `None`: where [`Self::queue`] is known and empties within
    /// [`BRISK`](crate::role::BRISK).
    pub keep_awake: Option<bool>,
    /// Time for which it goes on polling its sockets after the last grant before it sleeps; `None`:
    /// it sleeps at once. Its core is busy meanwhile: ask
    /// [`prove_polling`](evb_net::pacing::prove_polling) first.
    pub busy_poll: Option<Duration>,
    /// Least space that a packet occupies in a switch port's buffer.
    pub cell: Bytes,
    /// Transport of the lanes; the same for all sources and builders of a run.
    pub transport: Transport,
    /// Options of the lanes' sockets.
    pub lane: LaneOptions,
    /// Traffic class of the packets of the supervisor connection.
    pub control: TrafficClass,
    /// Keys and certificates by which it and its peers authenticate each other.
    pub security: Security,
    /// Counter of the turns of its loop.
    pub turn_counters: TurnCounters,
    /// The core to run on; `None`: any.
    pub core: Option<usize>,
}

impl SourceConfig {
    /// Creates a configuration with defaults: 4 MiB fragments, 256 MiB backlog, 30 s to start, no
    /// pacing.
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
            queue: Duration::ZERO,
            keep_awake: None,
            busy_poll: None,
            cell: CELL,
            transport: Transport::Tcp,
            lane: LaneOptions::default(),
            control: TrafficClass::default(),
            security: Security::None,
            turn_counters: TurnCounters::default(),
            core: None,
        }
    }

    /// Returns the cost of lane bytes on the wire.
    pub(super) fn cost(&self) -> PacketCost {
        role::packet_cost(self.transport, self.mtu, self.cell, self.security.is_protected())
    }
}
