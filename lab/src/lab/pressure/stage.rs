//! [`Stage`]: a part of a run with one kind of disturbance, or none.

use std::time::Duration;

/// Host of the source that is frozen.
pub(super) const FROZEN: &str = "s8";
/// Host of the source whose link is slow.
pub(super) const SLOW_SOURCE: &str = "s3";
/// Host of the builder whose disk is slow, in stages with one slow disk.
pub(super) const SLOW_SINK: &str = "b4";

/// A load of half of the capacity of the ports.
pub(super) const HALF: f64 = 0.5;
/// A load, as a share of the capacity of the ports, that three of four builders cannot carry.
pub(super) const NEARLY_ALL: f64 = 0.9;

/// Time in which the effects of a disturbance settle, at the beginning of a stage.
const SETTLE: Duration = Duration::from_secs(4);
/// Largest share of a stage that is left for its effects to settle, if the stage is short.
const SETTLE_SHARE: f64 = 0.4;

/// The kind of disturbance in a stage.
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

/// A part of the run with constant load and disturbance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) pressure: Pressure,
    /// Load in the stage, as a share of the capacity of the ports.
    pub(super) load: f64,
    /// Length of the stage, relative to the lengths of the other stages.
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

/// Stages with all kinds of disturbances, one after the other.
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

/// The stages of `ALL` with other relative lengths, so that each has a few seconds in a run of less
/// than a minute.
pub(super) const SHORT: [Stage; 9] = with_parts(ALL, [4.0, 9.0, 4.0, 5.0, 4.0, 6.0, 5.0, 5.0, 3.0]);

/// The stages whose outcome depends on the policy by which events are assigned to builders.
pub(super) const SINKS: [Stage; 5] = [
    stage("before", Pressure::Nothing, HALF, 20.0),
    stage("sink slow", Pressure::SlowSink, HALF, 35.0),
    stage("near the limit", Pressure::Nothing, NEARLY_ALL, 15.0),
    stage("sink slow, near the limit", Pressure::SlowSink, NEARLY_ALL, 20.0),
    stage("all sinks slow", Pressure::SlowSinks, HALF, 10.0),
];

impl Stage {
    /// Returns the duration of this stage in a run that consists of `stages` and lasts for `run`.
    pub(super) fn lasts(&self, stages: &[Self], run: Duration) -> Duration {
        let all: f64 = stages.iter().map(|stage| stage.part).sum();
        run.mul_f64(self.part / all)
    }

    /// Returns the time in which the effects settle in a stage of this length.
    pub(super) fn settles(lasts: Duration) -> Duration {
        SETTLE.min(lasts.mul_f64(SETTLE_SHARE))
    }

    /// Returns the causes to which evb must attribute dead time in this stage, as the supervisor
    /// names them; empty if there should be no dead time.
    pub(super) fn culprits(&self) -> &'static [&'static str] {
        match self.pressure {
            Pressure::Nothing => &[],
            // At half load the other builders take over the events of the builder with the slow
            // sink.
            Pressure::SlowSink if self.load <= HALF => &[],
            Pressure::FrozenSource => &["source 8"],
            Pressure::SlowSource => &["source 3"],
            Pressure::SlowSink => &["sink of builder 4"],
            Pressure::SlowSinks => {
                &["sink of builder 1", "sink of builder 2", "sink of builder 3", "sink of builder 4"]
            }
        }
    }

    /// Returns the disturbed host, which need not keep its rate; `None` if there is none, or
    /// several.
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
