//! [`Repairs`]: measures the time until lost bytes arrive.

use core::ops::Range;
use std::collections::VecDeque;

use crate::{time::Instant, times::Times};

/// Most losses that are timed at once. Further losses are not timed, because replacing old ones
/// would omit the longest times.
const FOLLOWED: usize = 1024;

/// Lost bytes that have not arrived, each range with the earliest time at which it could have
/// arrived.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    waiting: VecDeque<(Range<u64>, Instant)>,
    times: Times,
}

impl Repairs {
    /// Begins to time `range`, which was declared lost for the first time. `since` is the earliest
    /// time at which it could have arrived: the arrival of the bytes before it, or else its
    /// permission.
    pub(crate) fn begin(&mut self, range: Range<u64>, since: Instant) {
        if self.waiting.len() < FOLLOWED {
            self.waiting.push_back((range, since));
        }
    }

    /// Handles the arrival of missing bytes. The segment counts as one repaired loss if it was sent
    /// again. A segment that was sent for the first time was late and not lost, or its source had
    /// never received the permission.
    pub(crate) fn handle_arrival(&mut self, range: &Range<u64>, is_repetition: bool, now: Instant) {
        if self.waiting.is_empty() {
            return;
        }
        let mut earliest: Option<Instant> = None;
        for index in (0..self.waiting.len()).rev() {
            let (lost, since) = &mut self.waiting[index];
            let since = *since;
            if lost.end <= range.start || range.end <= lost.start {
                continue;
            }
            earliest = Some(earliest.map_or(since, |earliest| earliest.min(since)));
            let (front, rest) = (lost.start..range.start, range.end..lost.end);
            match (front.is_empty(), rest.is_empty()) {
                (true, true) => drop(self.waiting.remove(index)),
                (false, true) => *lost = front,
                (true, false) => *lost = rest,
                (false, false) => {
                    *lost = front;
                    self.begin(rest, since);
                }
            }
        }
        if let Some(since) = earliest.filter(|_| is_repetition) {
            self.times.record(now.since(since));
        }
    }

    /// Returns the measured times of all repairs.
    pub(crate) fn times(&self) -> &Times {
        &self.times
    }
}

#[cfg(test)]
mod tests;
