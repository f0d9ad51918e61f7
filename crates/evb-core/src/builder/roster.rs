//! The sources that an event is expected to have, by roster version.

use std::collections::VecDeque;

use crate::{set::SourceSet, wire::control::MalformedMessage};

/// Number of versions that are remembered. Assignments follow their roster on the same connection,
/// so the latest few suffice.
const REMEMBERED: usize = 64;

/// A message of the supervisor that a builder cannot carry out.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    /// The assignment's roster was never published, or is too old
    /// (docs/reference/protocol.md RUN-9).
    #[error(
        "it assigned events under roster version {0}, which it never published or published too long ago"
    )]
    UnknownVersion(u32),
    /// The message assigns more events at once than may be outstanding
    /// (docs/reference/protocol.md RUN-10).
    #[error("it assigned {count} events at once to a builder with {slots} slots")]
    BeyondSlots {
        /// Events in the message.
        count: usize,
        /// Slots of the builder.
        slots: usize,
    },
    /// The assignment names a source that is not in the run.
    #[error("it assigned events that expect source {0}, which is not part of this run")]
    UnknownSource(u32),
    /// The ledger does not keep up, and the builder keeps no more completions for it
    /// (docs/reference/protocol.md RUN-32).
    #[error("it has not accounted for {count} completed events of this builder, too many for {slots} slots")]
    Unaccounted {
        /// Completions that wait for the ledger.
        count: usize,
        /// Slots of the builder.
        slots: usize,
    },
    /// The message accounts for more completions than there were.
    #[error("it accounted for {0} completed events, more than this builder has completed")]
    NeverCompleted(u64),
    /// The numbers of the message do not make sense.
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
}

#[derive(Debug)]
pub(super) struct Rosters {
    /// The expected sources of each version.
    versions: VecDeque<(u32, SourceSet)>,
    up: SourceSet,
    awaited: SourceSet,
}

/// Effect of a new roster.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    /// Sources that are no longer expected.
    pub(super) gone: SourceSet,
    /// Sources that are no longer awaited, because they are up or gone.
    pub(super) back: SourceSet,
}

impl Rosters {
    pub(super) fn new(sources: usize) -> Self {
        Self { versions: VecDeque::new(), up: SourceSet::first(sources), awaited: SourceSet::default() }
    }

    /// Publishes a version. Returns the change.
    pub(super) fn publish(&mut self, version: u32, up: SourceSet, awaited: SourceSet) -> Change {
        let expected = up.union(&awaited);
        let gone = self.expected_now().without(&expected);
        let back = self.awaited.without(&awaited);
        (self.up, self.awaited) = (up, awaited);
        if self.versions.len() == REMEMBERED {
            self.versions.pop_front();
        }
        self.versions.push_back((version, expected));
        Change { gone, back }
    }

    /// Returns the sources that are up now or awaited.
    pub(super) fn expected_now(&self) -> SourceSet {
        self.up.union(&self.awaited)
    }

    /// Returns the sources that are down, and for which events wait.
    pub(super) fn awaited(&self) -> SourceSet {
        self.awaited
    }

    /// Returns the sources that events under that version are expected to have.
    pub(super) fn expected(&self, version: u32) -> Result<SourceSet, RosterError> {
        let found = self.versions.iter().rev().find(|(known, _)| *known == version);
        found.map(|(_, expected)| *expected).ok_or(RosterError::UnknownVersion(version))
    }
}
