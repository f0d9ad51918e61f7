//! Rules about the paths to peers: names, MTU, round trip.

use std::time::Duration;

use evb_core::units::Bytes;
use evb_net::host::{Fact, Unavailable, echo::Echo};
use serde_json::json;

use super::{
    super::{
        facts::{Demand, Facts, PathFacts},
        finding::Judgement,
    },
    rule::{brief, known, micros},
};

/// MTU that every Ethernet switch supports.
const USUAL_MTU: u32 = 1500;

pub(super) fn unresolved((host, reason): &(String, String), _: Option<&Demand>) -> Fact<Judgement> {
    let judgement = Judgement::new(format!("{host}: {reason}"), json!({ "host": host }));
    Ok(judgement.bad(Some(format!("getent hosts {host}"))))
}

pub(super) fn no_peer(_: &Facts, _: Option<&Demand>) -> Fact<Judgement> {
    Err(Unavailable::new("no peer is known; give a configuration, or a host with --peer"))
}

/// Judges whether packets of full size arrive, and whether they have the configured size.
pub(super) fn mtu(path: &PathFacts, demand: Option<&Demand>) -> Fact<Judgement> {
    let mtu = *known(&path.mtu)?;
    let (proof, code) = match &path.full_size {
        None => ("no ping was answered, so it is not known whether such packets arrive", "not asked"),
        Some(Ok(Echo::Answered(_))) => ("a ping of this size was answered", "answered"),
        Some(Ok(Echo::Silence)) => ("a ping of this size was NOT answered", "silence"),
        Some(Ok(Echo::TooLarge)) => ("a ping of this size does not leave this host", "too large"),
        Some(Err(_)) => (
            "a ping of this size could not be sent, so the path is not tested, which matters only if runs hang",
            "failed",
        ),
    };
    let device = path.device.as_ref().ok();
    let judgement = Judgement::new(
        format!(
            "packets of up to {mtu} B leave by {}; {proof}",
            device.map_or("an unknown device", String::as_str)
        ),
        json!({ "mtu": mtu, "device": device, "full_size": code }),
    );
    if matches!(path.full_size, Some(Ok(Echo::Silence | Echo::TooLarge))) {
        // The recommended command changes the device's MTU, which helps all peers behind the
        // device. A route to one peer would need the address of a gateway.
        let device = device.filter(|_| mtu > USUAL_MTU);
        return Ok(judgement.bad(device.map(|device| format!("ip link set {device} mtu {USUAL_MTU}"))).because(
            "small packets arrive and packets of this size do not, so runs would hang: set the same MTU on all devices and switches on the way",
        ));
    }
    Ok(match demand {
        Some(demand) if !path.is_here && Bytes::new(mtu.into()) < demand.mtu => {
            let asked = demand.mtu.count();
            let judgement =
                judgement.because(format!("the configuration says mtu = {asked}, more than leaves this host: write mtu = {mtu} in [network]"));
            if demand.by_datagrams { judgement.bad(None) } else { judgement.better(None) }
        }
        _ if path.full_size.is_none() => judgement.because(
            "if packets of this size do not arrive, runs hang: let the peer answer ping, and run the doctor again",
        ),
        _ => judgement.good(),
    })
}

/// Judges the pings that were answered.
pub(super) fn round_trip(path: &PathFacts, _: Option<&Demand>) -> Fact<Judgement> {
    let echoes = known(&path.echoes)?;
    let times = echoes.times.ok_or_else(|| {
        Unavailable::new(
            "no answer to ping: start the host, or let its firewall pass ping, to have this measured",
        )
    })?;
    let (p50, max, answered, sent) = (times.p50, times.max, times.count, echoes.sent);
    let judgement = Judgement::new(
        format!("median {}, longest {}; {answered} of {sent} pings answered", brief(p50), brief(max)),
        json!({ "p50_us": micros(p50), "max_us": micros(max), "answered": answered, "sent": sent }),
    );
    Ok(if answered == sent {
        judgement.good()
    } else {
        judgement.better(None).because(
            "packets are lost on the way without any load, and evb has to send them again: look for errors on cables and switch ports",
        )
    })
}

/// Returns the peer with the longest median round trip among those that answer ping, with this
/// time.
pub(super) fn farthest(paths: &[PathFacts]) -> Option<(&PathFacts, Duration)> {
    let answered = |path: &PathFacts| Some(path.echoes.as_ref().ok()?.times?.p50);
    paths.iter().filter_map(|path| Some((path, answered(path)?))).max_by_key(|(_, time)| *time)
}
