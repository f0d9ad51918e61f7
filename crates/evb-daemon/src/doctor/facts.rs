//! All that is read and measured before anything is judged.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use evb_core::{
    id::BuilderId,
    units::{Bytes, Rate},
};
use evb_net::host::{
    Fact,
    clocks::{ClockSource, Lateness},
    cores::Cores,
    echo::Echo,
    ethtool::{Coalescing, Line, Offloads, Pause, Rings},
    link::Link,
    qdisc::Qdisc,
    sockets::Asked,
};
use evb_net::pacing::{Offload, Proof, Transport};
use evb_shaper::Pace;

use crate::config::ShapingMode;

/// Everything that verdicts follow from.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// What the configuration asks of this host; `None` without one.
    pub(super) demand: Option<Demand>,
    pub(super) clock: ClockFacts,
    pub(super) cores: CoreFacts,
    pub(super) sockets: SocketFacts,
    pub(super) devices: Vec<DeviceFacts>,
    pub(super) paths: Vec<PathFacts>,
    /// Configured hosts without address here, each with the reason.
    pub(super) unresolved: Vec<(String, String)>,
    /// How long two threads of this host take for a question and its answer.
    pub(super) turn: Fact<TurnFacts>,
}

/// A question and its answer between two threads, by parts.
#[derive(Clone, Debug)]
pub(super) struct TurnFacts {
    /// All of it: two writes, two wake-ups.
    pub(super) whole: Lateness,
    pub(super) stages: Fact<StageFacts>,
}

/// The stages of such turns, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct StageFacts {
    pub(super) write: Lateness,
    pub(super) far_wake_up: Lateness,
    pub(super) answer: Lateness,
    pub(super) wake_up: Lateness,
}

/// What the configuration asks of a host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Demand {
    /// The rate of every link, line bytes.
    pub(super) link_rate: Option<Rate>,
    /// The buffer of a switch port, buffer bytes.
    pub(super) port_buffer: Option<Bytes>,
    /// The largest IP packet.
    pub(super) mtu: Bytes,
    pub(super) mode: ShapingMode,
    /// Whether lanes are datagrams.
    pub(super) by_datagrams: bool,
    /// Whether trains depart by the clock.
    pub(super) is_paced: bool,
    /// The pace of the fastest lane.
    pub(super) pace: Option<Pace>,
    /// Where paced lanes lead: the port, and the pace in the bytes of frames, which the kernel counts.
    pub(super) lanes: BTreeMap<BuilderId, (u16, Rate)>,
    /// The offload that must work.
    pub(super) offload: Option<Offload>,
    /// What all sources together may have under way to one builder, buffer bytes; `None`: nothing bounds it.
    pub(super) under_way: Option<Bytes>,
    /// What one source may have under way to one builder; `None`: nothing bounds it.
    pub(super) lane_share: Option<Bytes>,
    pub(super) send_buffer: Option<Bytes>,
    pub(super) receive_buffer: Option<Bytes>,
    /// The congestion control by name, where it is asked for.
    pub(super) congestion_control: Option<String>,
    /// Cores that roles of this host are bound to.
    pub(super) cores: BTreeSet<usize>,
}

impl Demand {
    /// What carries the lanes.
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
    /// `net.core.rmem_max`
    pub(super) receive_most: Fact<Bytes>,
    /// `net.core.wmem_max`
    pub(super) send_most: Fact<Bytes>,
    /// `net.ipv4.tcp_rmem`: least, default, most.
    pub(super) tcp_receive: Fact<[u64; 3]>,
    /// `net.ipv4.tcp_wmem`
    pub(super) tcp_send: Fact<[u64; 3]>,
    /// `net.ipv4.tcp_tso_rtt_log`
    pub(super) tso_rtt_log: Fact<u32>,
    pub(super) congestion: CongestionFacts,
}

#[derive(Clone, Debug)]
pub(super) struct CongestionFacts {
    /// What evb asks for.
    pub(super) asked: String,
    /// What its sockets get.
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
    /// Whether this kernel has `fq`.
    pub(super) fq_exists: Fact<bool>,
    pub(super) proofs: Fact<Vec<Proved>>,
}

/// One way to make departure times come true, tried.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proved {
    pub(super) transport: Transport,
    pub(super) proof: Proof,
}

#[derive(Clone, Debug)]
pub(super) struct PathFacts {
    /// Who is there: "builder 1, source 2".
    pub(super) who: String,
    /// Its address.
    pub(super) address: IpAddr,
    /// Whether it is this host.
    pub(super) is_here: bool,
    /// The device by which it is reached.
    pub(super) device: Fact<String>,
    /// What the kernel believes of the path.
    pub(super) mtu: Fact<u32>,
    pub(super) echoes: Fact<Echoes>,
    /// What became of packets of the path's whole MTU; only asked of peers that answer small ones.
    pub(super) full_size: Option<Fact<Echo>>,
}

impl PathFacts {
    /// Whether it answers ping.
    pub(super) fn answers(&self) -> bool {
        self.echoes.as_ref().is_ok_and(|echoes| echoes.times.is_some())
    }
}

/// Answers to small pings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Echoes {
    pub(super) sent: usize,
    /// `None`: no answer at all.
    pub(super) times: Option<Lateness>,
}
