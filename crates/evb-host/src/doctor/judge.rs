//! Derives findings from facts by a table of rules. Nothing is read or measured here, so that the
//! same facts always give the same verdicts.

mod rule;
mod host;
mod sockets;
mod device;
mod queues;
mod paths;
mod grant;
#[cfg(test)]
mod tests;

use self::rule::Rule;
use super::{
    facts::{DeviceFacts, Facts, PathFacts},
    finding::{Finding, Subject},
};

const HOST: &[Rule<Facts>] = &[
    Rule {
        name: "clock source",
        why: "evb reads the clock several times for each train of packets",
        judge: host::clock,
    },
    Rule {
        name: "timer lateness",
        why: "after a late train, the next one follows closely",
        judge: host::timers,
    },
    Rule { name: "cores", why: host::CORES_MATTER, judge: host::cores },
    Rule {
        name: "frequency governor",
        why: "a core that has lowered its clock is late when the next train is due",
        judge: host::governor,
    },
    Rule {
        name: "memory copies",
        why: "an event builder copies every byte several times",
        judge: host::memory,
    },
];

const SOCKETS: &[Rule<Facts>] = &[
    Rule {
        name: "receive buffer",
        why: "a builder's datagrams wait here while it is busy, and what does not fit is lost",
        judge: sockets::receive_buffer,
    },
    Rule {
        name: "send buffer",
        why: "a source's datagrams wait here until they leave",
        judge: sockets::send_buffer,
    },
    Rule {
        name: "TCP receive limit",
        why: "half of it is the largest window, which must not be smaller than what a lane may have under way",
        judge: |facts, demand| sockets::tcp_limit("net.ipv4.tcp_rmem", &facts.sockets.tcp_receive, demand),
    },
    Rule {
        name: "TCP send limit",
        why: "half of it is the most that a lane can have under way",
        judge: |facts, demand| sockets::tcp_limit("net.ipv4.tcp_wmem", &facts.sockets.tcp_send, demand),
    },
    Rule {
        name: "congestion control",
        why: "grants bound what is under way; this decides how losses are made good, and BBR paces on its own",
        judge: sockets::congestion,
    },
    Rule {
        name: "tcp_tso_rtt_log",
        why: "above 0, TCP sends trains of up to 64 kB to near hosts, whatever its pace: a burst in a shallow port",
        judge: sockets::tso_rtt_log,
    },
];

const DEVICE: &[Rule<DeviceFacts>] = &[
    Rule { name: "link", why: "peers are reached through it", judge: device::link },
    Rule {
        name: "speed",
        why: "admission control and budgets follow from the rate of the link",
        judge: device::speed,
    },
    Rule {
        name: "MTU",
        why: "headers count in budgets: packets must be as large as the configuration says",
        judge: device::mtu,
    },
    Rule {
        name: "offloads",
        why: "a train of packets takes one trip through the kernel, not one for each packet: ten times the rate for UDP",
        judge: device::offloads,
    },
    Rule {
        name: "coalescing",
        why: "the time that a packet waits for its interrupt is part of each grant's round trip",
        judge: device::coalescing,
    },
    Rule {
        name: "rings",
        why: "what arrives while the kernel is busy waits in the receive ring, or is lost in this host",
        judge: device::rings,
    },
    Rule {
        name: "pause frames",
        why: "a pause stops all lanes of a link because of one; evb drops nothing without pause frames",
        judge: device::pause,
    },
    Rule {
        name: "qdisc",
        why: "only fq holds packets until their departure times: without it, evb's own timers pace",
        judge: queues::qdisc,
    },
    Rule {
        name: "txqueuelen",
        why: "datagrams that find this queue full are lost in this host",
        judge: queues::queue_length,
    },
    Rule {
        name: "offload",
        why: "an option that the kernel accepts may do nothing: only what was sent and timed counts",
        judge: queues::proof,
    },
];

const PATH: &[Rule<PathFacts>] = &[
    Rule { name: "path MTU", why: MTU_MATTERS, judge: paths::mtu },
    Rule {
        name: "round trip",
        why: "the time from a grant to its data is at least this",
        judge: paths::round_trip,
    },
];

const MTU_MATTERS: &str = "headers count in budgets, and a packet larger than the path takes is lost";

/// The rule for a configured host name that cannot be resolved, and the reason.
const UNRESOLVED: Rule<(String, String)> = Rule {
    name: "peer",
    why: "a role whose host name does not resolve here cannot be reached",
    judge: paths::unresolved,
};

/// The rule that replaces the rules for paths where no peer is known.
const NO_PEER: Rule<Facts> = Rule { name: "path MTU", why: MTU_MATTERS, judge: paths::no_peer };

const CONFIGURATION: &[Rule<Facts>] = &[
    Rule {
        name: GRANT_PATH,
        why: "the least time from a grant to its first byte, on idle hosts; a run's summary has the time under load",
        judge: grant::path,
    },
    Rule {
        name: "R·C/L",
        why: "utilisation is at most L/(R·C): R is the time from a grant to its data, C the link's rate, L the budget",
        judge: grant::budget,
    },
];

const GRANT_PATH: &str = "grant path";

/// Returns all findings in the order of the output.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let demand = facts.demand.as_ref();
    let mut findings = Vec::new();
    findings.extend(HOST.iter().map(|rule| rule.apply(Subject::Host, facts, demand)));
    findings.extend(SOCKETS.iter().map(|rule| rule.apply(Subject::Sockets, facts, demand)));
    for device in &facts.devices {
        let subject = Subject::Device(device.link.name.clone());
        findings.extend(DEVICE.iter().map(|rule| rule.apply(subject.clone(), device, demand)));
    }
    for path in &facts.paths {
        let subject = Subject::Path(format!("{} ({})", path.address, path.who));
        findings.extend(PATH.iter().map(|rule| rule.apply(subject.clone(), path, demand)));
    }
    let unresolved = facts.unresolved.iter();
    findings.extend(unresolved.map(|name| UNRESOLVED.apply(Subject::Configuration, name, demand)));
    if facts.paths.is_empty() && facts.unresolved.is_empty() {
        findings.push(NO_PEER.apply(Subject::Configuration, facts, demand));
    }
    findings.extend(CONFIGURATION.iter().map(|rule| rule.apply(Subject::Configuration, facts, demand)));
    findings
}

/// Returns the JSON object that `evbd check --path` reads; `None` if the time from a grant to its
/// data was not measured.
pub(super) fn grant_path(findings: &[Finding]) -> Option<&serde_json::Value> {
    let found = findings.iter().find(|finding| finding.name == GRANT_PATH && !finding.unavailable)?;
    Some(&found.data)
}
