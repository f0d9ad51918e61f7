//! [`Pending`]: one transmission that has not arrived.

use core::{ops::Range, time::Duration};
use std::collections::VecDeque;

use crate::{time::Instant, wire::datagram::Request};

/// A transmission that the builder permitted and that has neither arrived nor been declared lost.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) range: Range<u64>,
    pub(super) request: Request,
    /// Request under which the grant policy counts the transmission: `request`, or an earlier
    /// request that the source had not acknowledged.
    pub(super) charged: Request,
    /// The builder's first datagram that permits the transmission.
    pub(super) said: u32,
    /// Time of the permission, or of its last repetition to a source that had not acknowledged it.
    pub(super) given: Instant,
    /// Earliest time at which the bytes may arrive: the arrival of the bytes before them, or their
    /// permission.
    pub(super) expected: Instant,
    /// Time of the first arrival of bytes that were sent later.
    pub(super) overtaken: Option<Instant>,
}

/// Removes an arrived `part` from a pending transmission. Bytes in front of the part were sent
/// earlier and count as overtaken; `note` is called with the rest behind it. Returns the number of
/// pending pieces that are left.
pub(super) fn take_out(
    pending: &mut VecDeque<Pending>,
    index: usize,
    part: &Range<u64>,
    now: Instant,
    note: impl FnOnce(&mut Pending),
) -> usize {
    let whole = &mut pending[index];
    let front = whole.range.start..part.start;
    let mut rest = Pending { range: part.end..whole.range.end, ..whole.clone() };
    note(&mut rest);
    match (front.is_empty(), rest.range.is_empty()) {
        (true, true) => {
            pending.remove(index);
            0
        }
        (true, false) => {
            *whole = rest;
            1
        }
        (false, is_last) => {
            whole.range = front;
            whole.overtaken.get_or_insert(now);
            if !is_last {
                pending.insert(index + 1, rest);
            }
            2 - usize::from(is_last)
        }
    }
}

impl Pending {
    pub(super) fn overlap(&self, range: &Range<u64>) -> Range<u64> {
        self.range.start.max(range.start)..self.range.end.min(range.end)
    }

    /// Returns the time at which the transmission counts as lost. First transmissions arrive as a
    /// stream, so each arrival restarts their timer; repeated bytes are sent before everything
    /// else, so their timer runs from the permission.
    pub(super) fn due(&self, last_arrival: Instant, timeout: Duration) -> Instant {
        match self.request {
            0 => self.given.max(last_arrival) + timeout,
            _ => self.given + timeout,
        }
    }
}
