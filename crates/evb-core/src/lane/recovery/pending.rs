//! [`Pending`]: one transmission that is to come.

use core::{ops::Range, time::Duration};
use std::collections::VecDeque;

use crate::{time::Instant, wire::datagram::Request};

/// A transmission that was permitted and is not accounted for.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) range: Range<u64>,
    pub(super) request: Request,
    /// Request by which the grant policy counts it: this one, or an earlier one that the source had
    /// not heard of.
    pub(super) charged: Request,
    /// Our first datagram that permits it.
    pub(super) said: u32,
    /// Time of the permission, or of its last repetition to a source that had not heard of it.
    pub(super) given: Instant,
    /// Time from which on it may come: the arrival of the bytes before it, or its permission.
    pub(super) expected: Instant,
    /// Time of the first arrival that was sent later.
    pub(super) overtaken: Option<Instant>,
}

/// Takes an arrived `part` out of a pending transmission. Bytes in front of it were sent earlier,
/// and `note` is called with the rest behind it. Returns the number of pieces that are left.
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

    /// Returns the time at which it counts as lost. First transmissions are part of a stream, which
    /// takes its time; repetitions go in front of everything.
    pub(super) fn due(&self, last_arrival: Instant, timeout: Duration) -> Instant {
        match self.request {
            0 => self.given.max(last_arrival) + timeout,
            _ => self.given + timeout,
        }
    }
}
