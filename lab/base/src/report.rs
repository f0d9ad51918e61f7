//! [`Report`]: the outcomes of a scenario as a readable table and as JSON, with a verdict for every
//! bound.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{outcome::Outcome, system::Transport};

/// A lower or an upper bound on a measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Debug)]
struct Verdict {
    what: String,
    measured: f64,
    bound: Bound,
    /// True if other load on the machine can break the bound, so that a failure is only noted.
    is_noisy: bool,
}

impl Verdict {
    /// Returns true if the measured value is within its bound. A value that was not measured (NaN)
    /// fails every bound.
    fn holds(&self) -> bool {
        match self.bound {
            Bound::AtLeast(limit) => self.measured >= limit,
            Bound::AtMost(limit) => self.measured <= limit,
        }
    }

    /// Returns true if the scenario fails because of this bound. No noise explains a value that was
    /// not measured.
    fn fails(&self) -> bool {
        !self.holds() && (!self.is_noisy || !self.measured.is_finite())
    }

    fn word(&self) -> &'static str {
        match self.holds() {
            true => "pass",
            false if self.fails() => "FAIL",
            false => "noted",
        }
    }
}

/// Results of a scenario: outcomes of its runs, verdicts on bounds, and notes.
pub struct Report {
    scenario: &'static str,
    outcomes: Vec<Outcome>,
    verdicts: Vec<Verdict>,
    notes: Vec<String>,
    attached: Vec<Value>,
}

impl Report {
    pub fn new(scenario: &'static str) -> Self {
        println!("{}", header());
        Self::bare(scenario)
    }

    /// Creates a report without printing a table header, for a scenario that prints its own table.
    pub fn bare(scenario: &'static str) -> Self {
        Self { scenario, outcomes: Vec::new(), verdicts: Vec::new(), notes: Vec::new(), attached: Vec::new() }
    }

    /// Prints an outcome as a row of the table, keeps it, and checks that the switch's counters
    /// confirm the payload in its run summary.
    pub fn add(&mut self, outcome: &Outcome) {
        println!("{}", row(outcome));
        self.keep(outcome);
    }

    /// Keeps an outcome without printing it, and checks that the switch's counters confirm the
    /// payload in its run summary.
    pub fn keep(&mut self, outcome: &Outcome) {
        self.yes(
            &format!("{}: the ports carried what the summary claims", outcome.name),
            outcome.is_plausible(),
        );
        self.outcomes.push(outcome.clone());
    }

    /// Checks a bound that holds on every machine, whatever else this one does: counts of events
    /// and drops, exit codes, sums of the ledger. The scenario fails with it.
    pub fn holds(&mut self, what: &str, measured: f64, bound: Bound) {
        self.verdicts.push(Verdict { what: what.to_owned(), measured, bound, is_noisy: false });
    }

    /// Checks a bound on a rate, a time or a share, which the load of the machine changes too. A
    /// failure is noted, and does not make the scenario fail.
    pub fn noisy(&mut self, what: &str, measured: f64, bound: Bound) {
        self.verdicts.push(Verdict { what: what.to_owned(), measured, bound, is_noisy: true });
    }

    /// Adds the lines `RESULT 1 what` and `RESULT 0 what` of a script, and prints all other lines.
    /// Returns the number of results.
    pub fn results(&mut self, said: &str) -> usize {
        let mut count = 0;
        for line in said.lines() {
            match line.strip_prefix("RESULT ").and_then(|rest| rest.split_once(' ')) {
                Some((passes, what)) => {
                    self.yes(what, passes == "1");
                    count += 1;
                }
                None => println!("{line}"),
            }
        }
        count
    }

    pub fn yes(&mut self, what: &str, is_so: bool) {
        self.holds(what, f64::from(u8::from(is_so)), Bound::AtLeast(1.0));
    }

    /// Checks that all events are complete and that the switch dropped no packet.
    pub fn clean(&mut self, outcome: &Outcome) {
        self.yes(&format!("{}: every event complete", outcome.name), outcome.is_complete());
        self.holds(&format!("{}: packets dropped", outcome.name), outcome.drops() as f64, Bound::AtMost(0.0));
    }

