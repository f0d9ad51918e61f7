//! Derives findings from facts by a table of rules. Nothing is read or measured here, so that the
//! same facts always give the same verdicts.
//!
//! A new rule is a row below and its function, in the file of its subject.

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
    Rule::new(
        "clock source",
        "evb reads the clock several times for each train of packets, so a slow clock costs rate",
        host::clock,
    ),
    Rule::new(
        "timer lateness",
        "after a late train of packets, the next one follows closely, and both meet in the port's buffer",
        host::timers,
    ),
    Rule::new("cores", host::CORES_MATTER, host::cores),
    Rule::new(
        "frequency governor",
        "a core that has lowered its clock is late when the next packets are due",
        host::governor,
    ),
    Rule::new("memory copies", "an event builder copies every byte several times", host::memory),
];

const SOCKETS: &[Rule<Facts>] = &[
    Rule::new(
        "receive buffer",
        "a builder's datagrams wait here while it is busy, and what does not fit is lost",
        sockets::receive_buffer,
    ),
    Rule::new("send buffer", "a source's datagrams wait here until they leave", sockets::send_buffer),
    Rule::new(
        "TCP receive limit",
        "half of it is the largest TCP window; a lane (source to builder) whose window is smaller than what it wants is slower",
        sockets::tcp_receive_limit,
    ),
    Rule::new(
        "TCP send limit",
        "half of it is the most that a lane (source to builder) can have under way, and with less than it wants, it is slower",
        sockets::tcp_send_limit,
    ),
    Rule::new(
        "congestion control",
        "it decides how TCP makes losses good; BBR paces on its own as well, and fills less of the link than cubic",
        sockets::congestion,
    ),
    Rule::new(
        "tcp_tso_rtt_log",
        "above 0, TCP sends trains of up to 64 kB to near hosts, whatever its pace, and a switch port with a small buffer loses packets of them",
        sockets::tso_rtt_log,
    ),
];

const DEVICE: &[Rule<DeviceFacts>] = &[
    Rule::new("link", "evb reaches other hosts through this device", device::link),
    Rule::new("speed", "budgets and checks follow from the rate of the link", device::speed),
    Rule::new(
        "MTU",
        "evb counts headers for packets of the size that the configuration says, so the device must send such packets",
        device::mtu,
    ),
    Rule::new(
        "offloads",
        "with GSO and GRO, a train of packets takes one trip through the kernel instead of one for each packet, with UDP at up to ten times the rate",
        device::offloads,
    ),
    Rule::new(
        "coalescing",
        "packets wait this long for their interrupt, so builders wait longer for the data that they request",
        device::coalescing,
    ),
    Rule::new(
        "rings",
        "packets that arrive while the kernel is busy wait in the receive ring, and those that do not fit are lost",
        device::rings,
    ),
    Rule::new(
        "pause frames",
        "a pause frame stops all traffic of a link because of one receiver; evb does not need pause frames",
        device::pause,
    ),
    Rule::new(
        "qdisc",
        "only fq holds packets until their departure times; without it, evb's own timers pace, which is less exact",
        queues::qdisc,
    ),
    Rule::new(
        "txqueuelen",
        "datagrams that find this queue full are lost in this host",
        queues::queue_length,
    ),
    Rule::new(
        "offload",
        "the kernel may accept an option and ignore it, so evb sent packets and timed them; where the kernel's ways do not work, evb's own timers pace, which is less exact and loses nothing",
        queues::proof,
    ),
];

const PATH: &[Rule<PathFacts>] = &[
    Rule::new("path MTU", MTU_MATTERS, paths::mtu),
    Rule::new("round trip", "the time from a grant to its data is at least this", paths::round_trip),
];

const MTU_MATTERS: &str = "a packet that is larger than the path takes is lost, and runs hang";

/// The rule for a configured host name that cannot be resolved, and the reason.
const UNRESOLVED: Rule<(String, String)> = Rule::new(
    "peer",
    "a role whose host name does not resolve here cannot be reached: correct the name, DNS or /etc/hosts",
    paths::unresolved,
);

/// The rule that replaces the rules for paths where no peer is known.
const NO_PEER: Rule<Facts> = Rule::new("path MTU", MTU_MATTERS, paths::no_peer);

const CONFIGURATION: &[Rule<Facts>] = &[
    Rule::new(
        GRANT_PATH,
        "a builder's port is idle at times if data come later than the builder's budget lasts; a run's summary has the time under load",
        grant::path,
    ),
    Rule::new(
        "R·C/L",
        "above 1, the link is idle for part of the time, because data come later than the builder's budget lasts",
        grant::budget,
    ),
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
