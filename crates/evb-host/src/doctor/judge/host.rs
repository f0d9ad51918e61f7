//! Findings about the clock, timers and cores of this host.

use std::{collections::BTreeSet, time::Duration};

use serde_json::json;

use super::{
    super::{
        facts::{ClockFacts, CoreFacts, Demand, Facts},
        finding::{Finding, Subject},
    },
    brief,
};

/// Largest good time for reading the clock: below a tenth of the time for handling a small packet,
/// and short enough to show that no system call is needed.
const CHEAP_CLOCK: Duration = Duration::from_nanos(200);
/// Largest good timer lateness, which evb's timers keep on an idle host with a margin.
const PUNCTUAL: Duration = Duration::from_micros(100);

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    vec![
        clock(&facts.clock),
        timers(facts),
        cores(&facts.cores, facts.demand.as_ref()),
        governor(&facts.cores),
    ]
}

fn clock(facts: &ClockFacts) -> Finding {
    let (name, why) = ("clock source", "evb reads the clock several times for each train of packets");
    let source = match &facts.source {
        Ok(source) => source,
        Err(reason) => return Finding::missing(Subject::Host, name, reason, why),
    };
    let value = format!("{}, {} a reading", source.current, brief(facts.reading_cost));
    let finding = Finding::new(Subject::Host, name, value, why).data(json!({
        "current": source.current,
        "available": source.available,
        "look_ns": facts.reading_cost.as_nanos() as u64,
    }));
    if facts.reading_cost <= CHEAP_CLOCK {
        return finding.good();
    }
    let has_better = source.current != "tsc" && source.available.iter().any(|name| name == "tsc");
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    finding.better(has_better.then(|| format!("echo tsc > {path}")))
}

fn timers(facts: &Facts) -> Finding {
    let name = "timer lateness";
    let late = match &facts.clock.lateness {
        Ok(late) => late,
        Err(reason) => {
            return Finding::missing(
                Subject::Host,
                name,
                reason,
                "after a late train, the next one follows closely",
            );
        }
    };
    let value = format!(
        "median {}, 99 % below {}, longest {} of {}",
        brief(late.p50),
        brief(late.p99),
        brief(late.max),
        late.count
    );
    // A lane's burst lets it catch up after lateness. Longer lateness reduces the lane's rate.
    let pace = facts.demand.as_ref().and_then(|demand| demand.pace);
    let why = match pace {
        Some(pace) => format!(
            "a lane of {} may catch up {}; lateness beyond that reduces its rate",
            pace.rate, pace.burst
        ),
        None => "after a late train, the next one follows closely".to_owned(),
    };
    let finding = Finding::new(Subject::Host, name, value, why).data(json!({
        "p50_us": micros(late.p50), "p99_us": micros(late.p99), "max_us": micros(late.max), "count": late.count,
    }));
    let loses = |lateness| pace.is_some_and(|pace| pace.rate * lateness > pace.burst);
    // Cores wake late if they sleep deeply or reduce their clock frequency. Only the frequency
    // governor can be changed by a command.
    let command = governor_command(&facts.cores);
    let is_late = late.p99 > PUNCTUAL || loses(late.p99);
    let finding = match &command {
        None if is_late => {
            let why =
                format!("{}: stop what else runs on this host, or give evb cores of its own", finding.why);
            Finding { why, ..finding }
        }
        _ => finding,
    };
    if loses(late.p50) {
        finding.bad(command)
    } else if !is_late {
        finding.good()
    } else {
        finding.better(command)
    }
}

fn cores(facts: &CoreFacts, demand: Option<&Demand>) -> Finding {
    let name = "cores";
    let why = format!(
        "sources, builders and the kernel's network stack run at the same time; spinning needs {} cores",
        evb_net::pacing::SPIN_CORES
    );
    let (online, allowed) = match (&facts.cores.online, &facts.cores.allowed) {
        (Ok(online), Ok(allowed)) => (online, allowed),
        (Err(reason), _) | (_, Err(reason)) => return Finding::missing(Subject::Host, name, reason, why),
    };
    let isolated = facts.cores.isolated.clone().unwrap_or_default();
    let mut value = format!("{} of {} usable", allowed.len(), online.len());
    if !isolated.is_empty() {
        value += &format!(", isolated {}", list(&isolated));
    }
    if let Some(quota) = facts.cores.quota {
        value += &format!(", limited to the time of {quota:.2}");
    }
    let finding = Finding::new(Subject::Host, name, value, why).data(json!({
        "online": online, "allowed": allowed, "isolated": facts.cores.isolated.as_ref().ok(), "quota": facts.cores.quota,
    }));
    let bound = demand.map(|demand| &demand.cores);
    if let Some(lost) = bound.and_then(|bound| bound.difference(allowed).next()) {
        let why = format!(
            "the configuration binds a role to core {lost}, which this process may not use: correct `cpu`, or start evbd with this core"
        );
        let command = online.contains(lost).then(|| affinity(online));
        return Finding { why, ..finding.bad(command) };
    }
    let granted = facts.cores.quota.unwrap_or(f64::MAX);
    if (allowed.len() as f64).min(granted) >= evb_net::pacing::SPIN_CORES as f64 {
        finding.good()
    } else {
        finding.better((allowed.len() < online.len()).then(|| affinity(online)))
    }
}

fn affinity(online: &BTreeSet<usize>) -> String {
    format!("taskset -c {} evbd run CONFIG", list(online))
}

fn governor(facts: &CoreFacts) -> Finding {
    let (name, why) =
        ("frequency governor", "a core that has lowered its clock is late when the next train is due");
    let governors = match &facts.governors {
        Ok(governors) => governors,
        Err(reason) => return Finding::missing(Subject::Host, name, reason, why),
    };
    let value = governors.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let finding = Finding::new(Subject::Host, name, value, why).data(json!(governors));
    match governor_command(facts) {
        None => finding.good(),
        command => finding.better(command),
    }
}

/// Returns the command that sets the `performance` governor; `None` if all cores have it already,
/// or if their governors are unknown.
fn governor_command(facts: &CoreFacts) -> Option<String> {
    let governors = facts.governors.as_ref().ok()?;
    governors
        .iter()
        .any(|governor| governor != "performance")
        .then(|| "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor".to_owned())
}

/// Formats a set of cores in the notation of taskset: `0-3,8`.
fn list(cores: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let run = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
