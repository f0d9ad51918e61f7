//! The form of a rule, and what the rules share.

use std::time::Duration;

use evb_net::host::Fact;

use super::super::{
    facts::Demand,
    finding::{Finding, Judgement, Subject},
};

/// A rule that turns facts about one subject into a finding.
pub(super) struct Rule<F> {
    name: &'static str,
    why: &'static str,
    judge: Judge<F>,
}

/// A function that judges a fact, with the configuration's demands if there is a configuration. An
/// error says why the fact is unknown.
type Judge<F> = fn(&F, Option<&Demand>) -> Fact<Judgement>;

impl<F> Rule<F> {
    /// Creates a rule from the name of its finding, the reason why the fact matters for event
    /// building, and the function that judges the fact.
    pub(super) const fn new(name: &'static str, why: &'static str, judge: Judge<F>) -> Self {
        Self { name, why, judge }
    }

    /// Returns the finding about this subject.
    pub(super) fn apply(&self, subject: Subject, facts: &F, demand: Option<&Demand>) -> Finding {
        Finding::of(subject, self.name, self.why, (self.judge)(facts, demand))
    }
}

/// Borrows a fact, so that `?` returns the reason why it is unknown.
pub(super) fn known<T>(fact: &Fact<T>) -> Fact<&T> {
    fact.as_ref().map_err(Clone::clone)
}

/// Returns a time in microseconds, for JSON.
pub(super) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Formats a time with three significant digits: `870 ns`, `23.4 µs`, `1.02 ms`.
pub(super) fn brief(time: Duration) -> String {
    let nanos = time.as_nanos() as f64;
    let (value, unit) = match time.as_nanos() {
        0..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (nanos / 1e3, "µs"),
        1_000_000..1_000_000_000 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let digits = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}
