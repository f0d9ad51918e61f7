//! Reads and measures all facts about this host. The measurements take a few seconds and change no
//! settings.

mod paths;

use std::{collections::BTreeSet, num::NonZero, thread, time::Duration};

use evb_core::{id::Peer as Role, units::Bytes};
use evb_net::{
    host::{
        Fact, Unavailable,
        clocks::{self, Lateness},
        echo::{self, TurnStages},
        link::{self, Link},
        qdisc, setting, setting_number, sockets,
    },
    pacing::{Offload, Transport, Trial, prove},
};

use super::{
    facts::{
        ClockFacts, CongestionFacts, CopyFacts, CoreFacts, Demand, DeviceFacts, Facts, PathFacts, Proved,
        SocketFacts, StageFacts, TurnFacts,
    },
    peers::{Peer, Peers},
};
use crate::{bandwidth, cores, ethtool, kernel, socket_buffers};

/// Duration of the measurement of timer lateness.
const WATCHED: Duration = Duration::from_millis(500);
/// Number of message exchanges between two threads that are timed.
const TURNS: usize = 500;
/// Duration of the measurement of copies.
const COPYING: Duration = Duration::from_millis(100);
/// Size of the arrays between which a thread copies: more than the caches near a core hold.
const COPIED: Bytes = Bytes::mib(16);
/// Largest number of threads that copy: a few of them use the whole bandwidth of the memory.
const MOST_COPYING: usize = 4;
/// Largest number of devices that are examined.
const MOST_DEVICES: usize = 16;
/// Size of the socket buffers that are requested for the test if the configuration names none: the
/// default budget of a builder without a known port buffer.
const SOCKET_BUFFER: Bytes = Bytes::mib(8);

/// Reads and measures all facts for these peers. Examines the devices in `named`; if none are
/// named, the devices that lead to the peers.
///
/// # Errors
/// A device in `named` does not exist.
pub(super) fn gather(demand: Option<Demand>, peers: &Peers, named: &[String]) -> Result<Facts, Unavailable> {
    let links = link::links()?;
    let chosen = devices(&links, peers, named)?;
    // The lateness of timers is measured first, before other measurements load this process.
    let clock = ClockFacts {
        lateness: clocks::timer_lateness(WATCHED),
        source: kernel::clock_source(),
        reading_cost: clocks::reading_cost(),
    };
    let memory = copy_facts();
    let paths = paths::paths(&peers.reached, &links);
    let devices = chosen.into_iter().map(|link| device(link, demand.as_ref(), peers, &paths)).collect();
    Ok(Facts {
        clock,
        cores: core_facts(),
        memory,
        sockets: socket_facts(demand.as_ref()),
        devices,
        paths,
        unresolved: peers.unresolved.clone(),
        turn: turn_facts(),
        demand,
    })
}

/// Measures round trips between two threads over the loopback, as a whole and in stages.
fn turn_facts() -> Fact<TurnFacts> {
    let turns = echo::loopback_turns(TURNS)?;
    let stages: Vec<_> = turns.iter().filter_map(|turn| turn.stages).collect();
    let lateness_of = |part: fn(&TurnStages) -> Duration| {
        let missing = || {
            Unavailable::new(
                "the kernel does not report when it receives (SO_TIMESTAMPNS); the other checks do not need it",
            )
        };
        Lateness::of(stages.iter().map(part).collect()).ok_or_else(missing)
    };
    let by_stage = || -> Fact<StageFacts> {
        Ok(StageFacts {
            write: lateness_of(|stages| stages.write)?,
            far_wake_up: lateness_of(|stages| stages.far_wake_up)?,
            answer: lateness_of(|stages| stages.answer)?,
            wake_up: lateness_of(|stages| stages.wake_up)?,
        })
    };
    let whole = Lateness::of(turns.iter().map(|turn| turn.whole).collect());
    let whole = whole.ok_or_else(|| {
        Unavailable::new("no round trip between threads was measured; repeat this when the host is less busy")
    })?;
    Ok(TurnFacts { whole, stages: by_stage() })
}

