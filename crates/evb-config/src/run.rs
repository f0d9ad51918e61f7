//! `[run]`: the run's number and the conditions that end it.

use std::time::Duration;

use evb_core::id::RunNumber;

use super::section::Section;

/// The run's number and the conditions that end it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunConfig {
    /// Run number; `None`: the next number for which no files exist.
    pub number: Option<RunNumber>,
    /// Number of assigned events after which the run ends.
    pub events: Option<u64>,
    /// Time after which the run ends; if `events` is given too, the run ends when the first of the
    /// two limits is reached.
    pub duration: Option<Duration>,
    /// Seed of all random numbers: triggers, sizes, contents.
    pub seed: u64,
}

pub(super) fn read(mut section: Section<'_>) -> RunConfig {
    let config = RunConfig {
        number: section.count("number", u32::MAX).map(RunNumber::new),
        events: section.whole("events", 1..=u64::MAX),
        duration: section.duration("duration"),
        seed: section.whole("seed", 0..=u64::MAX).unwrap_or(1),
    };
    section.finish();
    config
}
