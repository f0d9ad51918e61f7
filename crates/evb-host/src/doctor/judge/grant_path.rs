//! The time from a grant to its data by stage, as far as this host can measure it without a run.

use std::time::Duration;

use evb_net::host::{Unavailable, clocks::Lateness};

use serde_json::{Value, json};

use super::{
    super::{
        facts::{Facts, StageFacts},
        finding::{Finding, Subject},
    },
    brief, paths,
};

/// Name of the finding about the grant path.
pub(super) const NAME: &str = "grant path";

/// Returns the finding on the time from a grant to its data: the writes and wake-ups of two threads
/// of this host, plus a ping for the network. The other host is assumed to be as fast as this host.
pub(super) fn finding(facts: &Facts) -> Finding {
    let why = "the least time from a grant to its first byte, on idle hosts; a run's summary has the time under load";
    let missing = |reason: &Unavailable| Finding::missing(Subject::Configuration, NAME, reason, why);
    let turn = match &facts.turn {
        Ok(turn) => turn,
        Err(reason) => return missing(reason),
    };
    let stages = match &turn.stages {
        Ok(stages) => stages,
        Err(reason) => return missing(reason),
    };
    let remote = facts.paths.iter().any(|path| !path.is_here) || !facts.unresolved.is_empty();
    let ping = paths::farthest(&facts.paths).filter(|(path, _)| !path.is_here);
    // The slowest ping replaces the 99th percentile, for which there are too few pings.
    let echoes = ping.and_then(|(path, _)| path.echoes.as_ref().ok()?.times);
    let network = echoes.map_or((Duration::ZERO, Duration::ZERO), |times| (times.p50, times.max));
    let with_network = ping.is_some() || (facts.demand.is_some() && !remote);
    let (p50, p99) = (turn.whole.p50 + network.0, turn.whole.p99 + network.1);
    let StageFacts { write, far_wake_up, answer, wake_up } = stages;
    let measured = [write, far_wake_up, answer, wake_up].map(|stage| stage.p50).iter().sum();
    let rest = p50.saturating_sub(measured);
    let how = match ping {
        Some((path, _)) => format!("ping to {} and a turn of two threads", path.address),
        None if with_network => "a turn of two threads over the loopback".to_owned(),
        None => "a turn of two threads, without the network: no peer answers ping".to_owned(),
    };
    let value = format!(
        "median {}, 99 % below {} ({how}); medians of write {}, wake-up {}, answer {}, wake-up {}, the rest (derived) {}",
        brief(p50),
        brief(p99),
        brief(write.p50),
        brief(far_wake_up.p50),
        brief(answer.p50),
        brief(wake_up.p50),
        brief(rest)
    );
    let finding = Finding::new(Subject::Configuration, NAME, value, why).data(json!({
        "first_byte": { "p50": micros(p50), "p99": micros(p99) },
        "builder_write": stage(write),
        "source_wake_up": stage(far_wake_up),
        "source_answer": stage(answer),
        "builder_wake_up": stage(wake_up),
        "derived_rest": { "p50": micros(rest) },
        "with_network": with_network,
        "measured": how,
    }));
    match of_budget(facts, p99) {
        Some(part) if part > 1.0 => {
            let why = format!(
                "R·C/L is {part:.2} for the slowest grants: at times a port is idle because it waits for them; a larger budget or faster hosts would help"
            );
            Finding { why, ..finding.better(None) }
        }
        Some(_) if with_network => finding.good(),
        _ => finding,
    }
}

/// Returns R·C/L for this time R; `None` if the configuration does not state C and L.
fn of_budget(facts: &Facts, path: Duration) -> Option<f64> {
    let demand = facts.demand.as_ref()?;
    let in_path = demand.link_rate? * path;
    Some(in_path.count() as f64 / demand.under_way?.count().max(1) as f64)
}

fn stage(times: &Lateness) -> Value {
    json!({ "p50": micros(times.p50), "p99": micros(times.p99), "max": micros(times.max) })
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
