//! [`Span`]: the changes between two observations of the switch, the disks, and the supervisor's
//! status.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::stage::Stage;
use crate::lab::watch::Flows;

/// Kinds of events, by their names in the supervisor's status.
const KINDS: [&str; 5] = ["triggered", "inhibited", "complete", "incomplete", "lost"];

/// All observed counters at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Mark {
    pub(super) at: Duration,
    pub(super) flows: Flows,
    /// Number of bytes in the event files of all builders.
    pub(super) on_disk: u64,
    /// Number of events by kind; `causes` has the number of inhibited triggers by cause.
    events: BTreeMap<&'static str, f64>,
    causes: BTreeMap<String, f64>,
}

impl Mark {
    pub(super) fn new(at: Duration, flows: Flows, on_disk: u64, status: &Value) -> Result<Self> {
        let survey = &status["survey"];
        let count = |kind| {
            let count = survey["events"][kind].as_f64();
            count
                .map(|count| (kind, count))
                .with_context(|| format!("the status states no `{kind}`: {status}"))
        };
        let causes = survey["dead_time_causes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let cause = |cause: &Value| Some((cause["cause"].as_str()?.to_owned(), cause["inhibited"].as_f64()?));
        Ok(Self {
            at,
            flows,
            on_disk,
            events: KINDS.into_iter().map(count).collect::<Result<_>>()?,
            causes: causes.iter().filter_map(cause).collect(),
        })
    }
}

/// Returns the total size of all files in a folder, in bytes.
pub(super) fn bytes_in(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?.metadata()?;
        bytes += if entry.is_file() { entry.len() } else { 0 };
    }
    Ok(bytes)
}

/// The changes of all counters between two marks.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    pub(super) seconds: f64,
    /// Rates from and to each host, in bit/s.
    flows: BTreeMap<String, (f64, f64)>,
    pub(super) disk_bytes: f64,
    events: BTreeMap<&'static str, f64>,
    causes: BTreeMap<String, f64>,
}

impl Span {
    pub(super) fn between(from: &Mark, until: &Mark) -> Self {
        let seconds = until.at.saturating_sub(from.at).as_secs_f64();
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 * 8.0 / seconds;
        let flow = |(host, now): (&String, &(u64, u64))| {
            let then = from.flows.get(host).copied().unwrap_or_default();
            (host.clone(), (rate(now.0, then.0), rate(now.1, then.1)))
        };
        let cause = |(cause, now): (&String, &f64)| {
            (cause.clone(), now - from.causes.get(cause).copied().unwrap_or_default())
        };
        let event = |(kind, now): (&&'static str, &f64)| (*kind, now - from.events.get(kind).unwrap_or(&0.0));
        Self {
            seconds,
            flows: until.flows.iter().map(flow).collect(),
            disk_bytes: until.on_disk as f64 - from.on_disk as f64,
            events: until.events.iter().map(event).collect(),
            causes: until.causes.iter().map(cause).filter(|(_, count)| *count > 0.0).collect(),
        }
    }

    pub(super) fn events(&self, kind: &str) -> f64 {
        self.events.get(kind).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn built(&self) -> f64 {
        self.events("complete") + self.events("incomplete")
    }

    pub(super) fn built_per_s(&self) -> f64 {
        self.built() / self.seconds
    }

    pub(super) fn dead_time(&self) -> f64 {
        self.events("inhibited") / self.events("triggered").max(1.0)
    }

    /// Returns the number of inhibited triggers that are attributed to these causes.
    pub(super) fn blamed(&self, causes: &[&str]) -> f64 {
        causes.iter().filter_map(|cause| self.causes.get(*cause)).fold(0.0, |sum, count| sum + count)
    }

    /// Returns the rate that a source sends, or that a builder receives, in bit/s.
    pub(super) fn rate(&self, host: &str) -> f64 {
        let (from, to) = self.flows.get(host).copied().unwrap_or((f64::NAN, f64::NAN));
        if host.starts_with('b') { to } else { from }
    }

    /// Returns the smallest ratio of a host's rate in this span to its rate in the span `calm`,
    /// over all sources (role `s`) or builders (role `b`) except the host `but`.
    pub(super) fn least_kept(&self, calm: &Self, role: char, but: Option<&str>) -> f64 {
        let others = self
            .flows
            .keys()
            .filter(|host| host.starts_with(role) && *host != "sup" && Some(host.as_str()) != but);
        others.map(|host| self.rate(host) / calm.rate(host)).fold(f64::NAN, f64::min)
    }

    pub(super) fn json(&self) -> Value {
        let flows = self.flows.iter().map(|(host, (from, to))| (host, json!({ "from": from, "to": to })));
        json!({
            "seconds": self.seconds,
            "events": self.events,
            "dead_time_causes": self.causes,
            "bit_per_s": flows.collect::<BTreeMap<_, _>>(),
            "disk_bytes": self.disk_bytes,
        })
    }
}

/// Observations of one stage.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub(super) stage: Stage,
    /// Changes in the first part of the stage, in which the effects of the disturbance settle.
    pub(super) first: Span,
    /// Changes in the rest of the stage.
    pub(super) steady: Span,
}

impl Played {
    pub(super) fn json(&self) -> Value {
        json!({ "stage": self.stage.name, "load": self.stage.load, "first": self.first.json(), "steady": self.steady.json() })
    }
}

#[cfg(test)]
mod tests;
