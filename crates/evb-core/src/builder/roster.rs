//! Which sources an event is expected to have, by roster version.

use std::collections::VecDeque;

use crate::{set::SourceSet, wire::control::MalformedMessage};

/// How many versions are remembered: assignments follow their roster on the same connection, so the latest few suffice.
const REMEMBERED: usize = 64;

/// An assignment that cannot be understood: the supervisor's fault.
#[derive(Debug, thiserror::Error)]
pub enum RosterError {
    /// The roster that it speaks of was never published, or is too old (docs/protocol.md RUN-9).
    #[error("assignment under roster version {0}, which was not published before")]
    UnknownVersion(u32),
    /// More at once than may be outstanding here (docs/protocol.md RUN-10).
    #[error("{count} events are assigned at once to a builder with {slots} slots")]
    BeyondSlots {
        /// Events in the message.
        count: usize,
        /// Slots of the builder.
        slots: usize,
    },
    /// Its numbers do not make sense.
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
}

#[derive(Debug)]
pub(super) struct Rosters {
    versions: VecDeque<(u32, SourceSet)>,
    up: SourceSet,
}

impl Rosters {
    pub(super) fn new(sources: usize) -> Self {
        Self { versions: VecDeque::new(), up: SourceSet::first(sources) }
    }

    /// Remembers a version; returns the sources that were up and are not any more.
    pub(super) fn publish(&mut self, version: u32, up: SourceSet) -> SourceSet {
        let down = self.up.without(&up);
        self.up = up;
        if self.versions.len() == REMEMBERED {
            self.versions.pop_front();
        }
        self.versions.push_back((version, up));
        down
    }

    /// The sources that are up now.
    pub(super) fn up(&self) -> SourceSet {
        self.up
    }

    pub(super) fn expected(&self, version: u32) -> Result<SourceSet, RosterError> {
        let found = self.versions.iter().rev().find(|(known, _)| *known == version);
        found.map(|(_, up)| *up).ok_or(RosterError::UnknownVersion(version))
    }
}