/// Returns the devices to look at: the named ones, or those to the peers, or the default one and
/// the loopback.
fn devices<'l>(links: &'l [Link], peers: &Peers, named: &[String]) -> Result<Vec<&'l Link>, Unavailable> {
    if !named.is_empty() {
        let find = |name: &String| {
            let known = || links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", ");
            let found = links.iter().find(|link| link.name == *name);
            found.ok_or_else(|| {
                Unavailable::new(format!(
                    "--device: there is no device `{name}` on this host; give one of {}",
                    known()
                ))
            })
        };
        return named.iter().map(find).collect();
    }
    let mut used: BTreeSet<u32> =
        peers.reached.iter().filter_map(|peer| Some(peer.route.as_ref().ok()?.device)).collect();
    if used.is_empty() {
        used.extend(evb_net::host::route::default_device().ok());
        used.extend(links.iter().find(|link| link.loopback).map(|link| link.index));
    }
    Ok(links.iter().filter(|link| used.contains(&link.index)).take(MOST_DEVICES).collect())
}

fn core_facts() -> CoreFacts {
    let cores = cores::cores();
    let governors = cores.allowed.clone().and_then(|allowed| cores::governors(&allowed));
    CoreFacts { cores, governors }
}

/// Copies memory with one thread for each usable core.
fn copy_facts() -> Fact<CopyFacts> {
    let usable = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = usable.min(MOST_COPYING);
    let rate = bandwidth::copy_rate(threads, COPIED, COPYING);
    let rate = rate.map_err(|error| {
        Unavailable::new(format!(
            "memory cannot be copied: {error}; repeat this when the host has more free memory"
        ))
    })?;
    Ok(CopyFacts { rate, threads })
}

/// Gathers what the kernel gives to sockets that ask as evb does.
fn socket_facts(demand: Option<&Demand>) -> SocketFacts {
    // If the configuration names no congestion control, the roles request cubic.
    let congestion = demand.and_then(|demand| demand.congestion_control.clone());
    let asked = congestion.unwrap_or_else(|| "cubic".to_owned());
    let wanted = |given: Option<Bytes>| given.unwrap_or(SOCKET_BUFFER);
    let three = |name: &str| -> Fact<[u64; 3]> {
        Ok([setting_number(name, 0)?, setting_number(name, 1)?, setting_number(name, 2)?])
    };
    SocketFacts {
        receive: socket_buffers::receive_buffer(wanted(demand.and_then(|demand| demand.receive_buffer))),
        send: socket_buffers::send_buffer(wanted(demand.and_then(|demand| demand.send_buffer))),
        receive_most: setting_number("net.core.rmem_max", 0).map(Bytes::new),
        send_most: setting_number("net.core.wmem_max", 0).map(Bytes::new),
        tcp_receive: three("net.ipv4.tcp_rmem"),
        tcp_send: three("net.ipv4.tcp_wmem"),
        tso_rtt_log: setting_number("net.ipv4.tcp_tso_rtt_log", 0),
        congestion: CongestionFacts {
            got: sockets::congestion_control(Some(&asked)),
            asked,
            default: setting("net.ipv4.tcp_congestion_control"),
            available: setting("net.ipv4.tcp_available_congestion_control"),
            allowed: setting("net.ipv4.tcp_allowed_congestion_control"),
        },
    }
}

