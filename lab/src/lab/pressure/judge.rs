//! [`Judge`]: checks the observations of all stages against bounds.

use std::collections::BTreeSet;

use lab_base::report::{Bound, Report};
use serde_json::Value;

use super::{
    FRAGMENT, SHAPE,
    course::{Played, Span},
    stage::{FROZEN, Pressure},
};

/// Share of its rate that an unaffected peer must keep.
const KEPT: f64 = 0.95;
/// Largest allowed dead time, as a share of triggers, in a stage without a cause; a busy machine
/// may cause this much.
const NO_DEAD_TIME: f64 = 0.02;
/// Largest allowed difference between the dead time and the share of triggers whose data the disks
/// could not write.
const DISK_ERROR: f64 = 0.05;
/// Longest allowed dead time that a frozen source causes until the supervisor declares it lost, in
/// seconds.
const LOST_WITHIN: f64 = 1.5;

pub(super) struct Judge<'a> {
    pub(super) name: &'a str,
    pub(super) played: &'a [Played],
    /// Share of a stage's inhibited triggers that must be attributed to their actual cause.
    pub(super) blamed: f64,
    pub(super) report: &'a mut Report,
}

impl Judge<'_> {
    pub(super) fn judge(mut self, summary: &Value) {
        for played in self.played {
            let calm = self.calm(played);
            match played.stage.pressure {
                Pressure::Nothing => self.nothing(played, calm),
                Pressure::FrozenSource => self.frozen_source(played, calm),
                Pressure::SlowSource => self.blame(played, &played.steady),
                Pressure::SlowSink => self.slow_sink(played, calm),
                Pressure::SlowSinks => self.slow_sinks(played),
            }
        }
        self.missing(summary);
        self.causes(summary);
    }

    /// Returns the name of the first undisturbed stage with the same load, for comparison.
    fn calm(&self, of: &Played) -> &'static str {
        let is_calm = |played: &&Played| {
            played.stage.pressure == Pressure::Nothing && played.stage.load == of.stage.load
        };
        self.played.iter().find(is_calm).map_or("", |played| played.stage.name)
    }

    fn nothing(&mut self, played: &Played, calm: &'static str) {
        let stage = played.stage.name;
        if stage != calm {
            let kept = self.kept(&played.steady, calm, 's', None);
            self.noisy(stage, "least part of its rate that a source sends", kept, Bound::AtLeast(KEPT));
        }
        self.noisy(stage, "dead time", played.steady.dead_time(), Bound::AtMost(NO_DEAD_TIME));
        self.noisy(stage, "incomplete events", played.steady.events("incomplete"), Bound::AtMost(0.0));
    }

    fn frozen_source(&mut self, played: &Played, calm: &'static str) {
        let (stage, steady) = (played.stage.name, &played.steady);
        // Until the supervisor declares the frozen source lost, all builders wait for its
        // fragments.
        self.blame(played, &played.first);
        let cost = played.first.dead_time() * played.first.seconds;
        self.noisy(stage, "seconds until it is taken for lost", cost, Bound::AtMost(LOST_WITHIN));
        let kept = self.kept(steady, calm, 's', Some(FROZEN));
        self.noisy(stage, "least part of its rate that another source sends", kept, Bound::AtLeast(KEPT));
        self.full_rate(played, calm);
        let incomplete = played.first.events("incomplete");
        self.holds(stage, "events incomplete that were under way", incomplete, Bound::AtLeast(1.0));
        let complete = steady.events("complete");
        self.holds(stage, "events complete without the frozen source", complete, Bound::AtMost(0.0));
    }

    fn slow_sink(&mut self, played: &Played, calm: &'static str) {
        let (stage, steady) = (played.stage.name, &played.steady);
        let kept = self.kept(steady, calm, 'b', played.stage.victim());
        self.noisy(stage, "least part of its rate that another builder gets", kept, Bound::AtLeast(KEPT));
        if !played.stage.culprits().is_empty() {
            return self.blame(played, steady);
        }
        self.full_rate(played, calm);
    }

    /// Checks that events are built at the rate of the undisturbed stage `calm`, without dead time.
    fn full_rate(&mut self, played: &Played, calm: &'static str) {
        let (stage, steady) = (played.stage.name, &played.steady);
        let events = steady.built_per_s() / self.span(calm).map_or(f64::NAN, Span::built_per_s);
        self.noisy(stage, "part of the event rate", events, Bound::AtLeast(KEPT));
        self.noisy(stage, "dead time", steady.dead_time(), Bound::AtMost(NO_DEAD_TIME));
    }

    fn slow_sinks(&mut self, played: &Played) {
        let (stage, steady) = (played.stage.name, &played.steady);
        self.blame(played, steady);
        for cause in played.stage.culprits() {
            let what = format!("triggers inhibited by the {cause}");
            self.holds(stage, &what, steady.blamed(&[cause]), Bound::AtLeast(1.0));
        }
        let event = FRAGMENT as f64 * f64::from(SHAPE.sources);
        let taken = steady.disk_bytes / event / steady.events("triggered").max(1.0);
        let error = (steady.dead_time() - (1.0 - taken)).abs();
        self.noisy(stage, "dead time, less what the disks did not take", error, Bound::AtMost(DISK_ERROR));
    }

    /// Checks that triggers were inhibited in the span, and that evb attributed them to their
    /// actual cause.
    fn blame(&mut self, played: &Played, span: &Span) {
        let (stage, culprits) = (played.stage.name, played.stage.culprits());
        let inhibited = span.events("inhibited");
        self.holds(stage, "triggers inhibited", inhibited, Bound::AtLeast(1.0));
        let blamed = span.blamed(culprits) / inhibited;
        let who = if culprits.len() == 1 { culprits[0] } else { "sinks" };
        let (what, least) = (format!("part of them put down to {who}"), Bound::AtLeast(self.blamed));
        // A busy machine also inhibits triggers; the bound is strict only if there was no dead time
        // in the undisturbed stage.
        if self.span(self.calm(played)).is_some_and(|calm| calm.dead_time() <= NO_DEAD_TIME) {
            self.holds(stage, &what, blamed, least);
        } else {
            self.noisy(stage, &what, blamed, least);
        }
    }

    /// Checks that only the frozen source is missing in events: in the events that were in progress
    /// when it froze, and in all events that began while it was frozen.
    fn missing(&mut self, summary: &Value) {
        let frozen = self.played.iter().find(|played| played.stage.pressure == Pressure::FrozenSource);
        for source in summary["sources"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let number = |pointer| source.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN);
            let [id, missing] = ["/id", "/missing"].map(number);
            let what = |what: &str| format!("{}: {what} source {id}", self.name);
            match frozen.filter(|_| FROZEN == format!("s{id}")) {
                Some(frozen) => {
                    self.report.holds(&what("events without"), missing, Bound::AtLeast(1.0));
                    let down = number("/missing_by_cause/down") / frozen.steady.built();
                    let share = what("of the events of the freeze, in the summary without");
                    self.report.holds(&share, down, Bound::AtLeast(1.0));
                }
                // The bound for the other sources is only noted on a busy machine, which may delay
                // any source too long.
                None => {
                    let most = Bound::AtMost(0.0);
                    self.report.noisy(&what("events without"), missing, most);
                }
            }
        }
    }

    /// Checks that the run summary attributes all inhibited triggers to causes, and names every
    /// expected cause.
    fn causes(&mut self, summary: &Value) {
        let causes = summary["dead_time_causes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let sum: f64 = causes.iter().filter_map(|cause| cause["inhibited"].as_f64()).sum();
        let inhibited = summary["events"]["inhibited"].as_f64().unwrap_or(f64::NAN);
        let what = format!("{}: inhibited triggers without a cause in the summary", self.name);
        self.report.holds(&what, (inhibited - sum).abs(), Bound::AtMost(0.0));
        let culprits: BTreeSet<_> = self.played.iter().flat_map(|played| played.stage.culprits()).collect();
        for culprit in culprits {
            let named = causes.iter().any(|cause| cause["cause"].as_str() == Some(culprit));
            self.report.yes(&format!("{}: the summary blames the {culprit}", self.name), named);
        }
    }

    fn span(&self, stage: &str) -> Option<&Span> {
        self.played.iter().find(|played| played.stage.name == stage).map(|played| &played.steady)
    }

    fn kept(&self, span: &Span, calm: &str, role: char, but: Option<&str>) -> f64 {
        self.span(calm).map_or(f64::NAN, |calm| span.least_kept(calm, role, but))
    }

    fn holds(&mut self, stage: &str, what: &str, measured: f64, bound: Bound) {
        self.report.holds(&format!("{}: {stage}: {what}", self.name), measured, bound);
    }

    fn noisy(&mut self, stage: &str, what: &str, measured: f64, bound: Bound) {
        self.report.noisy(&format!("{}: {stage}: {what}", self.name), measured, bound);
    }
}

#[cfg(test)]
mod tests;
