//! `[run]`: the run's number and the conditions that end it.

use std::time::Duration;

use evb_core::id::RunNumber;

use serde::Deserialize;

use super::forms::{As, Positive, Whole, one};

/// The run's number and the conditions that end it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunConfig {
    /// The run number for the logbook, 1 to 4294967295. If a builder or the state directory knows
    /// another run with this number, the run does not start, and the supervisor names the one that
    /// knows it. Under run control, the number is only the least one of the next run. Without
    /// `number`, the run gets a number above all that the state directory and the directories of
    /// its builders know.
    ///
    /// Default: next free
    #[serde(default, with = "Whole::<1, 4_294_967_295>")]
    pub number: Option<RunNumber>,
    /// The number of assigned events after which the run ends.
    ///
    /// Default: until stopped
    #[serde(default, with = "Whole::<1, { u64::MAX }>")]
    pub events: Option<u64>,
    /// The time after which the run ends. If `events` is given too, the run ends at whichever comes
    /// first.
    ///
    /// Default: until stopped
    #[serde(default, with = "As::<Positive<Duration>>")]
    pub duration: Option<Duration>,
    /// The seed of all random numbers: trigger intervals, sizes, contents. The same seed gives the
    /// same numbers.
    ///
    /// Default: 1
    #[serde(default = "one", with = "Whole::<0, { u64::MAX }>")]
    pub seed: u64,
}
