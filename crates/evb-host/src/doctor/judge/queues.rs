//! Rules about a device's queueing disciplines, the length of its queue, and the mechanisms that
//! keep departure times on it.

use evb_core::units::Rate;
use evb_net::{
    host::{
        Fact, Unavailable,
        qdisc::{Etf, Place, Qdisc, QdiscOptions},
    },
    pacing::{Offload, Transport},
};
use serde_json::{Value, json};

use super::{
    super::{
        facts::{Demand, DeviceFacts, Proved},
        finding::Judgement,
    },
    rule::{brief, known, micros},
};

/// The effect of a device's root queueing discipline on departure times; for a root with several
/// queues, the effect of its leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// The discipline holds packets until their departure times.
    Fq,
    /// The discipline has no queue.
    NoQueue,
    /// The discipline drops every packet without a departure time.
    DropsUntimed,
    /// The discipline limits the rate of packets.
    Limited(Rate),
    /// The discipline delays, loses or reorders packets on purpose.
    Emulates,
    /// The discipline has classes, whose effect doctor does not examine.
    Classes,
    /// The discipline sends packets without regard to departure times.
    Plain,
}

/// Returns the kind of a device's queueing disciplines, by the root one and, below mq, by those of
/// the queues.
fn kind_of(qdiscs: &[Qdisc]) -> Option<Kind> {
    let root = qdiscs.iter().find(|qdisc| qdisc.place == Place::Root)?;
    Some(match (root.kind.as_str(), &root.options) {
        ("fq", _) => Kind::Fq,
        ("noqueue", _) => Kind::NoQueue,
        ("etf", QdiscOptions::Etf(Etf { skip_sock_check: false, .. })) => Kind::DropsUntimed,
        ("tbf", QdiscOptions::Tbf { rate, .. }) => Kind::Limited(*rate),
        ("netem", _) => Kind::Emulates,
        ("htb" | "hfsc" | "drr" | "prio" | "ets" | "taprio" | "mqprio" | "cbq" | "qfq", _) => Kind::Classes,
        ("mq", _) => {
            let of_queues =
                |qdisc: &&Qdisc| matches!(qdisc.place, Place::Below { major, .. } if major == root.handle);
            let mut leaves = qdiscs.iter().filter(of_queues).peekable();
            let any = leaves.peek().is_some();
            if any && leaves.all(|leaf| leaf.kind == "fq") { Kind::Fq } else { Kind::Plain }
        }
        _ => Kind::Plain,
    })
}

/// Judges the queueing discipline of the device.
pub(super) fn qdisc(device: &DeviceFacts, demand: Option<&Demand>) -> Fact<Judgement> {
    let qdiscs = known(&device.qdiscs)?;
    let kind = kind_of(qdiscs).ok_or_else(|| {
        Unavailable::new("the kernel names no qdisc for this device; `tc qdisc show` may name it")
    })?;
    let judgement = Judgement::new(in_words(qdiscs), qdiscs.iter().map(data).collect());
    let remove = Some(format!("tc qdisc del dev {} root", device.link.name));
    Ok(match kind {
        Kind::Fq => judgement.good().because("holds packets until their departure times"),
        Kind::DropsUntimed => judgement
            .bad(remove)
            .because("etf as root drops every packet without a departure time, TCP and ARP among them"),
        Kind::Emulates => judgement
            .better(remove)
            .because("netem delays or drops packets on purpose: right in a test, wrong in a run"),
        Kind::Limited(rate) => match demand.and_then(|demand| demand.link_rate) {
            Some(link) if rate < link => judgement
                .bad(remove)
                .because(format!("it passes only {rate}, but the configuration assumes {link}")),
            Some(_) => judgement.good().because("it passes what the configuration asks"),
            None => {
                let why = format!(
                    "nothing above {rate} passes: if the link carries more, remove this qdisc with `tc qdisc del dev {} root`",
                    device.link.name
                );
                judgement.because(why)
            }
        },
        Kind::Classes => judgement.because(
            "its classes decide what passes, which is not judged here: see that they let through what evb sends (`tc class show`)",
        ),
        Kind::NoQueue | Kind::Plain => match (remark(device, demand), &device.fq_exists) {
            (Some(remark), _) => judgement.good().because(remark),
            (None, Ok(false)) => judgement.better(None).because(
                "only fq holds packets until their departure times, and this kernel has none: use one with the module sch_fq",
            ),
            (None, Err(reason)) => judgement
                .better(fq_command(device))
                .also(format!("; the command fails where the kernel has no fq: {reason}")),
            (None, Ok(true)) => judgement.better(fq_command(device)),
        },
    })
}

