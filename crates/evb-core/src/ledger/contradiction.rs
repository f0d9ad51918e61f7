//! [`Contradiction`]: two fragments of one event from one readout.

use core::fmt;

use serde::Serialize;

use crate::wire::control::ContradictionReport;

/// Two fragments that a readout pushed for one event and that have not the same payload and
/// timestamp. The first one is part of the event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    /// Id of the event.
    pub event: u64,
    /// Timestamp of the fragment that came first, in the detector's ticks.
    pub first_timestamp: u64,
    /// Timestamp of the fragment that came second, in the detector's ticks.
    pub second_timestamp: u64,
}

impl From<ContradictionReport> for Contradiction {
    fn from(report: ContradictionReport) -> Self {
        let ContradictionReport { event, first_timestamp, second_timestamp } = report;
        Self { event, first_timestamp, second_timestamp }
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the first is event {}, with timestamps {} and {}",
            self.event, self.first_timestamp, self.second_timestamp
        )
    }
}
