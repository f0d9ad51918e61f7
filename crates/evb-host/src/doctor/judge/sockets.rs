//! Findings about socket buffers and TCP settings.

use evb_core::units::Bytes;
use evb_net::host::{Fact, sockets::Asked};
use serde_json::json;

use super::super::{
    facts::{CongestionFacts, Demand, Facts, SocketFacts},
    finding::{Finding, Subject},
};

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let demand = facts.demand.as_ref();
    let sockets = &facts.sockets;
    vec![
        buffer(&RECEIVE, &sockets.receive, &sockets.receive_most, demand),
        buffer(&SEND, &sockets.send, &sockets.send_most, demand),
        tcp_buffer(&TCP_RECEIVE, &sockets.tcp_receive, demand),
        tcp_buffer(&TCP_SEND, &sockets.tcp_send, demand),
        congestion(&sockets.congestion, demand),
        tso_rtt_log(sockets, demand),
    ]
}

/// The direction of a socket buffer: receive or send.
struct Direction {
    name: &'static str,
    setting: &'static str,
    why: &'static str,
    asked: fn(&Demand) -> Option<Bytes>,
}

const RECEIVE: Direction = Direction {
    name: "receive buffer",
    setting: "net.core.rmem_max",
    why: "a builder's datagrams wait here while it is busy, and what does not fit is lost",
    asked: |demand| demand.receive_buffer,
};
const SEND: Direction = Direction {
    name: "send buffer",
    setting: "net.core.wmem_max",
    why: "a source's datagrams wait here until they leave",
    asked: |demand| demand.send_buffer,
};

fn buffer(direction: &Direction, fact: &Fact<Asked>, most: &Fact<Bytes>, demand: Option<&Demand>) -> Finding {
    let asked = match fact {
        Ok(asked) => asked,
        Err(reason) => return Finding::missing(Subject::Sockets, direction.name, reason, direction.why),
    };
    let mut value = format!("asked {}, got {}", asked.asked, asked.got);
    if let Ok(most) = most {
        value += &format!(" ({} = {})", direction.setting, most.count());
    }
    let finding = Finding::new(Subject::Sockets, direction.name, value, direction.why).data(json!({
        "asked": asked.asked.count(), "got": asked.got.count(), "most": most.as_ref().ok().map(|most| most.count()),
    }));
    if asked.got >= asked.asked {
        return finding.good();
    }
    let command = Some(format!("sysctl -w {}={}", direction.setting, asked.asked.count()));
    match demand {
        Some(demand) if (direction.asked)(demand).is_some() => {
            let why = "the configuration asks for it, but does not get it".to_owned();
            Finding { why, ..finding.bad(command) }
        }
        Some(demand) if !demand.by_datagrams => {
            let why = "this configuration uses TCP, which sizes its own buffers".to_owned();
            Finding { why, ..finding.good() }
        }
        _ => finding.better(command),
    }
}

/// The direction of one of TCP's buffer limits: receive or send.
struct TcpDirection {
    name: &'static str,
    setting: &'static str,
    why: &'static str,
}

const TCP_RECEIVE: TcpDirection = TcpDirection {
    name: "TCP receive limit",
    setting: "net.ipv4.tcp_rmem",
    why: "half of it is the largest window, which must not be smaller than what a lane may have under way",
};
const TCP_SEND: TcpDirection = TcpDirection {
    name: "TCP send limit",
    setting: "net.ipv4.tcp_wmem",
    why: "half of it is the most that a lane can have under way",
};

/// Assumed number of bytes that a lane has under way if the configuration sets no limit: a lane's
/// share of the default budget.
const LANE_SHARE: Bytes = Bytes::mib(2);

