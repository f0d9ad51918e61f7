//! Rules about the time R from a grant to its data: its stages, as far as this host can measure
//! them without a run, and whether the bytes under way (L) keep a link of rate C busy during R.

use std::time::Duration;

use evb_net::host::{Fact, Unavailable, clocks::Lateness};
use serde_json::{Value, json};

use super::{
    super::{
        facts::{Demand, Facts, StageFacts},
        finding::Judgement,
    },
    paths,
    rule::{brief, known, micros},
};

/// Largest ratio R·C/L that is good. The other half of L allows for the processing time of lanes,
/// which ping does not measure.
const COMFORTABLE: f64 = 0.5;

/// Remedy for a link that waits for grants.
const REMEDY: &str = "write a larger `budget` in [shaping] if the port's buffer permits it, lower the interrupt coalescing (`ethtool -C`), or use faster hosts";

/// Reason without a verdict where only this host was measured.
const WITHOUT_NETWORK: &str = "the network is not included, because no peer answers ping: let a peer answer, or name a host with --peer ADDRESS";

/// Judges the time from a grant to its data: the writes and wake-ups of two threads of this host,
/// plus a ping for the network. The other host is assumed to be as fast as this host.
pub(super) fn path(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    let turn = known(&facts.turn)?;
    let StageFacts { write, far_wake_up, answer, wake_up } = known(&turn.stages)?;
    let is_remote = facts.paths.iter().any(|path| !path.is_here) || !facts.unresolved.is_empty();
    let ping = paths::farthest(&facts.paths).filter(|(path, _)| !path.is_here);
    // The slowest ping replaces the 99th percentile, for which there are too few pings.
    let echoes = ping.and_then(|(path, _)| path.echoes.as_ref().ok()?.times);
    let (network_p50, network_p99) =
        echoes.map_or((Duration::ZERO, Duration::ZERO), |times| (times.p50, times.max));
    let with_network = ping.is_some() || (demand.is_some() && !is_remote);
    let (p50, p99) = (turn.whole.p50 + network_p50, turn.whole.p99 + network_p99);
    let measured = [write, far_wake_up, answer, wake_up].map(|stage| stage.p50).iter().sum();
    let rest = p50.saturating_sub(measured);
    let how = match ping {
        Some((path, _)) => format!("ping to {} and an exchange of two threads", path.address),
        None if with_network => "an exchange of two threads over the loopback".to_owned(),
        None => "an exchange of two threads, without the network: no peer answers ping".to_owned(),
    };
    let value = format!(
        "data come {} (median; 99 % below {}) after a builder asks a source for them (its grant), measured by {how}; of this, the builder's write takes {}, the source's wake-up {}, the source's answer {}, the builder's wake-up {}, the network and the rest {}",
        brief(p50),
        brief(p99),
        brief(write.p50),
        brief(far_wake_up.p50),
        brief(answer.p50),
        brief(wake_up.p50),
        brief(rest)
    );
    let judgement = Judgement::new(
        value,
        json!({
            "first_byte": { "p50": micros(p50), "p99": micros(p99) },
            "builder_write": stage(write),
            "source_wake_up": stage(far_wake_up),
            "source_answer": stage(answer),
            "builder_wake_up": stage(wake_up),
            "derived_rest": { "p50": micros(rest) },
            "with_network": with_network,
            "measured": how,
        }),
    );
    Ok(match demand.and_then(|demand| ratio(demand, p99)) {
        Some(ratio) if ratio > 1.0 => judgement.better(None).because(format!(
            "the slowest data take {ratio:.2} times as long to come as the budget lasts, so a builder's port is idle at times: {REMEDY}"
        )),
        Some(_) if with_network => judgement.good(),
        Some(_) => judgement.because(WITHOUT_NETWORK),
        None if demand.is_none() => judgement
            .because("not judged, because no configuration was given; give it as in `evbd doctor evb.toml`"),
        None => judgement.because("not judged, for the reason that the line R·C/L gives"),
    })
}

fn stage(times: &Lateness) -> Value {
    json!({ "p50": micros(times.p50), "p99": micros(times.p99), "max": micros(times.max) })
}

/// Returns R·C/L for this time R; `None` if the configuration does not state C and L.
fn ratio(demand: &Demand, time: Duration) -> Option<f64> {
    let in_time = demand.link_rate? * time;
    Some(in_time.count() as f64 / demand.under_way?.count().max(1) as f64)
}

/// Judges whether the budget lasts until the data for the next grant arrive.
pub(super) fn budget(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    let missing = |reason: &str| Unavailable::new(reason);
    let demand =
        demand.ok_or_else(|| missing("no configuration was given; give it as in `evbd doctor evb.toml`"))?;
    let link_rate = demand
        .link_rate
        .ok_or_else(|| missing("the configuration states no link_rate; add it to [network]"))?;
    let under_way = demand.under_way.ok_or_else(|| {
        let mode = demand.mode.word();
        missing(&format!(
            "with mode = \"{mode}\" no source waits for a builder to ask for data, so nothing needs to be done"
        ))
    })?;
    let RoundTrip { time, how, is_partial } = round_trip(facts)
        .ok_or_else(|| missing("no peer answers ping, and the loopback cannot be measured; let a peer answer ping, or name one with --peer ADDRESS"))?;
    let ratio = ratio(demand, time).unwrap_or_default();
    let judgement = Judgement::new(
        format!(
            "{ratio:.3}: data come {} after a builder asks a source for them (R), measured by {how}, and the budget of {under_way} (L) lasts {} at {link_rate} (C)",
            brief(time),
            brief(under_way / link_rate)
        ),
        json!({
            "ratio": ratio, "round_trip_us": micros(time), "measured": how, "with_network": !is_partial,
            "bits_per_second": link_rate.bits_per_second(), "bytes": under_way.count(),
        }),
    );
    Ok(if ratio >= 1.0 {
        judgement
            .bad(None)
            .because(format!("at most {:.0} % of the link can be used: {REMEDY}", 100.0 / ratio))
    } else if is_partial {
        judgement.because(WITHOUT_NETWORK)
    } else if ratio <= COMFORTABLE {
        judgement.good()
    } else {
        judgement.better(None).because(format!("the budget only just fills the link: {REMEDY}"))
    })
}

/// The round trip of a grant, and the origin of its time.
struct RoundTrip {
    time: Duration,
    /// Description of the measurement for the output.
    how: String,
    /// True if the time lacks the delay of the network.
    is_partial: bool,
}

/// Returns the round trip to the farthest peer that answers ping, plus one exchange between threads
/// of this host, because a program must wake up at both ends.
fn round_trip(facts: &Facts) -> Option<RoundTrip> {
    let turn = facts.turn.as_ref().ok().map(|turn| turn.whole.p50);
    let is_remote = facts.paths.iter().any(|path| !path.is_here);
    match paths::farthest(&facts.paths) {
        Some((path, time)) if !path.is_here => {
            let how = format!("ping to {} and an exchange of two threads", path.address);
            Some(RoundTrip { time: time + turn.unwrap_or_default(), how, is_partial: false })
        }
        _ => {
            let how = "an exchange of two threads over the loopback".to_owned();
            Some(RoundTrip { time: turn?, how, is_partial: is_remote || !facts.unresolved.is_empty() })
        }
    }
}
