//! Findings about a device: its queueing disciplines, the length of its queue, and the mechanisms
//! that keep departure times on it.

use evb_core::units::Rate;
use evb_net::host::{
    Unavailable,
    qdisc::{Etf, Place, Qdisc, QdiscOptions},
};
use evb_net::pacing::{Offload, Transport};
use serde_json::{Value, json};

use super::{
    super::{
        facts::{Demand, DeviceFacts, Proved},
        finding::Finding,
    },
    brief,
    device::subject,
};

pub(super) fn findings(device: &DeviceFacts, demand: Option<&Demand>) -> Vec<Finding> {
    vec![qdisc(device, demand), queue_length(device), proof(device, demand)]
}

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

fn qdisc(device: &DeviceFacts, demand: Option<&Demand>) -> Finding {
    let (name, why) =
        ("qdisc", "only fq holds packets until their departure times: without it, evb's own timers pace");
    let about = subject(device);
    let found = match &device.qdiscs {
        Ok(qdiscs) => kind_of(qdiscs).map(|kind| (qdiscs, kind)),
        Err(reason) => return Finding::missing(about, name, reason, why),
    };
    let Some((qdiscs, kind)) = found else {
        let reason = Unavailable::new("the kernel names none for this device");
        return Finding::missing(about, name, &reason, why);
    };
    let value = in_words(qdiscs);
    let finding = Finding::new(about, name, value, why).data(qdiscs.iter().map(data).collect());
    let because = |why: &str, finding: Finding| Finding { why: why.to_owned(), ..finding };
    let dev = &device.link.name;
    match kind {
        Kind::Fq => because("holds packets until their departure times", finding.good()),
        Kind::DropsUntimed => because(
            "etf as root drops every packet without a departure time, TCP and ARP among them",
            finding.bad(Some(format!("tc qdisc del dev {dev} root"))),
        ),
        Kind::Emulates => because(
            "netem delays or drops packets on purpose: right in a test, wrong in a run",
            finding.better(Some(format!("tc qdisc del dev {dev} root"))),
        ),
        Kind::Limited(rate) => limited(finding, rate, demand, dev),
        Kind::Classes => because("its classes decide what passes, and doctor does not judge them", finding),
        Kind::NoQueue | Kind::Plain => match (remark(device, demand), &device.fq_exists) {
            (Some(remark), _) => because(remark, finding.good()),
            (None, Ok(false)) => because(
                "only fq holds packets until their departure times, and this kernel has none: use one with the module sch_fq",
                finding.better(None),
            ),
            (None, _) => finding.better(fq_command(device)),
        },
    }
}

fn limited(finding: Finding, rate: Rate, demand: Option<&Demand>, dev: &str) -> Finding {
    match demand.and_then(|demand| demand.link_rate) {
        Some(link) if rate < link => {
            let why = format!("it passes only {rate}, but the configuration assumes {link}");
            Finding { why, ..finding.bad(Some(format!("tc qdisc del dev {dev} root"))) }
        }
        Some(_) => Finding { why: "it passes what the configuration asks".to_owned(), ..finding.good() },
        None => Finding { why: format!("nothing above {rate} passes"), ..finding },
    }
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

fn queue_length(device: &DeviceFacts) -> Finding {
    let (name, why) = ("txqueuelen", "datagrams that find this queue full are lost in this host");
    let about = subject(device);
    let Some(length) = device.link.queue_length else {
        return Finding::missing(about, name, &Unavailable::new("the kernel does not report it"), why);
    };
    let finding = Finding::new(about, name, length.to_string(), why).data(json!(length));
    let used = match &device.qdiscs {
        Ok(qdiscs) => qdiscs.iter().any(|qdisc| qdisc.kind == "pfifo_fast" || qdisc.kind == "pfifo"),
        Err(_) => return finding,
    };
    if !used {
        Finding { why: "this device's qdisc does not use it".to_owned(), ..finding.good() }
    } else if length < USUAL_QUEUE {
        finding.better(Some(format!("ip link set {} txqueuelen {USUAL_QUEUE}", device.link.name)))
    } else {
        finding.good()
    }
}

fn proof(device: &DeviceFacts, demand: Option<&Demand>) -> Finding {
    let (name, why) =
        ("offload", "an option that the kernel accepts may do nothing: only what was sent and timed counts");
    let about = subject(device);
    let proofs = match &device.proofs {
        Ok(proofs) => proofs,
        Err(reason) => return Finding::missing(about, name, reason, why),
    };
    let value = proofs.iter().map(in_a_word).collect::<Vec<_>>().join(", ");
    let data = proofs.iter().map(|Proved { transport, proof }| {
        json!({
            "offload": proof.offload.word(), "transport": transport.to_string(), "held": proof.held,
            "median_error": proof.median_error, "p99_us": proof.p99.map(|time| time.as_nanos() as f64 / 1e3),
            "seen": proof.why,
        })
    });
    let finding = Finding::new(about, name, value, why).data(data.collect());
    let tried = |offload, transport| {
        proofs.iter().find(|proved| proved.proof.offload == offload && proved.transport == transport)
    };
    let held = |offload, transport| tried(offload, transport).is_some_and(|proved| proved.proof.held);
    if let Some((demand, asked)) = demand.and_then(|demand| Some((demand, demand.offload?))) {
        if held(asked, demand.transport()) {
            return finding.good();
        }
        let seen = tried(asked, demand.transport());
        let seen = seen.map_or("it could not be tried", |proved| proved.proof.why.as_str());
        let why = format!("the configuration asks for {asked}: {seen}");
        return Finding { why, ..finding.bad(command_for(asked, device)) };
    }
    let finding = Finding { why: remark(device, demand).unwrap_or(why).to_owned(), ..finding };
    let by_the_kernel = match demand.map(Demand::transport) {
        Some(Transport::Tcp) => held(Offload::PacingRate, Transport::Tcp),
        _ => held(Offload::Txtime, Transport::Udp) || held(Offload::Etf, Transport::Udp),
    };
    if by_the_kernel || remark(device, demand).is_some() {
        finding.good()
    } else {
        finding.better(fq_command(device))
    }
}

/// Returns the command that makes this offload work on the device; `None` if there is none.
fn command_for(offload: Offload, device: &DeviceFacts) -> Option<String> {
    match offload {
        Offload::Software => None,
        Offload::Tbf => Some(format!("evbd provision CONFIG apply --device {}", device.link.name)),
        Offload::Txtime | Offload::PacingRate | Offload::Etf => fq_command(device),
    }
}

fn in_a_word(Proved { transport, proof }: &Proved) -> String {
    match (proof.offload, proof.held, proof.p99) {
        (Offload::Software, _, Some(p99)) => format!("software within {}", brief(p99)),
        (Offload::Software, _, None) => "software not seen".to_owned(),
        (offload, true, _) => format!("{offload} ({transport}) works"),
        (offload, false, _) => format!("{offload} ({transport}) does not"),
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
