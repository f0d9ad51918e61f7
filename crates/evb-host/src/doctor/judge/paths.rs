//! Findings about the paths to peers: names, MTU, round trip.

use evb_core::units::Bytes;
use evb_net::host::{Fact, Unavailable, echo::Echo};
use serde_json::json;

use super::{
    super::{
        facts::{Demand, Facts, PathFacts},
        finding::{Finding, Subject},
    },
    brief,
};

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in &facts.paths {
        findings.push(mtu(path, facts.demand.as_ref()));
        findings.push(round_trip(path));
    }
    findings.extend(facts.unresolved.iter().map(unresolved));
    if facts.paths.is_empty() && facts.unresolved.is_empty() {
        let reason = Unavailable::new("no peer is known; give a configuration, or a host with --peer");
        findings.push(Finding::missing(Subject::Configuration, "path MTU", &reason, MTU_MATTERS));
    }
    findings
}

const MTU_MATTERS: &str = "headers count in budgets, and a packet larger than the path takes is lost";

/// MTU that every Ethernet switch supports.
const USUAL_MTU: u32 = 1500;

fn subject(path: &PathFacts) -> Subject {
    Subject::Path(format!("{} ({})", path.address, path.who))
}

fn unresolved((host, reason): &(String, String)) -> Finding {
    let value = format!("{host}: {reason}");
    let finding = Finding::new(
        Subject::Configuration,
        "peer",
        value,
        "a role whose host name does not resolve here cannot be reached",
    );
    finding.data(json!({ "host": host })).bad(Some(format!("getent hosts {host}")))
}

fn mtu(path: &PathFacts, demand: Option<&Demand>) -> Finding {
    let name = "path MTU";
    let about = subject(path);
    let mtu = match &path.mtu {
        Ok(mtu) => *mtu,
        Err(reason) => return Finding::missing(about, name, reason, MTU_MATTERS),
    };
    let (proof, word) = match &path.full_size {
        None => ("no answer to any ping", "not asked"),
        Some(Ok(Echo::Answered(_))) => ("a full packet was answered", "answered"),
        Some(Ok(Echo::Silence)) => ("a full packet was NOT answered", "silence"),
        Some(Ok(Echo::TooLarge)) => ("a full packet does not leave", "too large"),
        Some(Err(_)) => ("a full packet could not be sent", "failed"),
    };
    let device = path.device.as_deref().unwrap_or("?");
    let value = format!("{mtu} by {device}; {proof}");
    let finding = Finding::new(about, name, value, MTU_MATTERS)
        .data(json!({ "mtu": mtu, "device": path.device.as_ref().ok(), "full_size": word }));
    if matches!(path.full_size, Some(Ok(Echo::Silence | Echo::TooLarge))) {
        let why = "small packets get through but full ones do not, so runs would hang: set the same MTU on all devices and switches on the way".to_owned();
        // The recommended command changes the device's MTU, which helps all peers behind the
        // device. A route to one peer would need the address of a gateway.
        let device = path.device.as_ref().ok().filter(|_| mtu > USUAL_MTU);
        return Finding {
            why,
            ..finding.bad(device.map(|device| format!("ip link set {device} mtu {USUAL_MTU}")))
        };
    }
    match demand {
        Some(demand) if !path.is_here && Bytes::new(mtu.into()) < demand.mtu => {
            let why =
                format!("the configuration says {}: write mtu = {mtu} in [network]", demand.mtu.count());
            let finding = Finding { why, ..finding };
            if demand.by_datagrams { finding.bad(None) } else { finding.better(None) }
        }
        _ if path.full_size.is_none() => finding,
        _ => finding.good(),
    }
}

fn round_trip(path: &PathFacts) -> Finding {
    let (name, why) = ("round trip", "the time from a grant to its data is at least this");
    let about = subject(path);
    let echoes = match &path.echoes {
        Ok(echoes) => echoes,
        Err(reason) => return Finding::missing(about, name, reason, why),
    };
    let Some(times) = echoes.times else {
        let reason = Unavailable::new("no answer to ping; a firewall may block it, or the host is down");
        return Finding::missing(about, name, &reason, why);
    };
    let value = format!(
        "median {}, longest {}; {} of {} pings answered",
        brief(times.p50),
        brief(times.max),
        times.count,
        echoes.sent
    );
    let finding = Finding::new(about, name, value, why).data(json!({
        "p50_us": times.p50.as_nanos() as f64 / 1e3, "max_us": times.max.as_nanos() as f64 / 1e3,
        "answered": times.count, "sent": echoes.sent,
    }));
    if times.count == echoes.sent {
        finding.good()
    } else {
        let why = "packets are lost on the way without any load: look for errors on cables and switch ports"
            .to_owned();
        Finding { why, ..finding.better(None) }
    }
}

/// Returns the peer with the longest median round trip among those that answer ping, with this
/// time.
pub(super) fn farthest(paths: &[PathFacts]) -> Option<(&PathFacts, std::time::Duration)> {
    let answered = |path: &'_ PathFacts| -> Option<std::time::Duration> {
        let echoes: &Fact<_> = &path.echoes;
        Some(echoes.as_ref().ok()?.times?.p50)
    };
    paths.iter().filter_map(|path| Some((path, answered(path)?))).max_by_key(|(_, time)| *time)
}
