//! All facts that are read and measured before anything is judged.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use evb_config::ShapingMode;
use evb_core::{
    id::BuilderId,
    units::{Bytes, Rate},
};
use evb_net::{
    host::{
        Fact,
        clocks::{ClockSource, Lateness},
        echo::Echo,
        link::Link,
        qdisc::Qdisc,
        sockets::Asked,
    },
    pacing::{Offload, Proof, Transport},
};
use evb_shaper::Pace;

use crate::{
    cores::Cores,
    ethtool::{Coalescing, Line, Offloads, Pause, Rings},
};

/// The facts that verdicts follow from.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Demands of the configuration on this host; `None` without one.
    pub(super) demand: Option<Demand>,
    pub(super) clock: ClockFacts,
    pub(super) cores: CoreFacts,
    pub(super) sockets: SocketFacts,
    pub(super) devices: Vec<DeviceFacts>,
    pub(super) paths: Vec<PathFacts>,
    /// Configured hosts without an address here, each with the reason.
    pub(super) unresolved: Vec<(String, String)>,
    /// Time that two threads of this host take for a question and its answer.
    pub(super) turn: Fact<TurnFacts>,
}

/// The time of a question and its answer between two threads, whole and by stage.
#[derive(Clone, Debug)]
pub(super) struct TurnFacts {
    /// Time of the whole turn: two writes, two wake-ups.
    pub(super) whole: Lateness,
    pub(super) stages: Fact<StageFacts>,
}

/// The times of the stages of a turn, in order.
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
    /// True if lanes are datagrams.
    pub(super) by_datagrams: bool,
    /// True if trains depart by the clock.
    pub(super) is_paced: bool,
    /// Pace of the fastest lane.
    pub(super) pace: Option<Pace>,
    /// Destinations of paced lanes: the builder's port, and the pace in the bytes of frames, which
    /// the kernel counts.
    pub(super) lanes: BTreeMap<BuilderId, (u16, Rate)>,
    /// Offload that must work.
    pub(super) offload: Option<Offload>,
    /// Bytes that all sources together may have under way to one builder, in buffer bytes; `None`:
    /// not limited.
    pub(super) under_way: Option<Bytes>,
    /// Bytes that one source may have under way to one builder; `None`: not limited.
    pub(super) lane_share: Option<Bytes>,
    pub(super) send_buffer: Option<Bytes>,
    pub(super) receive_buffer: Option<Bytes>,
    /// Name of the congestion control, if the configuration asks for one.
    pub(super) congestion_control: Option<String>,
    /// Cores to which roles of this host are bound.
    pub(super) cores: BTreeSet<usize>,
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

#[derive(Clone, Debug)]
pub(super) struct SocketFacts {
    pub(super) receive: Fact<Asked>,
    pub(super) send: Fact<Asked>,
    /// Setting `net.core.rmem_max`.
    pub(super) receive_most: Fact<Bytes>,
    /// Setting `net.core.wmem_max`.
    pub(super) send_most: Fact<Bytes>,
    /// Setting `net.ipv4.tcp_rmem`: least, default, most.
    pub(super) tcp_receive: Fact<[u64; 3]>,
    /// Setting `net.ipv4.tcp_wmem`: least, default, most.
    pub(super) tcp_send: Fact<[u64; 3]>,
    /// Setting `net.ipv4.tcp_tso_rtt_log`.
    pub(super) tso_rtt_log: Fact<u32>,
    pub(super) congestion: CongestionFacts,
}

#[derive(Clone, Debug)]
pub(super) struct CongestionFacts {
    /// Name of the congestion control that evb asks for.
    pub(super) asked: String,
    /// Name of the congestion control that its sockets get.
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
    /// True if this kernel has `fq`.
    pub(super) fq_exists: Fact<bool>,
    pub(super) proofs: Fact<Vec<Proved>>,
}

/// The result of testing one mechanism for departure times.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proved {
    pub(super) transport: Transport,
    pub(super) proof: Proof,
}

#[derive(Clone, Debug)]
pub(super) struct PathFacts {
    /// Roles at the address: "builder 1, source 2".
    pub(super) who: String,
    /// Address of the peer.
    pub(super) address: IpAddr,
    /// True if the address is this host's.
    pub(super) is_here: bool,
    /// Device by which the address is reached.
    pub(super) device: Fact<String>,
    /// MTU of the path as the kernel knows it.
    pub(super) mtu: Fact<u32>,
    pub(super) echoes: Fact<Echoes>,
    /// Result of packets of the path's whole MTU, which are only sent to peers that answer small
    /// ones.
    pub(super) full_size: Option<Fact<Echo>>,
}

impl PathFacts {
    /// Returns true if the peer answers ping.
    pub(super) fn answers(&self) -> bool {
        self.echoes.as_ref().is_ok_and(|echoes| echoes.times.is_some())
    }
}

/// Answers to small pings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Echoes {
    pub(super) sent: usize,
    /// Times of the answers; `None` without any answer.
    pub(super) times: Option<Lateness>,
}
