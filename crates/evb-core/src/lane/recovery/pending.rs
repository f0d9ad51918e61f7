//! [`Pending`]: one transmission that is to come.

use core::{ops::Range, time::Duration};
use std::collections::VecDeque;

use crate::{time::Instant, wire::datagram::Request};

/// A transmission that was permitted and is not accounted for.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) range: Range<u64>,
    pub(super) request: Request,
    /// What the grant policy knows it by: that request, or an earlier one that the source had not heard of.
    pub(super) charged: Request,
    /// Our datagram that says so first.
    pub(super) said: u32,
    /// When it was permitted, or when that was said again to a source that had not heard of it.
    pub(super) given: Instant,
    /// Since when it may come: the bytes before it are here, or it was permitted.
    pub(super) expected: Instant,
    /// Since when something is here that was sent later.
    pub(super) overtaken: Option<Instant>,
}

/// Takes `part` out of a pending transmission, as it is here: what lies in front of it was sent before, and `note` sees what
/// lies behind. Returns how many are left of the one.
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

    /// When it is lost unless it comes. A first transmission is one of a stream, which takes its time; a repetition goes in
    /// front of everything.
    pub(super) fn due(&self, last_arrival: Instant, timeout: Duration) -> Instant {
        match self.request {
            0 => self.given.max(last_arrival) + timeout,
            _ => self.given + timeout,
        }
    }
}
