//! Rules about the clock, timers, cores and memory of this host.

use std::{collections::BTreeSet, time::Duration};

use evb_net::{host::Fact, pacing::SPIN_CORES};
use serde_json::json;

use super::{
    super::{
        facts::{ClockFacts, CoreFacts, Demand, Facts},
        finding::Judgement,
    },
    rule::{brief, known, micros},
};

/// Largest good time for reading the clock: below a tenth of the time for handling a small packet,
/// and short enough to show that no system call is needed.
const CHEAP_CLOCK: Duration = Duration::from_nanos(200);
/// Largest good timer lateness, which evb's timers keep on an idle host with a margin.
const PUNCTUAL: Duration = Duration::from_micros(100);
/// Least ratio of the measured rate of copies to the needed one that is good: the same cores also
/// run the network stack, and other programs use the same memory.
const COMFORTABLE: f64 = 2.0;

pub(super) const CORES_MATTER: &str =
    "sources, builders and the kernel's network stack run at the same time, for which evb wants 4 cores";
const _: () = assert!(SPIN_CORES == 4);

/// Judges how long a reading of the clock takes.
pub(super) fn clock(facts: &Facts, _: Option<&Demand>) -> Fact<Judgement> {
    let ClockFacts { source, reading_cost, .. } = &facts.clock;
    let source = known(source)?;
    let value = format!("{}, {} a reading", source.current, brief(*reading_cost));
    let judgement = Judgement::new(
        value,
        json!({
            "current": source.current,
            "available": source.available,
            "look_ns": reading_cost.as_nanos() as u64,
        }),
    );
    if *reading_cost <= CHEAP_CLOCK {
        return Ok(judgement.good());
    }
    let has_better = source.current != "tsc" && source.available.iter().any(|name| name == "tsc");
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Ok(if has_better {
        judgement.better(Some(format!("echo tsc > {path}")))
    } else {
        judgement.better(None).also(": use another host if this one does not reach the rate")
    })
}

/// Judges how late timers are, which a lane's burst must make up for.
pub(super) fn timers(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    let late = known(&facts.clock.lateness)?;
    let (p50, p99, max, count) = (late.p50, late.p99, late.max, late.count);
    let value =
        format!("median {}, 99 % below {}, longest {} of {count}", brief(p50), brief(p99), brief(max));
    let data = json!({ "p50_us": micros(p50), "p99_us": micros(p99), "max_us": micros(max), "count": count });
    let mut judgement = Judgement::new(value, data);
    // A lane's burst lets it catch up after lateness. Longer lateness reduces the lane's rate.
    let pace = demand.and_then(|demand| demand.pace);
    if let Some(pace) = pace {
        judgement = judgement.because(format!(
            "a lane (source to builder) of {} makes up for timers that are up to {} late, with packets that follow closely and fill the port's buffer; later timers lower its rate",
            pace.rate,
            brief(pace.burst / pace.rate)
        ));
    }
    let loses = |lateness| pace.is_some_and(|pace| pace.rate * lateness > pace.burst);
    if p99 <= PUNCTUAL && !loses(p99) {
        return Ok(judgement.good());
    }
    // Cores wake late if they sleep deeply or reduce their clock frequency. Only the frequency
    // governor can be changed by a command.
    let command = governor_command(&facts.cores);
    if command.is_none() {
        judgement = judgement.also(": stop what else runs on this host, or give evb cores of its own");
    }
    Ok(if loses(p50) { judgement.bad(command) } else { judgement.better(command) })
}

/// Judges whether this process may use enough cores, and those that the configuration names.
pub(super) fn cores(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    let cores = &facts.cores.cores;
    let (online, allowed) = (known(&cores.online)?, known(&cores.allowed)?);
    let mut value = format!("{} of {} usable", allowed.len(), online.len());
    if let Ok(isolated) = &cores.isolated
        && !isolated.is_empty()
    {
        value += &format!(", isolated {}", list(isolated));
    }
    if let Some(quota) = cores.quota {
        value += &format!(", limited to the processor time of {quota:.2} cores");
    }
    let judgement = Judgement::new(
        value,
        json!({ "online": online, "allowed": allowed, "isolated": cores.isolated.as_ref().ok(), "quota": cores.quota }),
    );
    let affinity = || format!("taskset -c {} evbd run CONFIG", list(online));
    let bound = demand.map(|demand| &demand.cores);
    if let Some((lost, role)) =
        bound.and_then(|bound| bound.iter().find(|(core, _)| !allowed.contains(*core)))
    {
        let why = match online.contains(lost) {
            true => {
                "which this process may not use: write another core as its `cpu`, or start evbd with this core"
            }
            false => "which this host does not have: write a core of this host as its `cpu`",
        };
        let judgement = judgement.because(format!("the configuration binds {role} to core {lost}, {why}"));
        return Ok(judgement.bad(online.contains(lost).then(affinity)));
    }
    let granted = cores.quota.unwrap_or(f64::MAX);
    Ok(if (allowed.len() as f64).min(granted) >= SPIN_CORES as f64 {
        judgement.good()
    } else {
        let command = (allowed.len() < online.len()).then(affinity);
        let remedy = if command.is_none() { ": give this host or process more cores" } else { "" };
        judgement.better(command).also(remedy)
    })
}

/// Judges the governors of the cores' frequencies.
pub(super) fn governor(facts: &Facts, _: Option<&Demand>) -> Fact<Judgement> {
    let governors = known(&facts.cores.governors)?;
    let value = governors.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let judgement = Judgement::new(value, json!(governors));
    Ok(match governor_command(&facts.cores) {
        None => judgement.good(),
        command => judgement.better(command),
    })
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

/// The reason without a verdict where the configuration does not say what the roles here copy.
const UNKNOWN_NEED: &str = "what the roles of this host need is not known: write `link_rate` in [network], and run this where a source or builder is";

/// Judges how fast memory is copied, against what the roles of this host copy.
pub(super) fn memory(facts: &Facts, demand: Option<&Demand>) -> Fact<Judgement> {
    let found = known(&facts.memory)?;
    let threads =
        if found.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", found.threads) };
    let needed = demand.and_then(|demand| demand.copies);
    let judgement = Judgement::new(
        format!("{} by {threads}", found.rate),
        json!({
            "bits_per_second": found.rate.bits_per_second(),
            "threads": found.threads,
            "needed_bits_per_second": needed.map(|needed| needed.bits_per_second()),
        }),
    );
    let Some(needed) = needed else {
        return Ok(if demand.is_some() { judgement.because(UNKNOWN_NEED) } else { judgement.good() });
    };
    let ratio = found.rate.bytes_per_second() / needed.bytes_per_second().max(1.0);
    let remedy = if ratio < COMFORTABLE {
        ", so they may be slower: host fewer of them here, or use a faster host"
    } else {
        ""
    };
    let judgement = judgement.because(format!(
        "the sources and builders of this host copy {needed} while their links are full{remedy}"
    ));
    Ok(if ratio >= COMFORTABLE {
        judgement.good()
    } else if ratio >= 1.0 {
        judgement.better(None)
    } else {
        judgement.bad(None)
    })
}
