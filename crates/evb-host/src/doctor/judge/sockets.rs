//! Rules about socket buffers and TCP settings.

use evb_core::units::Bytes;
use evb_net::host::Fact;
use serde_json::json;

use super::{
    super::{
        facts::{Demand, Facts},
        finding::Judgement,
    },
    rule::known,
};
use crate::socket_buffers::Asked;

pub(super) fn receive_buffer(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    let is_configured = demand.is_some_and(|demand| demand.receive_buffer.is_some());
    let most = facts.sockets.receive_most.as_ref().ok();
    Ok(buffer("net.core.rmem_max", known(&facts.sockets.receive)?, most, demand, is_configured))
}

pub(super) fn send_buffer(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    let is_configured = demand.is_some_and(|demand| demand.send_buffer.is_some());
    let most = facts.sockets.send_most.as_ref().ok();
    Ok(buffer("net.core.wmem_max", known(&facts.sockets.send)?, most, demand, is_configured))
}

/// Judges a socket buffer: the kernel gives less than was asked if `setting` limits it.
fn buffer(
    setting: &str,
    Asked { asked, got }: &Asked,
    most: Option<&Bytes>,
    demand: Option<&Demand>,
    is_configured: bool,
) -> Judgement {
    let mut value = format!("asked {asked}, got {got}");
    if let Some(most) = most {
        value += &format!(" ({setting} = {most})");
    }
    let data = json!({ "asked": asked.count(), "got": got.count(), "most": most.map(|most| most.count()) });
    let judgement = Judgement::new(value, data);
    let command = Some(format!("sysctl -w {setting}={}", asked.count()));
    if got >= asked {
        judgement.good()
    } else if is_configured {
        let why = format!("the configuration asks for {asked}, and the kernel gives only {got}");
        judgement.bad(command).because(why)
    } else if demand.is_some_and(|demand| !demand.by_datagrams) {
        judgement.good().because("this configuration uses TCP, which sizes its own buffers")
    } else {
        judgement.better(command)
    }
}

/// Assumed number of bytes that a lane has under way if the configuration sets no limit: a lane's
/// share of the default budget.
const LANE_SHARE: Bytes = Bytes::mib(2);

pub(super) fn tcp_receive_limit(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    tcp_limit("net.ipv4.tcp_rmem", &facts.sockets.tcp_receive, demand)
}

pub(super) fn tcp_send_limit(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    tcp_limit("net.ipv4.tcp_wmem", &facts.sockets.tcp_send, demand)
}

/// Judges a limit of TCP's own buffers against twice the share of a lane.
fn tcp_limit(setting: &str, fact: &Fact<[u64; 3]>, demand: Option<&Demand>) -> Fact<Judgement> {
    let [least, usual, most] = *known(fact)?;
    let wanted = demand.and_then(|demand| demand.lane_share).unwrap_or(LANE_SHARE) * 2;
    let judgement = Judgement::new(
        format!("up to {}, each source's connection wants {wanted}", Bytes::new(most)),
        json!({ "least": least, "default": usual, "most": most, "wanted": wanted.count() }),
    );
    Ok(if most >= wanted.count() {
        judgement.good()
    } else {
        judgement.better(Some(format!("sysctl -w {setting}=\"{least} {usual} {}\"", wanted.count())))
    })
}

/// Judges the congestion control that the kernel gives.
pub(super) fn congestion(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    let facts = &facts.sockets.congestion;
    let got = known(&facts.got)?;
    let or_unknown = |fact: &Fact<String>| fact.clone().unwrap_or_else(|_| "not known".to_owned());
    let value = format!(
        "{got} (default {}; loaded {}; usable without root {})",
        or_unknown(&facts.default),
        or_unknown(&facts.available),
        or_unknown(&facts.allowed)
    );
    let names = |fact: &Fact<String>| {
        let names = fact.as_ref().ok()?.split_whitespace().map(str::to_owned);
        Some(names.collect::<Vec<_>>())
    };
    let (available, allowed) = (names(&facts.available), names(&facts.allowed));
    let judgement = Judgement::new(
        value,
        json!({
            "asked": facts.asked,
            "got": got,
            "default": facts.default.as_ref().ok(),
            "available": available,
            "allowed": allowed,
        }),
    );
    if *got != facts.asked {
        let command = how_to_get(&facts.asked, &available.unwrap_or_default(), &allowed.unwrap_or_default());
        let is_configured = demand.is_some_and(|demand| demand.congestion_control.is_some());
        let remedy = if command.is_none() {
            format!(
                ": `sysctl -w net.ipv4.tcp_congestion_control={}` sets it, and `dmesg` may say why that fails",
                facts.asked
            )
        } else {
            String::new()
        };
        let judgement = judgement
            .because(format!("evb asks for {}, and the kernel uses {got} instead{remedy}", facts.asked));
        return Ok(if is_configured { judgement.bad(command) } else { judgement.better(command) });
    }
    // doctor accepts BBR as a deliberate choice, but recommends another congestion control: BBR
    // reaches only 923 to 943 of 952 Mbit/s.
    Ok(if got.starts_with("bbr") {
        let why = "BBR paces on its own, and fills less of the link than cubic: write congestion_control = \"cubic\" in [network]";
        judgement.better(None).because(why)
    } else {
        judgement.good()
    })
}

/// Returns the command that makes a congestion control available to evb; `None` if it should be
/// available already.
fn how_to_get(asked: &String, available: &[String], allowed: &[String]) -> Option<String> {
    if !available.contains(asked) {
        return Some(format!("modprobe tcp_{asked}"));
    }
    let names = allowed.join(" ");
    let command = format!("sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{names} {asked}\"");
    (!allowed.contains(asked)).then_some(command)
}

/// Judges the setting by which TCP makes long trains to near hosts, which defeat pacing.
pub(super) fn tso_rtt_log(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    let log = *known(&facts.sockets.tso_rtt_log)?;
    let judgement = Judgement::new(log.to_string(), json!(log));
    let counts = demand.is_none_or(|demand| demand.is_paced && !demand.by_datagrams);
    Ok(if log == 0 {
        judgement.good()
    } else if counts {
        judgement.better(Some("sysctl -w net.ipv4.tcp_tso_rtt_log=0".to_owned()))
    } else {
        judgement.good().because("matters where TCP is paced by rate; this configuration's lanes are not")
    })
}