/// Formats the root discipline with its options, and the number of disciplines of each kind below
/// the root.
fn in_words(qdiscs: &[Qdisc]) -> String {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for qdisc in qdiscs.iter().filter(|qdisc| matches!(qdisc.place, Place::Below { .. })) {
        match kinds.iter_mut().find(|(kind, _)| *kind == qdisc.kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((&qdisc.kind, 1)),
        }
    }
    let root = qdiscs.iter().find(|qdisc| qdisc.place == Place::Root);
    let mut words = root.map_or_else(String::new, Qdisc::to_string);
    for (kind, count) in kinds {
        words += &format!(", below it {count} {kind}");
    }
    let drops: u64 = root.and_then(|root| root.drops).unwrap_or(0).into();
    if drops > 0 {
        words += &format!("; dropped {drops}");
    }
    words
}

/// Returns a queueing discipline as a JSON object.
fn data(qdisc: &Qdisc) -> Value {
    let place = match qdisc.place {
        Place::Root => json!("root"),
        Place::Ingress => json!("ingress"),
        Place::Below { major, minor } => json!(format!("{major:x}:{minor:x}")),
    };
    let options = match &qdisc.options {
        QdiscOptions::Fq(fq) => json!({
            "limit": fq.limit, "flow_limit": fq.flow_limit, "quantum": fq.quantum, "initial_quantum": fq.initial_quantum,
            "pacing": fq.pacing, "horizon_us": fq.horizon.map(|time| time.as_micros() as u64), "horizon_drop": fq.horizon_drop,
            "timer_slack_ns": fq.timer_slack.map(|time| time.as_nanos() as u64),
        }),
        QdiscOptions::Etf(etf) => json!({
            "clock": etf.clock, "delta_ns": etf.delta.as_nanos() as u64, "offload": etf.offload,
            "deadline_mode": etf.deadline_mode, "skip_sock_check": etf.skip_sock_check,
        }),
        QdiscOptions::Tbf { rate, burst, limit } => json!({
            "bits_per_second": rate.bits_per_second(), "burst": burst.count(), "limit": limit.count(),
        }),
        QdiscOptions::FqCodel { limit, target, interval } => json!({
            "limit": limit, "target_us": target.map(|time| time.as_micros() as u64),
            "interval_us": interval.map(|time| time.as_micros() as u64),
        }),
        QdiscOptions::Fifo(limit) => json!({ "limit": limit }),
        QdiscOptions::NotRead => Value::Null,
    };
    json!({ "kind": qdisc.kind, "handle": format!("{:x}:", qdisc.handle), "place": place, "options": options, "drops": qdisc.drops })
}

/// Default length of a device's queue in Linux (`txqueuelen`).
const USUAL_QUEUE: u32 = 1000;

/// Judges the device's queue length, which only some queueing disciplines use.
pub(super) fn queue_length(device: &DeviceFacts, _: Option<&Demand>) -> Fact<Judgement> {
    let length = device.link.queue_length.ok_or_else(|| {
        Unavailable::new(
            "the kernel does not report this device's queue length; `ip link show` may show it (qlen)",
        )
    })?;
    let judgement = Judgement::new(format!("{length} packets"), json!(length));
    let Ok(qdiscs) = &device.qdiscs else {
        let why = format!(
            "it matters only with the qdiscs pfifo and pfifo_fast, and this device's qdisc is not known: a queue of {USUAL_QUEUE} packets or more needs no change"
        );
        return Ok(judgement.because(why));
    };
    let is_used = qdiscs.iter().any(|qdisc| qdisc.kind == "pfifo_fast" || qdisc.kind == "pfifo");
    Ok(if !is_used {
        judgement.good().because("this device's qdisc does not use it")
    } else if length < USUAL_QUEUE {
        judgement.better(Some(format!("ip link set {} txqueuelen {USUAL_QUEUE}", device.link.name)))
    } else {
        judgement.good()
    })
}

