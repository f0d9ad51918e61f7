//! [`Permit`]: room in a source's backlog that is reserved for one fragment.

use evb_core::{fragment::Fragment, units::Bytes};

use super::{PushedFragments, Room};

/// Room in a source's backlog for one fragment, from [`Source::reserve`](crate::Source::reserve).
///
/// Readout that must not read its hardware before it can pass the data on reserves room first.
/// Dropping a permit gives the room back.
#[derive(Debug)]
#[must_use = "a permit that is dropped gives its room back"]
pub struct Permit<'a> {
    room: Room<'a>,
    size: Bytes,
}

impl<'a> Permit<'a> {
    pub(super) fn new(room: Room<'a>, size: Bytes) -> Self {
        Self { room, size }
    }

    /// Returns the number of payload bytes that are reserved.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Pushes a fragment into the source. This neither waits nor fails, and the fragment is not
    /// lost while the run goes on.
    ///
    /// A smaller fragment gives the rest of its room back. A larger fragment is accepted as well;
    /// the backlog then exceeds its limit until enough fragments have left it. A fragment that
    /// [`Source::push`](crate::Source::push) would refuse (event 0, larger than `max_fragment`, or
    /// an event far ahead of the run) is counted as refused in the source's report and named in the
    /// log.
    pub fn push(self, fragment: Fragment) {
        self.room.fill(PushedFragments::One(fragment));
    }
}
