//! Which sources an event is expected to have, by roster version.

use std::collections::VecDeque;

use crate::{set::SourceSet, wire::control::MalformedMessage};

/// How many versions are remembered: assignments follow their roster on the same connection, so the latest few suffice.
const REMEMBERED: usize = 64;

/// An assignment that cannot be understood: the supervisor's fault.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    /// The roster that it speaks of was never published, or is too old (docs/reference/protocol.md RUN-9).
    #[error("assignment under roster version {0}, which was not published before")]
    UnknownVersion(u32),
    /// More at once than may be outstanding here (docs/reference/protocol.md RUN-10).
    #[error("{count} events are assigned at once to a builder with {slots} slots")]
    BeyondSlots {
        /// Events in the message.
        count: usize,
        /// Slots of the builder.
        slots: usize,
    },
    /// It names a source that the run does not have.
    #[error("assignment that expects source {0}, which is not of this run")]
    UnknownSource(u32),
    /// The ledger does not keep up, and no more is kept for it (docs/reference/protocol.md RUN-32).
    #[error("{count} completions wait to be accounted for, at a builder with {slots} slots")]
    Unaccounted {
        /// Completions.
        count: usize,
        /// Slots of the builder.
        slots: usize,
    },
    /// More are accounted for than there were.
    #[error("{0} completions are accounted for, which is more than there were")]
    NeverCompleted(u64),
    /// Its numbers do not make sense.
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
}

#[derive(Debug)]
pub(super) struct Rosters {
    /// Who is expected from that version on.
    versions: VecDeque<(u32, SourceSet)>,
    up: SourceSet,
    awaited: SourceSet,
}

/// What a roster changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Change {
    /// Sources that nobody waits for any more.
    pub(super) gone: SourceSet,
    /// Those that were waited for and are not any more, as they are up, or gone.
    pub(super) back: SourceSet,
}

impl Rosters {
    pub(super) fn new(sources: usize) -> Self {
        Self { versions: VecDeque::new(), up: SourceSet::first(sources), awaited: SourceSet::default() }
    }

    /// Remembers a version.
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

    /// The sources that are up now, or waited for.
    pub(super) fn expected_now(&self) -> SourceSet {
        self.up.union(&self.awaited)
    }

    /// The sources that are down, and for which events wait.
    pub(super) fn awaited(&self) -> SourceSet {
        self.awaited
    }

    /// The sources that events under that version are expected to have.
    pub(super) fn expected(&self, version: u32) -> Result<SourceSet, RosterError> {
        let found = self.versions.iter().rev().find(|(known, _)| *known == version);
        found.map(|(_, expected)| *expected).ok_or(RosterError::UnknownVersion(version))
    }
}
