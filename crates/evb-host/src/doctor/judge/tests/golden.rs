//! Compares the findings with `golden.txt`: all findings of a good host, and for each change of its
//! facts, the findings that become different. With `EVB_BLESS=1` in the environment, the test
//! writes the file.

use std::{collections::BTreeSet, env, fmt::Write as _, fs, time::Duration};

use evb_config::ShapingMode;
use evb_core::{
    id::{BuilderId, Peer},
    units::{Bytes, Rate},
};
use evb_net::{
    host::{
        Fact, Unavailable,
        echo::Echo,
        qdisc::{Etf, Place, Qdisc, QdiscOptions},
    },
    pacing::{Offload, Transport},
};

use super::{
    super::super::{
        facts::{Demand, DeviceFacts, PathFacts},
        text::page,
    },
    Facts, Finding, judge,
    made_up::{self, late, proved, qdisc},
};
use crate::ethtool::{Feature, Line};

type Change = (&'static str, fn(&mut Facts));

fn unknown<T>() -> Fact<T> {
    Err(Unavailable::new("no permission"))
}

fn demand(facts: &mut Facts) -> &mut Demand {
    facts.demand.as_mut().unwrap()
}

fn device(facts: &mut Facts) -> &mut DeviceFacts {
    &mut facts.devices[0]
}

fn path(facts: &mut Facts) -> &mut PathFacts {
    &mut facts.paths[0]
}

fn megabits(count: u64) -> Rate {
    Rate::from_bits_per_second(count * 1_000_000)
}

fn root(facts: &mut Facts, kind: &str, options: QdiscOptions) {
    device(facts).qdiscs = Ok(vec![qdisc(kind, options)]);
}

fn plain(facts: &mut Facts, kind: &str) {
    root(facts, kind, QdiscOptions::NotRead);
}

const ETF: Etf = Etf {
    clock: 11,
    delta: Duration::from_micros(200),
    offload: false,
    deadline_mode: false,
    skip_sock_check: false,
};

const HOST: &[Change] = &[
    ("no configuration", |f| f.demand = None),
    ("clock source unknown", |f| f.clock.source = unknown()),
    ("dear clock", |f| f.clock.reading_cost = Duration::from_micros(1)),
    ("dear clock other than tsc", |f| {
        f.clock.reading_cost = Duration::from_micros(1);
        f.clock.source.as_mut().unwrap().current = "hpet".into();
    }),
    ("timers unknown", |f| f.clock.lateness = unknown()),
    ("timers late", |f| f.clock.lateness = Ok(late(30, 101))),
    ("timers late, no pace", |f| {
        f.clock.lateness = Ok(late(30, 101));
        demand(f).pace = None;
    }),
    ("timers late, governor", |f| {
        f.clock.lateness = Ok(late(30, 101));
        f.cores.governors = Ok(BTreeSet::from(["powersave".into()]));
    }),
    ("timers too late", |f| f.clock.lateness = Ok(late(1001, 2000))),
    ("allowed cores unknown", |f| f.cores.cores.allowed = unknown()),
    ("online cores unknown", |f| f.cores.cores.online = unknown()),
    ("few cores allowed", |f| f.cores.cores.allowed = Ok([1, 2, 3].into())),
    ("bound core not allowed", |f| f.cores.cores.allowed = Ok([0, 1, 2, 4].into())),
    ("bound core missing", |f| demand(f).cores = [(64, Peer::Builder(BuilderId::new(1)))].into()),
    ("isolated cores", |f| f.cores.cores.isolated = Ok([2, 3, 6].into())),
    ("little processor time", |f| f.cores.cores.quota = Some(3.5)),
    ("governors unknown", |f| f.cores.governors = unknown()),
    ("copies unknown", |f| f.memory = unknown()),
    ("copies not needed", |f| demand(f).copies = None),
    ("copies could be faster", |f| demand(f).copies = Some(megabits(41_000))),
    ("copies too slow", |f| demand(f).copies = Some(megabits(81_000))),
    ("one copying thread", |f| f.memory.as_mut().unwrap().threads = 1),
    ("turn unknown", |f| f.turn = unknown()),
    ("stages unknown", |f| f.turn.as_mut().unwrap().stages = unknown()),
];

const SOCKETS: &[Change] = &[
    ("receive buffer unknown", |f| f.sockets.receive = unknown()),
    ("send buffer unknown", |f| f.sockets.send = unknown()),
    ("largest buffers unknown", |f| (f.sockets.receive_most, f.sockets.send_most) = (unknown(), unknown())),
    ("buffers smaller", |f| {
        f.sockets.receive.as_mut().unwrap().got = Bytes::kib(208);
        f.sockets.send.as_mut().unwrap().got = Bytes::kib(208);
    }),
    ("buffers smaller, TCP", |f| {
        f.sockets.send.as_mut().unwrap().got = Bytes::kib(208);
        demand(f).by_datagrams = false;
    }),
    ("TCP limits unknown", |f| (f.sockets.tcp_receive, f.sockets.tcp_send) = (unknown(), unknown())),
    ("TCP limits too low", |f| {
        f.sockets.tcp_receive = Ok([4096, 16_384, 65_535]);
        f.sockets.tcp_send = Ok([4096, 16_384, 65_535]);
    }),
    ("no limit of a lane", |f| demand(f).lane_share = None),
    ("congestion control unknown", |f| f.sockets.congestion.got = unknown()),
    ("congestion controls unknown", |f| {
        let congestion = &mut f.sockets.congestion;
        (congestion.default, congestion.available, congestion.allowed) = (unknown(), unknown(), unknown());
    }),
    ("other congestion control", |f| f.sockets.congestion.got = Ok("bbr".into())),
    ("congestion control not allowed", |f| {
        f.sockets.congestion.got = Ok("bbr".into());
        f.sockets.congestion.allowed = Ok("reno".into());
    }),
    ("configured congestion control not loaded", |f| {
        f.sockets.congestion.got = Ok("bbr".into());
        f.sockets.congestion.available = Ok("reno bbr".into());
        demand(f).congestion_control = Some("cubic".into());
    }),
    ("BBR", |f| {
        f.sockets.congestion.got = Ok("bbr".into());
        f.sockets.congestion.asked = "bbr".into();
    }),
    ("tso_rtt_log unknown", |f| f.sockets.tso_rtt_log = unknown()),
    ("tso_rtt_log, UDP", |f| f.sockets.tso_rtt_log = Ok(9)),
    ("tso_rtt_log, TCP", |f| {
        f.sockets.tso_rtt_log = Ok(9);
        demand(f).by_datagrams = false;
    }),
];

const DEVICE: &[Change] = &[
    ("link down", |f| device(f).link.up = false),
    ("no carrier", |f| device(f).link.carrier = Some(false)),
    ("driver unknown", |f| device(f).driver = unknown()),
    ("kind of device", |f| {
        device(f).driver = unknown();
        device(f).link.kind = Some("veth".into());
    }),
    ("line unknown", |f| device(f).line = unknown()),
    ("speed unknown", |f| device(f).line = Ok(Line { rate: None, full_duplex: None })),
    ("duplex unknown", |f| device(f).line = Ok(Line { rate: Some(megabits(1000)), full_duplex: None })),
    ("slow line", |f| device(f).line = Ok(Line { rate: Some(megabits(999)), full_duplex: Some(true) })),
    ("half duplex", |f| device(f).line = Ok(Line { rate: Some(megabits(1000)), full_duplex: Some(false) })),
    ("MTU unknown", |f| device(f).link.mtu = None),
    ("small MTU, UDP", |f| device(f).link.mtu = Some(1499)),
    ("small MTU, TCP", |f| {
        device(f).link.mtu = Some(1499);
        demand(f).by_datagrams = false;
    }),
    ("offloads unknown", |f| device(f).offloads = unknown()),
    ("offloads off", |f| {
        let off = Feature { on: false, fixed: false };
        let offloads = device(f).offloads.as_mut().unwrap();
        (offloads.tso, offloads.gso, offloads.gro, offloads.udp) = (off, off, off, None);
    }),
    ("offloads fixed", |f| {
        device(f).offloads.as_mut().unwrap().gso = Feature { on: false, fixed: true };
    }),
    ("coalescing unknown", |f| device(f).coalescing = unknown()),
    ("coalescing adaptive", |f| device(f).coalescing.as_mut().unwrap().adaptive_receive = true),
    ("coalescing long, no configuration", |f| {
        device(f).coalescing.as_mut().unwrap().receive_micros = 119;
        f.demand = None;
    }),
    ("rings unknown", |f| device(f).rings = unknown()),
    ("small ring", |f| device(f).rings.as_mut().unwrap().receive = 78),
    ("pause unknown", |f| device(f).pause = unknown()),
    ("pauses", |f| {
        device(f).pause.as_mut().unwrap().asks = true;
        device(f).pause_counters = Ok(vec![("rx_pause".into(), 17), ("tx_pause".into(), 2)]);
    }),
    ("pauses, counters unknown", |f| {
        device(f).pause.as_mut().unwrap().negotiated = false;
        device(f).pause_counters = unknown();
    }),
    ("loopback", |f| {
        let device = device(f);
        device.link.loopback = true;
        device.line = unknown();
        device.coalescing = unknown();
        device.rings = unknown();
        device.pause = unknown();
        device.qdiscs = Ok(vec![qdisc("noqueue", QdiscOptions::NotRead)]);
    }),
];

const QUEUES: &[Change] = &[
    ("qdiscs unknown", |f| device(f).qdiscs = unknown()),
    ("no qdisc", |f| device(f).qdiscs = Ok(Vec::new())),
    ("drops", |f| device(f).qdiscs.as_mut().unwrap()[0].drops = Some(5)),
    ("fq_codel", |f| {
        let (target, interval) = (Some(Duration::from_millis(5)), None);
        root(f, "fq_codel", QdiscOptions::FqCodel { limit: Some(10_240), target, interval });
    }),
    ("pfifo_fast, no pace", |f| {
        plain(f, "pfifo_fast");
        demand(f).is_paced = false;
    }),
    ("pfifo_fast, kernel without fq", |f| {
        plain(f, "pfifo_fast");
        device(f).fq_exists = Ok(false);
    }),
    ("pfifo_fast, unknown if the kernel has fq", |f| {
        plain(f, "pfifo_fast");
        device(f).fq_exists = unknown();
    }),
    ("pfifo_fast, short queue", |f| {
        plain(f, "pfifo_fast");
        device(f).link.queue_length = Some(999);
    }),
    ("length of the queue unknown", |f| device(f).link.queue_length = None),
    ("pfifo", |f| root(f, "pfifo", QdiscOptions::Fifo(1000))),
    ("etf", |f| root(f, "etf", QdiscOptions::Etf(ETF))),
    ("tbf", |f| {
        let (rate, burst, limit) = (megabits(1000), Bytes::kib(16), Bytes::kib(128));
        root(f, "tbf", QdiscOptions::Tbf { rate, burst, limit });
    }),
    ("slow tbf", |f| {
        let (rate, burst, limit) = (megabits(999), Bytes::kib(16), Bytes::kib(128));
        root(f, "tbf", QdiscOptions::Tbf { rate, burst, limit });
    }),
    ("tbf, no configuration", |f| {
        let (rate, burst, limit) = (megabits(999), Bytes::kib(16), Bytes::kib(128));
        root(f, "tbf", QdiscOptions::Tbf { rate, burst, limit });
        f.demand = None;
    }),
    ("netem", |f| plain(f, "netem")),
    ("htb", |f| plain(f, "htb")),
    ("mq", |f| {
        let below = |kind, minor| Qdisc {
            place: Place::Below { major: 0x8001, minor },
            ..qdisc(kind, QdiscOptions::NotRead)
        };
        let ingress = Qdisc { place: Place::Ingress, ..qdisc("ingress", QdiscOptions::NotRead) };
        let mq = qdisc("mq", QdiscOptions::NotRead);
        device(f).qdiscs = Ok(vec![mq, below("fq", 1), below("fq", 2), below("pfifo_fast", 3), ingress]);
    }),
    ("offloads not tried", |f| device(f).proofs = unknown()),
    ("software only", |f| {
        plain(f, "pfifo_fast");
        device(f).proofs = Ok(vec![proved(Offload::Software, true), proved(Offload::Txtime, false)]);
    }),
    ("software only, no pace", |f| {
        device(f).proofs = Ok(vec![proved(Offload::Software, true), proved(Offload::Txtime, false)]);
        demand(f).is_paced = false;
    }),
    ("software not seen", |f| device(f).proofs.as_mut().unwrap()[0].proof.p99 = None),
    ("configured offload not tried", |f| {
        plain(f, "pfifo_fast");
        demand(f).offload = Some(Offload::PacingRate);
    }),
    ("configured offload does not work", |f| {
        device(f).proofs = Ok(vec![proved(Offload::Tbf, false)]);
        demand(f).offload = Some(Offload::Tbf);
    }),
    ("pacing rate of TCP", |f| {
        demand(f).by_datagrams = false;
        let mut proved = proved(Offload::PacingRate, true);
        proved.transport = Transport::Tcp;
        device(f).proofs = Ok(vec![proved]);
    }),
];

const PATHS: &[Change] = &[
    ("no peer", |f| f.paths.clear()),
    ("name not resolved", |f| f.unresolved = vec![("daq9".into(), "no such name".into())]),
    ("path MTU unknown", |f| path(f).mtu = unknown()),
    ("large path MTU, silence", |f| {
        path(f).mtu = Ok(9000);
        path(f).full_size = Some(Ok(Echo::Silence));
    }),
    ("full packet too large", |f| path(f).full_size = Some(Ok(Echo::TooLarge))),
    ("full packet not sent", |f| path(f).full_size = Some(unknown())),
    ("device of the path unknown", |f| {
        path(f).mtu = Ok(9000);
        path(f).device = unknown();
        path(f).full_size = Some(Ok(Echo::Silence));
    }),
    ("small path MTU, UDP", |f| path(f).mtu = Ok(1400)),
    ("small path MTU, TCP", |f| {
        path(f).mtu = Ok(1400);
        demand(f).by_datagrams = false;
    }),
    ("ping not possible", |f| path(f).echoes = unknown()),
    ("silent peer", |f| {
        path(f).echoes.as_mut().unwrap().times = None;
        path(f).full_size = None;
    }),
    ("lost ping", |f| path(f).echoes.as_mut().unwrap().sent = 21),
    ("all roles on one host", |f| path(f).is_here = true),
    ("no link_rate", |f| demand(f).link_rate = None),
    ("no limit of bytes under way", |f| (demand(f).mode, demand(f).under_way) = (ShapingMode::None, None)),
    ("no round trip", |f| {
        f.turn = unknown();
        f.paths.clear();
    }),
    ("budget just fills the link", |f| demand(f).under_way = Some(Bytes::new(27_499))),
    ("budget too small", |f| demand(f).under_way = Some(Bytes::new(13_750))),
];

#[test]
fn findings_have_these_texts() {
    let good = judge(&made_up::facts());
    let mut text = page(&good);
    let mut add = |title: &str, findings: &mut dyn Iterator<Item = &Finding>| {
        let lines: Vec<String> = findings.map(|finding| finding.json().to_string()).collect();
        let _ = write!(text, "\n# {title}\n{}\n", lines.join("\n"));
    };
    add("a good host", &mut good.iter());
    for (title, change) in [HOST, SOCKETS, DEVICE, QUEUES, PATHS].into_iter().flatten() {
        let mut facts = made_up::facts();
        change(&mut facts);
        let found = judge(&facts);
        add(title, &mut found.iter().filter(|finding| !good.contains(finding)));
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctor/judge/tests/golden.txt");
    if env::var_os("EVB_BLESS").is_some() {
        fs::write(file, &text).unwrap();
    }
    let golden = fs::read_to_string(file).unwrap();
    for (found, expected) in text.lines().zip(golden.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(text.lines().count(), golden.lines().count());
}
