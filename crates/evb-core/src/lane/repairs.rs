//! [`Repairs`]: the time until lost bytes arrived after all.

use core::ops::Range;
use std::collections::VecDeque;

use crate::{time::Instant, times::Times};

/// Most losses that are followed at once. Further ones are ignored, because dropping old ones
/// instead would omit the longest.
const FOLLOWED: usize = 1024;

/// Lost bytes that are still to come, with the times from which on they could have come.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    waiting: VecDeque<(Range<u64>, Instant)>,
    times: Times,
}

impl Repairs {
    /// Begins to follow `range`, which was declared lost for the first time. It was expected since
    /// `since`, when the bytes before it arrived, or else when it was permitted.
    pub(crate) fn begin(&mut self, range: Range<u64>, since: Instant) {
        if self.waiting.len() < FOLLOWED {
            self.waiting.push_back((range, since));
        }
    }

    /// Takes in a segment with missing bytes. It counts as one repaired loss unless it was sent for
    /// the first time: then it was late and not lost, or its source had never heard of the
    /// permission.
    pub(crate) fn handle_arrival(&mut self, range: &Range<u64>, is_repetition: bool, now: Instant) {
        if self.waiting.is_empty() {
            return;
        }
        let mut earliest: Option<Instant> = None;
        for index in (0..self.waiting.len()).rev() {
            let (lost, since) = self.waiting[index].clone();
            if lost.end <= range.start || range.end <= lost.start {
                continue;
            }
            earliest = Some(earliest.map_or(since, |earliest| earliest.min(since)));
            let (front, rest) = (lost.start..range.start, range.end..lost.end);
            match (front.is_empty(), rest.is_empty()) {
                (true, true) => drop(self.waiting.remove(index)),
                (false, true) => self.waiting[index].0 = front,
                (true, false) => self.waiting[index].0 = rest,
                (false, false) => {
                    self.waiting[index].0 = front;
                    self.begin(rest, since);
                }
            }
        }
        if let Some(since) = earliest.filter(|_| is_repetition) {
            self.times.record(now.since(since));
        }
    }

    /// Returns the times of all repairs.
    pub(crate) fn times(&self) -> &Times {
        &self.times
    }
}

#[cfg(test)]
mod tests;
