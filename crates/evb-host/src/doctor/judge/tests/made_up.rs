//! Made-up facts of a host that are all as good as possible.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use evb_config::ShapingMode;
use evb_core::{
    id::{BuilderId, Peer, SourceId},
    units::{Bytes, Rate},
};
use evb_net::{
    host::{
        clocks::Lateness,
        echo::Echo,
        link::Link,
        qdisc::{Fq, Place, Qdisc, QdiscOptions},
    },
    pacing::{Offload, Proof, Transport},
};
use evb_shaper::{ByteMeasure, Pace};

use crate::{
    cores::Cores,
    doctor::facts::{
        ClockFacts, CongestionFacts, CopyFacts, CoreFacts, Demand, DeviceFacts, Echoes, Facts, PathFacts,
        Proved, SocketFacts, StageFacts, TurnFacts,
    },
    ethtool::{Coalescing, Feature, Line, Offloads, Pause, Rings},
    kernel::ClockSource,
    socket_buffers::Asked,
};

pub(super) fn facts() -> Facts {
    Facts {
        demand: Some(demand()),
        clock: ClockFacts {
            source: Ok(ClockSource { current: "tsc".into(), available: vec!["tsc".into(), "hpet".into()] }),
            reading_cost: Duration::from_nanos(25),
            lateness: Ok(late(30, 60)),
        },
        cores: CoreFacts {
            cores: Cores {
                online: Ok((0..8).collect()),
                allowed: Ok((0..8).collect()),
                isolated: Ok(BTreeSet::new()),
                quota: None,
            },
            governors: Ok(BTreeSet::from(["performance".to_owned()])),
        },
        memory: Ok(CopyFacts { rate: Rate::from_bits_per_second(80_000_000_000), threads: 4 }),
        sockets: sockets(),
        devices: vec![device()],
        paths: vec![path()],
        unresolved: Vec::new(),
        turn: Ok(TurnFacts { whole: late(10, 20), stages: Ok(stages()) }),
    }
}

fn stages() -> StageFacts {
    StageFacts { write: late(1, 4), far_wake_up: late(3, 9), answer: late(2, 5), wake_up: late(3, 8) }
}

/// Returns the demands of a configuration with paces at 1 Gbit/s through a port of 128 KiB.
fn demand() -> Demand {
    Demand {
        link_rate: Some(Rate::from_bits_per_second(1_000_000_000)),
        port_buffer: Some(Bytes::kib(128)),
        mtu: Bytes::new(1500),
        mode: ShapingMode::Credit,
        by_datagrams: true,
        is_paced: true,
        pace: Some(Pace {
            rate: Rate::from_bits_per_second(100_000_000),
            burst: Bytes::new(12_500),
            measure: ByteMeasure::Line,
        }),
        lanes: BTreeMap::from([(BuilderId::new(1), (7101, Rate::from_bits_per_second(98_000_000)))]),
        offload: None,
        under_way: Some(Bytes::new(117_964)),
        lane_share: Some(Bytes::kib(32)),
        send_buffer: None,
        receive_buffer: Some(Bytes::mib(8)),
        congestion_control: None,
        cores: BTreeMap::from([(2, Peer::Source(SourceId::new(1))), (3, Peer::Builder(BuilderId::new(1)))]),
        copies: Some(Rate::from_bits_per_second(2_000_000_000)),
    }
}

fn sockets() -> SocketFacts {
    SocketFacts {
        receive: Ok(Asked { asked: Bytes::mib(8), got: Bytes::mib(8) }),
        send: Ok(Asked { asked: Bytes::mib(8), got: Bytes::mib(8) }),
        receive_most: Ok(Bytes::mib(16)),
        send_most: Ok(Bytes::mib(16)),
        tcp_receive: Ok([4096, 131_072, 6_291_456]),
        tcp_send: Ok([4096, 16_384, 4_194_304]),
        tso_rtt_log: Ok(0),
        congestion: CongestionFacts {
            asked: "cubic".into(),
            got: Ok("cubic".into()),
            default: Ok("bbr".into()),
            available: Ok("reno bbr cubic".into()),
            allowed: Ok("reno cubic".into()),
        },
    }
}

fn device() -> DeviceFacts {
    let on = Feature { on: true, fixed: false };
    DeviceFacts {
        link: Link {
            index: 2,
            name: "eth0".into(),
            kind: None,
            loopback: false,
            up: true,
            carrier: Some(true),
            mtu: Some(1500),
            queue_length: Some(1000),
            gso_max_size: Some(65_536),
            gso_max_packets: Some(65_535),
        },
        driver: Ok("igc".into()),
        line: Ok(Line { rate: Some(Rate::from_bits_per_second(1_000_000_000)), full_duplex: Some(true) }),
        coalescing: Ok(Coalescing {
            receive_micros: 3,
            receive_packets: 0,
            send_micros: 3,
            send_packets: 0,
            adaptive_receive: false,
            adaptive_send: false,
        }),
        rings: Ok(Rings { receive: 256, receive_most: 4096, send: 256, send_most: 4096 }),
        pause: Ok(Pause { negotiated: true, obeys: false, asks: false }),
        pause_counters: Ok(Vec::new()),
        offloads: Ok(Offloads { tso: on, gso: on, gro: on, udp: Some(on) }),
        qdiscs: Ok(vec![qdisc("fq", QdiscOptions::Fq(Fq::default()))]),
        fq_exists: Ok(true),
        proofs: Ok(vec![proved(Offload::Software, true), proved(Offload::Txtime, true)]),
    }
}

pub(super) fn qdisc(kind: &str, options: QdiscOptions) -> Qdisc {
    Qdisc { kind: kind.into(), handle: 0x8001, place: Place::Root, options, drops: Some(0) }
}

/// Returns the result of an offload's test with datagrams; `held` is true if packets kept their
/// departure times.
pub(super) fn proved(offload: Offload, held: bool) -> Proved {
    let proof = Proof {
        offload,
        device: Some("eth0".into()),
        held,
        undecided: false,
        median_error: Some(0.01),
        p99: Some(Duration::from_micros(40)),
        why: "as seen".into(),
        remedy: None,
    };
    Proved { transport: Transport::Udp, proof }
}

fn path() -> PathFacts {
    PathFacts {
        who: "builder 1".into(),
        address: [10, 0, 0, 2].into(),
        is_here: false,
        device: Ok("eth0".into()),
        mtu: Ok(1500),
        echoes: Ok(Echoes { sent: 20, times: Some(Lateness { count: 20, ..late(100, 200) }) }),
        full_size: Some(Ok(Echo::Answered(Duration::from_micros(150)))),
    }
}

/// Returns a lateness with these percentiles in microseconds.
pub(super) fn late(p50: u64, p99: u64) -> Lateness {
    let micros = Duration::from_micros;
    Lateness { count: 1000, p50: micros(p50), p99: micros(p99), max: micros(p99 * 2) }
}