    /// Adds a value to the JSON file of the report, under `attached`.
    pub fn attach(&mut self, name: &str, value: Value) {
        self.attached.push(json!({ "name": name, "value": value }));
    }

    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Prints the verdicts and writes `<scenario>.json`. Returns true if at least one bound was
    /// checked and all hold that noise cannot break.
    pub fn finish(&self, folder: &Path) -> Result<bool> {
        println!();
        for verdict in &self.verdicts {
            let (sign, limit) = match verdict.bound {
                Bound::AtLeast(limit) => (">=", limit),
                Bound::AtMost(limit) => ("<=", limit),
            };
            let (word, measured) = (verdict.word(), short(verdict.measured));
            println!("{word:<5} {:<72} {measured:>12} {sign} {}", verdict.what, short(limit));
        }
        for note in &self.notes {
            println!("note  {note}");
        }
        let count = |is: fn(&Verdict) -> bool| self.verdicts.iter().filter(|verdict| is(verdict)).count();
        let (failed, broken) = (count(Verdict::fails), count(|verdict| !verdict.holds()));
        let path = folder.join(format!("{}.json", self.scenario));
        fs::write(&path, serde_json::to_string_pretty(&self.json())?)
            .with_context(|| path.display().to_string())?;
        let (all, noted) = (self.verdicts.len(), broken - failed);
        println!("\n{}: {all} bounds, {failed} failed, {noted} noted; {}", self.scenario, path.display());
        Ok(failed == 0 && !self.verdicts.is_empty())
    }

    /// Returns the bounds that do not hold, also the noted ones, with their measured values.
    pub fn failed(&self) -> Vec<String> {
        let failed = self.verdicts.iter().filter(|verdict| !verdict.holds());
        failed.map(|verdict| format!("{}: {}", verdict.what, verdict.measured)).collect()
    }

    fn json(&self) -> Value {
        let verdicts: Vec<Value> = self
            .verdicts
            .iter()
            .map(|v| {
                let (sign, limit) = match v.bound {
                    Bound::AtLeast(limit) => ("at least", limit),
                    Bound::AtMost(limit) => ("at most", limit),
                };
                json!({ "what": v.what, "measured": v.measured, "bound": sign, "limit": limit, "holds": v.holds(), "noisy": v.is_noisy })
            })
            .collect();
        let outcomes: Vec<Value> = self.outcomes.iter().map(Outcome::json).collect();
        json!({ "scenario": self.scenario, "outcomes": outcomes, "verdicts": verdicts, "notes": self.notes, "attached": self.attached })
    }
}

/// Returns the header of the table. The column `resent` counts TCP retransmissions, or over UDP,
/// ranges of bytes that builders requested again. The columns after `resent` are only for UDP:
/// `timers` counts losses found by a timer, `late` segments that arrived after they were considered
/// lost, and `rdrop` datagrams that the builder's kernel dropped.
fn header() -> String {
    format!(
        "{:<28} {:>8} {:>6} {:>6} {:>8} {:>7} {:>7} {:>8} {:>6} {:>6} {:>5} {:>4} {:>7} {:>6} {:>5} {:>5}",
        "case",
        "Mbit/s",
        "share",
        "drops",
        "ev/s",
        "p50 ms",
        "p99 ms",
        "events",
        "incomp",
        "dead",
        "busy",
        "MiB",
        "resent",
        "timers",
        "late",
        "rdrop"
    )
}

fn row(o: &Outcome) -> String {
    let rss = o.peak_rss_kib.values().max().copied().unwrap_or(0) / 1024;
    let of_datagrams = |key: &str| match o.system.transport {
        Transport::Tcp => "-".to_owned(),
        Transport::Udp => format!("{:.0}", o.number(&format!("network.datagrams.{key}"))),
    };
    format!(
        "{:<28} {:>8.1} {:>5.1}% {:>6} {:>8.1} {:>7.2} {:>7.2} {:>8.0} {:>6.0} {:>5.1}% {:>4.0}% {:>4} {:>7.0} {:>6} {:>5} {:>5}",
        o.name,
        o.goodput() / 1e6,
        o.goodput_share() * 100.0,
        o.drops(),
        o.number("rates.events_per_s"),
        o.latency_us("p50") / 1e3,
        o.latency_us("p99") / 1e3,
        o.number("events.assigned"),
        o.number("events.incomplete"),
        o.number("dead_time_fraction") * 100.0,
        o.machine_busy * 100.0,
        rss,
        o.repeated(),
        of_datagrams("timeouts"),
        of_datagrams("late_after_loss"),
        of_datagrams("receive_drops"),
    )
}

fn short(value: f64) -> String {
    if value == value.trunc() { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests;
