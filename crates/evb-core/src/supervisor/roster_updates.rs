//! [`RosterUpdates`]: news of the roster that all peers get together, once per turn.

#[cfg(test)]
mod tests;

use super::roster::Seat;
use crate::set::SourceSet;

/// News of the roster that is not sent yet. Many peers may come or go in one turn, as when a
/// process with a hundred sources dies; one roster then tells the others of all of them.
///
/// The news is sent before the next decision and before the phase changes, so that no event is
/// assigned under an earlier roster (docs/reference/protocol.md RUN-2, RUN-14).
#[derive(Clone, Debug, Default)]
pub(super) struct RosterUpdates {
    /// True if a new roster version has to be sent.
    pub(super) roster: bool,
    /// Sources that have to be told the builders of all outstanding events, after the roster.
    pub(super) holdings: SourceSet,
    /// Peers that have to be told the state of the run, after the roster.
    pub(super) newcomers: Vec<Seat>,
}

impl RosterUpdates {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        !self.roster && self.newcomers.is_empty() && self.holdings.is_empty()
    }
}