/// Gathers the facts about a device, and tests the offloads that matter there.
fn device(link: &Link, demand: Option<&Demand>, peers: &Peers, paths: &[PathFacts]) -> DeviceFacts {
    let name = link.name.as_str();
    let qdiscs = qdisc::qdiscs(link.index);
    let has = |kinds: &[&str]| {
        qdiscs.as_ref().is_ok_and(|qdiscs| qdiscs.iter().any(|qdisc| kinds.contains(&qdisc.kind.as_str())))
    };
    let mut offloads = vec![
        (Transport::Udp, Offload::Software),
        (Transport::Udp, Offload::Txtime),
        (Transport::Udp, Offload::PacingRate),
        (Transport::Tcp, Offload::PacingRate),
    ];
    if has(&["etf"]) {
        offloads.push((Transport::Udp, Offload::Etf));
    }
    if let Some(demand) = demand {
        if demand.is_paced && has(&["tbf", "htb"]) {
            offloads.push((demand.transport(), Offload::Tbf));
        }
        let asked = demand.offload.map(|offload| (demand.transport(), offload));
        offloads.extend(asked.filter(|asked| !offloads.contains(asked)));
    }
    DeviceFacts {
        driver: ethtool::driver(name),
        line: ethtool::line(name),
        coalescing: ethtool::coalescing(name),
        rings: ethtool::rings(name),
        pause: ethtool::pause(name),
        pause_counters: ethtool::pause_counters(name),
        offloads: ethtool::offloads(name),
        fq_exists: kernel::has("sch_fq", "CONFIG_NET_SCH_FQ"),
        proofs: proofs(link, demand, &offloads, peers, paths),
        qdiscs,
        link: link.clone(),
    }
}

/// Tests these offloads on the device by sending packets to a peer that is reached through it.
fn proofs(
    link: &Link,
    demand: Option<&Demand>,
    offloads: &[(Transport, Offload)],
    peers: &Peers,
    paths: &[PathFacts],
) -> Fact<Vec<Proved>> {
    let is_reached_through = |peer: &&Peer| peer.route.as_ref().is_ok_and(|route| route.device == link.index);
    let answers = |peer: &&Peer| paths.iter().any(|path| path.address == peer.address && path.answers());
    // A peer that answers ping is the best one; the loopback needs no peer.
    let mut candidates = peers.reached.iter().filter(is_reached_through);
    let loopback_ends: Option<(_, _)> =
        link.loopback.then(|| ([127, 0, 0, 1].into(), Some([127, 0, 0, 1].into())));
    let best = candidates.clone().find(answers).or_else(|| candidates.next());
    let ends = best
        .map(|peer| (peer.address, peer.route.as_ref().ok().and_then(|route| route.from)))
        .or(loopback_ends);
    let Some((to, Some(from))) = ends else {
        return Err(Unavailable::new("no peer is reached through this device; name one with --peer ADDRESS"));
    };
    // The kernel has one token bucket for each destination, so its test must send to the TCP or UDP
    // port of a builder on the peer's host, and must know that builder's rate.
    let lane = best.and_then(|peer| {
        let lanes = &demand?.lanes;
        peer.roles.iter().find_map(|role| match role {
            Role::Builder(id) => lanes.get(id).copied(),
            _ => None,
        })
    });
    let (port, rate) = lane.unzip();
    let proved: Vec<Proved> = offloads
        .iter()
        .map(|(transport, offload)| {
            // Test packets go to the discard port, except for token buckets, which are tested with
            // a lane's port.
            let port = port.filter(|_| *offload == Offload::Tbf);
            let trial = Trial { port, rate, ..Trial::new(*transport, from, to) };
            Proved { transport: *transport, proof: prove(*offload, &trial) }
        })
        .collect();
    // The test of the software executor is the control experiment. If no packets of the software
    // executor are seen to leave, the peer may be down, and the other results mean nothing.
    let control = proved.iter().find(|proved| proved.proof.offload == Offload::Software);
    let by_datagram = |proved: &&Proved| proved.transport == Transport::Udp && proved.proof.p99.is_some();
    if let Some(control) = control
        && !proved.iter().any(|proved| by_datagram(&proved))
    {
        let why = format!(
            "nothing sent to {to} was seen to leave this host: {}; start that host, or allow UDP on the way, and run this again",
            control.proof.why
        );
        return Err(Unavailable::new(why));
    }
    Ok(proved)
}
