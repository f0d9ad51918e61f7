//! `[run]`: which run, and when it ends.

use std::time::Duration;

use evb_core::id::RunNumber;

use super::section::Section;

/// Which run this is, and when it ends.
#[derive(Clone, Debug, PartialEq)]
pub struct RunConfig {
    /// The run number; `None`: the next for which no files exist.
    pub number: Option<RunNumber>,
    /// Ends after that many assigned events.
    pub events: Option<u64>,
    /// Ends after that time; with `events` too, whichever comes first.
    pub duration: Option<Duration>,
    /// Where all randomness starts: triggers, sizes, contents.
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