/// Judges the tests of offloads: the one that is asked for must have passed, or else one that the
/// kernel provides.
pub(super) fn proof(device: &DeviceFacts, demand: Option<&Demand>) -> Fact<Judgement> {
    let proofs = known(&device.proofs)?;
    let value = proofs.iter().map(in_a_word).collect::<Vec<_>>().join(", ");
    let data = proofs.iter().map(|Proved { transport, proof }| {
        json!({
            "offload": proof.offload.word(), "transport": transport.to_string(), "held": proof.held,
            "median_error": proof.median_error, "p99_us": proof.p99.map(micros), "seen": proof.why,
        })
    });
    let judgement = Judgement::new(value, data.collect());
    let tried = |offload, transport| {
        proofs.iter().find(|proved| proved.proof.offload == offload && proved.transport == transport)
    };
    let held = |offload, transport| tried(offload, transport).is_some_and(|proved| proved.proof.held);
    if let Some((demand, asked)) = demand.and_then(|demand| Some((demand, demand.offload?))) {
        let tried = tried(asked, demand.transport());
        if tried.is_some_and(|proved| proved.proof.held) {
            return Ok(judgement.good());
        }
        let seen = tried.map_or("it could not be tried", |proved| proved.proof.why.as_str());
        let judgement = judgement.because(format!(
            "the configuration asks for {asked}, without which a run is refused: {seen}; offload = \"auto\" in [shaping] permits another way"
        ));
        return Ok(judgement.bad(command_for(asked, device)));
    }
    if let Some(remark) = remark(device, demand) {
        return Ok(judgement.good().because(remark));
    }
    let by_the_kernel = match demand.map(Demand::transport) {
        Some(Transport::Tcp) => held(Offload::PacingRate, Transport::Tcp),
        _ => held(Offload::Txtime, Transport::Udp) || held(Offload::Etf, Transport::Udp),
    };
    Ok(if by_the_kernel { judgement.good() } else { judgement.better(fq_command(device)) })
}

/// Returns the command that makes this offload work on the device; `None` if there is none.
fn command_for(offload: Offload, device: &DeviceFacts) -> Option<String> {
    match offload {
        Offload::Software => None,
        Offload::Tbf => Some(format!("evbd provision CONFIG apply --device {}", device.link.name)),
        Offload::Txtime | Offload::PacingRate | Offload::Etf => fq_command(device),
    }
}

/// Describes the result of a test in a few words.
fn in_a_word(Proved { transport, proof }: &Proved) -> String {
    match (proof.offload, proof.held, proof.p99) {
        (Offload::Software, _, Some(p99)) => format!("evb's timers keep times within {}", brief(p99)),
        (Offload::Software, _, None) => format!("evb's timers could not be measured ({})", proof.why),
        (offload, true, _) => format!("{offload} ({transport}) works"),
        (offload, false, _) => format!("{offload} ({transport}) does not work"),
    }
}

/// Returns the reason why departure times do not matter on the device; `None` if they matter.
fn remark(device: &DeviceFacts, demand: Option<&Demand>) -> Option<&'static str> {
    if device.link.loopback {
        Some("packets on the loopback need no pace")
    } else if demand.is_some_and(|demand| !demand.is_paced) {
        Some("this configuration paces nothing: it needs no departure times")
    } else {
        None
    }
}

/// Returns the command that installs `fq`, which keeps departure times. `None` if the device has it
/// already, if this kernel lacks it, or if another discipline was installed on purpose.
fn fq_command(device: &DeviceFacts) -> Option<String> {
    let qdiscs = device.qdiscs.as_deref().unwrap_or_default();
    let is_free = matches!(kind_of(qdiscs), None | Some(Kind::NoQueue | Kind::Plain));
    if !is_free || device.fq_exists == Ok(false) {
        return None;
    }
    let dev = &device.link.name;
    // Below the root `mq`, each of the device's transmit queues has its own discipline.
    let has_queues = qdiscs.iter().any(|qdisc| qdisc.place == Place::Root && qdisc.kind == "mq");
    Some(if has_queues {
        format!("sysctl -w net.core.default_qdisc=fq && tc qdisc replace dev {dev} root mq")
    } else {
        format!("tc qdisc replace dev {dev} root fq")
    })
}
