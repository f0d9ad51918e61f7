//! The sources that an event waits for, for each roster version.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use crate::{set::SourceSet, wire::control::MalformedMessage};

/// Number of roster versions that a builder remembers. Assignments follow their roster on the same
/// connection, so the latest 64 are enough.
const REMEMBERED: usize = 64;

/// An invalid message from the supervisor, for which the builder leaves the run.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    /// The builder does not know the assignment's roster version: it was never published, or is too
    /// old (docs/reference/protocol.md RUN-9).
    #[error(
        "it assigned events under version {0} of its list of sources, which it never sent, or sent too long ago"
    )]
    UnknownVersion(u32),
    /// The message assigns more events at once than may be outstanding
    /// (docs/reference/protocol.md RUN-10).
    #[error("it assigned {count} events at once to a builder that has room for {slots} (its `slots`)")]
    BeyondSlots {
        /// Events in the message.
        count: usize,
        /// Slots of the builder.
        slots: usize,
    },
    /// The assignment names a source that is not in the run.
    #[error("it assigned events that expect source {0}, which is not part of this run")]
    UnknownSource(u32),
    /// The supervisor's ledger is too far behind: more completions are unconfirmed than the builder
    /// may keep (docs/reference/protocol.md RUN-32).
    #[error(
        "it has not confirmed {count} events that this builder has finished, more than `slots` = {slots} permits"
    )]
    Unaccounted {
        /// Completions that the supervisor has not confirmed.
        count: usize,
        /// Slots of the builder.
        slots: usize,
    },
    /// The supervisor confirmed more completions than the builder has sent.
    #[error("it confirmed {0} finished events, more than this builder has finished")]
    NeverCompleted(u64),
    /// The message contains numbers that are out of range or inconsistent.
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
}

#[derive(Debug)]
pub(super) struct Rosters {
    /// The expected sources of each remembered version.
    versions: VecDeque<(u32, Expected)>,
    awaited: SourceSet,
    standing: Standing,
    /// Sources that are up or awaited by the latest roster: their fragments may arrive.
    reachable: SourceSet,
}

/// The facts about sources in a roster, beside the sources that are up and awaited.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Sources whose readout is silent or gone: events expect none of them, unless they are
    /// awaited.
    pub quiet: SourceSet,
    /// Sources that are excluded from the events of this roster version: these owe nothing.
    pub excluded: SourceSet,
    /// Excluded sources for which earlier events do not wait any more.
    pub released: SourceSet,
    /// Sources without which events are complete, although they wait for them until the deadline.
    pub expendable: SourceSet,
    /// Sources that send fragments of some events only, and owe none.
    pub sporadic: SourceSet,
    /// Time for which an event waits for them when it has all other fragments.
    pub sporadic_wait: Duration,
}

/// The sources that events wait for under a version of the roster.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    pub(super) sources: SourceSet,
    /// Sources that are not expected, because their readout is silent or gone.
    pub(super) quiet: SourceSet,
    /// Sources that are excluded from the events, and owe them nothing.
    pub(super) excluded: SourceSet,
}

/// Change of the expected and awaited sources by a new roster.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceChange {
    /// Sources that are no longer expected.
    pub(super) gone: SourceSet,
    /// Sources that were awaited and are no longer: they are up again, or are not expected any
    /// more.
    pub(super) back: SourceSet,
    /// Sources for which earlier events do not wait any more, because they are excluded.
    pub(super) released: SourceSet,
}

impl Rosters {
    /// Creates the rosters of a builder that has received none, so that all sources count as
    /// reachable.
    pub(super) fn new(sources: usize) -> Self {
        Self {
            versions: VecDeque::new(),
            awaited: SourceSet::default(),
            standing: Standing::default(),
            reachable: SourceSet::first(sources),
        }
    }

    /// Sets the facts about sources in the next roster version.
    pub(super) fn set_standing(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// Returns the facts about sources in the latest roster version.
    pub(super) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Stores a new roster version. Returns what changed for the sources.
    pub(super) fn publish(&mut self, version: u32, up: SourceSet, awaited: SourceSet) -> SourceChange {
        // Events that wait for a source whose readout falls silent go on until their deadline: the
        // fragment may be on its way.
        let reachable = up.union(&awaited);
        let gone = self.reachable.without(&reachable);
        let back = self.awaited.without(&awaited);
        let Standing { quiet, excluded, released, .. } = self.standing.clone();
        let quiet = quiet.intersection(&up).without(&awaited).without(&excluded);
        let sources = reachable.without(&quiet).without(&excluded);
        if self.versions.len() == REMEMBERED {
            self.versions.pop_front();
        }
        self.versions.push_back((version, Expected { sources, quiet, excluded }));
        (self.awaited, self.reachable) = (awaited, reachable);
        SourceChange { gone, back, released }
    }

    /// Returns the sources that are up or awaited by the latest roster.
    pub(super) fn reachable(&self) -> &SourceSet {
        &self.reachable
    }

    /// Returns the sources that are down by the latest roster and for which events wait.
    pub(super) fn awaited(&self) -> &SourceSet {
        &self.awaited
    }

    /// Returns the sources that events assigned under that roster version wait for.
    pub(super) fn expected(&self, version: u32) -> Result<&Expected, RosterError> {
        let found = self.versions.iter().rev().find(|(known, _)| *known == version);
        found.map(|(_, expected)| expected).ok_or(RosterError::UnknownVersion(version))
    }
}
