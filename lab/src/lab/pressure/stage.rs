//! [`Stage`]: a part of a run with one kind of pressure, or none.

use std::time::Duration;

/// The source that is frozen.
pub(super) const FROZEN: &str = "s8";
/// The source whose link is slow.
pub(super) const SLOW_SOURCE: &str = "s3";
/// The builder whose disk alone is slow.
pub(super) const SLOW_SINK: &str = "b4";

/// Load as a share of what the ports carry.
pub(super) const HALF: f64 = 0.5;
/// A load at which one builder less is too few.
pub(super) const NEARLY_ALL: f64 = 0.9;

/// Time in which the effects of a stage settle.
const SETTLE: Duration = Duration::from_secs(4);
/// The same as a share of a short stage.
const SETTLE_SHARE: f64 = 0.4;

/// The kind of pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pressure {
    Nothing,
    FrozenSource,
    SlowSource,
    SlowSink,
    SlowSinks,
}

impl Pressure {
    pub(super) fn is_of_sinks(self) -> bool {
        matches!(self, Self::SlowSink | Self::SlowSinks)
    }
}

/// A part of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) pressure: Pressure,
    /// Load as a share of what the ports carry.
    pub(super) load: f64,
    /// The stage's length relative to those of the others.
    pub(super) part: f64,
}

const fn stage(name: &'static str, pressure: Pressure, load: f64, part: f64) -> Stage {
    Stage { name, pressure, load, part }
}

const fn with_parts<const N: usize>(mut stages: [Stage; N], parts: [f64; N]) -> [Stage; N] {
    let mut at = 0;
    while at < N {
        stages[at].part = parts[at];
        at += 1;
    }
    stages
}

/// All kinds of pressure, in turn.
pub(super) const ALL: [Stage; 9] = [
    stage("before", Pressure::Nothing, HALF, 8.0),
    stage("source frozen", Pressure::FrozenSource, HALF, 50.0),
    stage("source resumed", Pressure::Nothing, HALF, 6.0),
    stage("sink slow", Pressure::SlowSink, HALF, 10.0),
    stage("near the limit", Pressure::Nothing, NEARLY_ALL, 4.0),
    stage("sink slow, near the limit", Pressure::SlowSink, NEARLY_ALL, 8.0),
    stage("all sinks slow", Pressure::SlowSinks, HALF, 7.0),
    stage("source slow", Pressure::SlowSource, HALF, 4.0),
    stage("after", Pressure::Nothing, HALF, 3.0),
];

/// The same stages within a minute, so that each has a few seconds.
pub(super) const SHORT: [Stage; 9] = with_parts(ALL, [4.0, 9.0, 4.0, 5.0, 4.0, 6.0, 5.0, 5.0, 3.0]);

/// The stages whose outcome depends on the assignment of events.
pub(super) const SINKS: [Stage; 5] = [
    stage("before", Pressure::Nothing, HALF, 20.0),
    stage("sink slow", Pressure::SlowSink, HALF, 35.0),
    stage("near the limit", Pressure::Nothing, NEARLY_ALL, 15.0),
    stage("sink slow, near the limit", Pressure::SlowSink, NEARLY_ALL, 20.0),
    stage("all sinks slow", Pressure::SlowSinks, HALF, 10.0),
];

impl Stage {
    /// Returns the length of this stage in a run of this length.
    pub(super) fn lasts(&self, stages: &[Self], run: Duration) -> Duration {
        let all: f64 = stages.iter().map(|stage| stage.part).sum();
        run.mul_f64(self.part / all)
    }

    /// Returns the time in which a stage of this length settles.
    pub(super) fn settles(lasts: Duration) -> Duration {
        SETTLE.min(lasts.mul_f64(SETTLE_SHARE))
    }

    /// Returns the causes to which dead time must be attributed, in the supervisor's words; none if
    /// there should be no dead time.
    pub(super) fn culprits(&self) -> &'static [&'static str] {
        match self.pressure {
            Pressure::Nothing => &[],
            // The other builders take over its events.
            Pressure::SlowSink if self.load <= HALF => &[],
            Pressure::FrozenSource => &["source 8"],
            Pressure::SlowSource => &["source 3"],
            Pressure::SlowSink => &["sink of builder 4"],
            Pressure::SlowSinks => {
                &["sink of builder 1", "sink of builder 2", "sink of builder 3", "sink of builder 4"]
            }
        }
    }

    /// Returns the host that need not keep its rate.
    pub(super) fn victim(&self) -> Option<&'static str> {
        match self.pressure {
            Pressure::FrozenSource => Some(FROZEN),
            Pressure::SlowSource => Some(SLOW_SOURCE),
            Pressure::SlowSink => Some(SLOW_SINK),
            Pressure::Nothing | Pressure::SlowSinks => None,
        }
    }
}

#[cfg(test)]
mod tests;
