//! [`History`]: the samples of the last hour, one per second.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime},
};

use evb_core::{
    ledger::{DeadTimeCause, EventCounts, fraction},
    live::Latencies,
    run_control::State,
    supervisor::{LatencySurvey, Survey},
    time::Instant,
};
use serde::Serialize;

/// Number of samples that are kept: those of an hour.
const KEPT: usize = 3600;

/// Number of samples over which figures from reports are smoothed: reports come once a second, but
/// not in step with the samples.
const SMOOTHED: usize = 3;

/// Number of causes of dead time that a sample names.
const CAUSES: usize = 6;

/// A sample of the system's state and rates over one second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The sample's number, consecutive from 1.
    pub n: u64,
    /// Time at which the sample was taken, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The run that was under way or open, if any.
    pub run: Option<u32>,
    /// The state of the system.
    pub state: State,
    /// Triggers per second.
    pub triggers_per_s: f64,
    /// Events settled per second.
    pub events_per_s: f64,
    /// Payload that sinks accepted per second.
    pub bytes_per_s: f64,
    /// Fraction of the triggers that were inhibited.
    pub dead_time_fraction: f64,
    /// Dead time by cause, the largest first.
    pub dead_time: Vec<CauseFraction>,
    /// Number of events that are assigned and not settled.
    pub outstanding: u64,
    /// Median of the build latency over the last seconds.
    pub p50_us: Option<u64>,
    /// Build latency that 99 % of the events did not exceed.
    pub p99_us: Option<u64>,
}

/// Dead time that one cause is responsible for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CauseFraction {
    /// Description of the cause, with the source, builder or sink that is responsible.
    pub cause: String,
    /// Fraction of the triggers that were inhibited for this cause.
    pub fraction: f64,
}

/// The samples of the last hour.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Sample>,
    /// Counters at the last samples, the latest at the back.
    marks: VecDeque<Mark>,
    taken: u64,
}

/// Counters of a run at one point in time.
#[derive(Debug)]
struct Mark {
    run: u32,
    epoch: u64,
    at: Instant,
    events: EventCounts,
    dead_time: Vec<DeadTimeCause>,
    payload_bytes: u64,
    latencies: Latencies,
}

impl History {
    /// Takes a sample.
    pub(super) fn take(&mut self, now: Instant, state: State, run: Option<u32>, survey: Option<&Survey>) {
        self.taken += 1;
        let at_unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut sample = Sample {
            n: self.taken,
            at_unix_ms: u64::try_from(at_unix.as_millis()).unwrap_or(u64::MAX),
            run,
            state,
            triggers_per_s: 0.0,
            events_per_s: 0.0,
            bytes_per_s: 0.0,
            dead_time_fraction: 0.0,
            dead_time: Vec::new(),
            outstanding: survey.map_or(0, |survey| survey.outstanding),
            p50_us: None,
            p99_us: None,
        };
        match survey.filter(|survey| survey.running_s > 0.0) {
            Some(survey) => self.compare(&mut sample, survey, now),
            None => self.marks.clear(),
        }
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Returns the samples of the last hour whose number is greater than `number`.
    pub(super) fn after(&self, number: u64) -> Vec<Sample> {
        let first = self.samples.partition_point(|sample| sample.n <= number);
        self.samples.range(first..).cloned().collect()
    }

    /// Returns the latest sample.
    pub(super) fn latest(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// Returns the recent payload per second.
    pub(super) fn bytes_per_s(&self) -> f64 {
        self.samples.back().map_or(0.0, |sample| sample.bytes_per_s)
    }

    /// Computes the rates since the earlier marks, and enters them into `sample`.
    fn compare(&mut self, sample: &mut Sample, survey: &Survey, now: Instant) {
        self.marks.retain(|mark| (mark.run, mark.epoch) == (survey.run, survey.epoch));
        if let Some(last) = self.marks.back() {
            let per_second = rate(now.since(last.at));
            let (events, before) = (&survey.events, &last.events);
            sample.triggers_per_s = per_second(events.triggered, before.triggered);
            sample.events_per_s = per_second(settled(events), settled(before));
            let triggers = events.triggered.saturating_sub(before.triggered) as f64;
            let inhibited = events.inhibited.saturating_sub(before.inhibited) as f64;
            sample.dead_time_fraction = fraction(inhibited, triggers);
            sample.dead_time = causes(&survey.dead_time, &last.dead_time, triggers);
        }
        // What varies much is taken over the longer time since the oldest mark.
        if let Some(first) = self.marks.front() {
            sample.bytes_per_s = rate(now.since(first.at))(survey.payload_bytes, first.payload_bytes);
            let late = LatencySurvey::of(&survey.latencies.since(&first.latencies));
            (sample.p50_us, sample.p99_us) = (late.map(|late| late.p50), late.map(|late| late.p99));
        }
        if self.marks.len() == SMOOTHED {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark {
            run: survey.run,
            epoch: survey.epoch,
            at: now,
            events: survey.events,
            dead_time: survey.dead_time.clone(),
            payload_bytes: survey.payload_bytes,
            latencies: survey.latencies.clone(),
        });
    }
}

fn rate(apart: Duration) -> impl Fn(u64, u64) -> f64 {
    move |now, before| fraction(now.saturating_sub(before) as f64, apart.as_secs_f64())
}

/// Returns the largest causes of dead time since the sample before, as fractions of the `triggers`
/// since then.
fn causes(now: &[DeadTimeCause], before: &[DeadTimeCause], triggers: f64) -> Vec<CauseFraction> {
    let earlier = |cause: &str| before.iter().find(|old| old.cause == cause).map_or(0, |old| old.inhibited);
    let since = |cause: &DeadTimeCause| CauseFraction {
        cause: cause.cause.clone(),
        fraction: fraction(cause.inhibited.saturating_sub(earlier(&cause.cause)) as f64, triggers),
    };
    let mut causes: Vec<_> = now.iter().map(since).filter(|cause| cause.fraction > 0.0).collect();
    causes.sort_by(|a, b| b.fraction.total_cmp(&a.fraction));
    causes.truncate(CAUSES);
    causes
}

/// Returns the number of settled events.
pub(super) fn settled(counts: &EventCounts) -> u64 {
    counts.complete + counts.incomplete + counts.rejected + counts.lost
}

#[cfg(test)]
mod tests;
