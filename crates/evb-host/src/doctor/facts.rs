//! All facts about this host, which are read and measured before any verdict.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use evb_config::ShapingMode;
use evb_core::{
    id::{BuilderId, Peer},
    units::{Bytes, Rate},
};
use evb_net::{
    host::{Fact, clocks::Lateness, echo::Echo, link::Link, qdisc::Qdisc},
    pacing::{Offload, Proof, Transport},
};
use evb_shaper::Pace;

use crate::{
    cores::Cores,
    ethtool::{Coalescing, Line, Offloads, Pause, Rings},
    kernel::ClockSource,
    socket_buffers::Asked,
};

/// The facts from which all verdicts follow.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Demands of the configuration on this host; `None` if no configuration was given.
    pub(super) demand: Option<Demand>,
    pub(super) clock: ClockFacts,
    pub(super) cores: CoreFacts,
    pub(super) memory: Fact<CopyFacts>,
    pub(super) sockets: SocketFacts,
    pub(super) devices: Vec<DeviceFacts>,
    pub(super) paths: Vec<PathFacts>,
    /// Configured host names that cannot be resolved on this host, each with the reason.
    pub(super) unresolved: Vec<(String, String)>,
    /// Time in which a thread of this host wakes another thread by a message and receives its
    /// answer.
    pub(super) turn: Fact<TurnFacts>,
}

/// The time of a message and its answer between two threads, in total and by stage.
#[derive(Clone, Debug)]
pub(super) struct TurnFacts {
    /// Time of the whole exchange, which consists of two writes and two wake-ups.
    pub(super) whole: Lateness,
    pub(super) stages: Fact<StageFacts>,
}

/// The times of the stages of an exchange between two threads, in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageFacts {
    pub(super) write: Lateness,
    pub(super) far_wake_up: Lateness,
    pub(super) answer: Lateness,
    pub(super) wake_up: Lateness,
}

/// The demands of a configuration on a host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Demand {
    /// Rate of every link, in line bytes.
    pub(super) link_rate: Option<Rate>,
    /// Buffer of a switch port, in buffer bytes.
    pub(super) port_buffer: Option<Bytes>,
    /// Size of the largest IP packet.
    pub(super) mtu: Bytes,
    pub(super) mode: ShapingMode,
    /// True if lanes use UDP datagrams.
    pub(super) by_datagrams: bool,
    /// True if trains of packets are sent at departure times that a pace determines.
    pub(super) is_paced: bool,
    /// Pace of the fastest lane, if lanes have paces.
    pub(super) pace: Option<Pace>,
    /// Destinations of paced lanes: the builder's port, and the pace in bytes of L2 frames, which
    /// the kernel counts.
    pub(super) lanes: BTreeMap<BuilderId, (u16, Rate)>,
    /// Offload that the configuration requires.
    pub(super) offload: Option<Offload>,
    /// Buffer bytes that all sources together may have under way to one builder; `None`: not
    /// limited.
    pub(super) under_way: Option<Bytes>,
    /// Bytes that one source may have under way to one builder; `None`: not limited.
    pub(super) lane_share: Option<Bytes>,
    pub(super) send_buffer: Option<Bytes>,
    pub(super) receive_buffer: Option<Bytes>,
    /// Name of the congestion control that the configuration requests; `None`: no request.
    pub(super) congestion_control: Option<String>,
    /// Cores to which the configuration binds roles of this host, each with a role.
    pub(super) cores: BTreeMap<usize, Peer>,
    /// Rate at which the roles of this host copy bytes while their links are full; `None`: unknown.
    pub(super) copies: Option<Rate>,
}

impl Demand {
    /// Returns the transport of the lanes.
    pub(super) fn transport(&self) -> Transport {
        if self.by_datagrams { Transport::Udp } else { Transport::Tcp }
    }
}

#[derive(Clone, Debug)]
pub(super) struct ClockFacts {
    pub(super) source: Fact<ClockSource>,
    pub(super) reading_cost: Duration,
    pub(super) lateness: Fact<Lateness>,
}

#[derive(Clone, Debug)]
pub(super) struct CoreFacts {
    pub(super) cores: Cores,
    pub(super) governors: Fact<BTreeSet<String>>,
}

/// The rate at which several threads copy memory at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyFacts {
    /// Rate of all threads together; each byte counts once.
    pub(super) rate: Rate,
    pub(super) threads: usize,
}

#[derive(Clone, Debug)]
pub(super) struct SocketFacts {
    pub(super) receive: Fact<Asked>,
    pub(super) send: Fact<Asked>,
    /// Largest receive buffer that a program may set (`net.core.rmem_max`).
    pub(super) receive_most: Fact<Bytes>,
    /// Largest send buffer that a program may set (`net.core.wmem_max`).
    pub(super) send_most: Fact<Bytes>,
    /// Least, default and largest receive buffer of TCP (`net.ipv4.tcp_rmem`).
    pub(super) tcp_receive: Fact<[u64; 3]>,
    /// Least, default and largest send buffer of TCP (`net.ipv4.tcp_wmem`).
    pub(super) tcp_send: Fact<[u64; 3]>,
    /// Setting of TCP's automatic train sizes (`net.ipv4.tcp_tso_rtt_log`).
    pub(super) tso_rtt_log: Fact<u32>,
    pub(super) congestion: CongestionFacts,
}

#[derive(Clone, Debug)]
pub(super) struct CongestionFacts {
    /// Name of the congestion control that evb requests.
    pub(super) asked: String,
    /// Name of the congestion control that evb's sockets actually get.
    pub(super) got: Fact<String>,
    pub(super) default: Fact<String>,
    pub(super) available: Fact<String>,
    pub(super) allowed: Fact<String>,
}

#[derive(Clone, Debug)]
pub(super) struct DeviceFacts {
    pub(super) link: Link,
    pub(super) driver: Fact<String>,
    pub(super) line: Fact<Line>,
    pub(super) coalescing: Fact<Coalescing>,
    pub(super) rings: Fact<Rings>,
    pub(super) pause: Fact<Pause>,
    pub(super) pause_counters: Fact<Vec<(String, u64)>>,
    pub(super) offloads: Fact<Offloads>,
    pub(super) qdiscs: Fact<Vec<Qdisc>>,
    /// True if this kernel has the queueing discipline `fq`.
    pub(super) fq_exists: Fact<bool>,
    pub(super) proofs: Fact<Vec<Proved>>,
}

/// The result of the test of one mechanism that keeps departure times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proved {
    pub(super) transport: Transport,
    pub(super) proof: Proof,
}

#[derive(Clone, Debug)]
pub(super) struct PathFacts {
    /// Roles at the address, for example "builder 1, source 2".
    pub(super) who: String,
    /// IP address of the peer.
    pub(super) address: IpAddr,
    /// True if the address belongs to this host.
    pub(super) is_here: bool,
    /// Name of the device through which the address is reached.
    pub(super) device: Fact<String>,
    /// MTU of the path according to the kernel.
    pub(super) mtu: Fact<u32>,
    pub(super) echoes: Fact<Echoes>,
    /// Result of pings with the full MTU of the path; `None` for peers that do not answer small
    /// pings.
    pub(super) full_size: Option<Fact<Echo>>,
}

impl PathFacts {
    /// Returns true if the peer answers small pings.
    pub(super) fn answers(&self) -> bool {
        self.echoes.as_ref().is_ok_and(|echoes| echoes.times.is_some())
    }
}

/// The answers to small pings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Echoes {
    pub(super) sent: usize,
    /// Round-trip times of the answers; `None` if there was no answer.
    pub(super) times: Option<Lateness>,
}