fn tcp_buffer(direction: &TcpDirection, fact: &Fact<[u64; 3]>, demand: Option<&Demand>) -> Finding {
    let limits = match fact {
        Ok(limits) => limits,
        Err(reason) => return Finding::missing(Subject::Sockets, direction.name, reason, direction.why),
    };
    let [least, usual, most] = *limits;
    let need = demand.and_then(|demand| demand.lane_share).unwrap_or(LANE_SHARE);
    let value = format!("up to {}, a lane wants {}", Bytes::new(most), need * 2);
    let finding = Finding::new(Subject::Sockets, direction.name, value, direction.why)
        .data(json!({ "least": least, "default": usual, "most": most, "wanted": need.count() * 2 }));
    if Bytes::new(most / 2) >= need {
        finding.good()
    } else {
        let command = format!("sysctl -w {}=\"{least} {usual} {}\"", direction.setting, need.count() * 2);
        finding.better(Some(command))
    }
}

fn congestion(facts: &CongestionFacts, demand: Option<&Demand>) -> Finding {
    let (name, why) = (
        "congestion control",
        "grants bound what is under way; this decides how losses are made good, and BBR paces on its own",
    );
    let got = match &facts.got {
        Ok(got) => got,
        Err(reason) => return Finding::missing(Subject::Sockets, name, reason, why),
    };
    let or_unknown = |fact: &Fact<String>| fact.clone().unwrap_or_else(|_| "?".to_owned());
    let value = format!(
        "{got} (default {}; loaded {}; usable without root {})",
        or_unknown(&facts.default),
        or_unknown(&facts.available),
        or_unknown(&facts.allowed)
    );
    let words = |fact: &Fact<String>| {
        let words = fact.as_ref().ok()?.split_whitespace().map(str::to_owned);
        Some(words.collect::<Vec<_>>())
    };
    let finding = Finding::new(Subject::Sockets, name, value, why).data(json!({
        "asked": facts.asked,
        "got": got,
        "default": facts.default.as_ref().ok(),
        "available": words(&facts.available),
        "allowed": words(&facts.allowed),
    }));
    if *got == facts.asked {
        // doctor accepts BBR as a deliberate choice, but recommends another congestion control: BBR
        // reaches only 923 to 943 of 952 Mbit/s.
        return if got.starts_with("bbr") {
            let why = "BBR paces on its own, and fills less of the link than cubic: choose cubic".to_owned();
            Finding { why, ..finding.better(None) }
        } else {
            finding.good()
        };
    }
    let command = how_to_get(&facts.asked, words(&facts.available), words(&facts.allowed));
    let is_asked = demand.is_some_and(|demand| demand.congestion_control.is_some());
    if is_asked { finding.bad(command) } else { finding.better(command) }
}

/// Returns the command that makes a congestion control available to evb; `None` if it should be
/// available already.
fn how_to_get(asked: &str, available: Option<Vec<String>>, allowed: Option<Vec<String>>) -> Option<String> {
    let has = |names: &Option<Vec<String>>| {
        names.as_ref().is_some_and(|names| names.iter().any(|name| name == asked))
    };
    if !has(&available) {
        return Some(format!("modprobe tcp_{asked}"));
    }
    let names = allowed.clone().unwrap_or_default().join(" ");
    let command = format!("sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{names} {asked}\"");
    (!has(&allowed)).then_some(command)
}

fn tso_rtt_log(facts: &SocketFacts, demand: Option<&Demand>) -> Finding {
    let name = "tcp_tso_rtt_log";
    let why = "above 0, TCP sends trains of up to 64 kB to near hosts, whatever its pace: a burst in a shallow port";
    let log = match &facts.tso_rtt_log {
        Ok(log) => *log,
        Err(reason) => return Finding::missing(Subject::Sockets, name, reason, why),
    };
    let finding = Finding::new(Subject::Sockets, name, log.to_string(), why).data(json!(log));
    let counts = demand.is_none_or(|demand| demand.is_paced && !demand.by_datagrams);
    if log == 0 {
        finding.good()
    } else if counts {
        finding.better(Some("sysctl -w net.ipv4.tcp_tso_rtt_log=0".to_owned()))
    } else {
        let why = "matters where TCP is paced by rate; this configuration's lanes are not".to_owned();
        Finding { why, ..finding.good() }
    }
}
