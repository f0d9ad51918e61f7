//! [`World`]: the simulated time, and the queue of scheduled steps of a simulation.

use core::{cmp::Ordering, time::Duration};
use std::collections::{BinaryHeap, VecDeque, binary_heap::PeekMut};

use evb_core::time::Instant;

/// The queue of scheduled steps, ordered by time. Steps at the same instant keep the order in which
/// they were scheduled.
#[derive(Debug)]
pub(crate) struct World<H> {
    now: Instant,
    sequence: u64,
    /// Steps that come soon; of each line, only the first step.
    agenda: BinaryHeap<Entry<H>>,
    /// Steps that come later, most of them timers. They are apart, so that `agenda` is small.
    later: BinaryHeap<Entry<H>>,
    lines: Vec<Line<H>>,
}

#[derive(Debug)]
struct Line<H> {
    /// True if the line's first step is in the agenda.
    is_open: bool,
    /// Time of the line's last step.
    last: Instant,
    /// All steps but the first.
    further: VecDeque<Entry<H>>,
}

/// A sequence of steps of which each comes after the one before, such as the arrivals of frames at
/// the end of a link.
pub(crate) type LineIndex = u32;

/// Marks a step that belongs to no line.
const NO_LINE: LineIndex = LineIndex::MAX;

#[derive(Debug)]
struct Entry<H> {
    at: Instant,
    sequence: u64,
    /// The line whose first step this is.
    line: LineIndex,
    happening: H,
}

impl<H> World<H> {
    /// Creates an empty queue at time zero.
    pub(crate) fn new() -> Self {
        Self {
            now: Instant::ZERO,
            sequence: 0,
            agenda: BinaryHeap::new(),
            later: BinaryHeap::new(),
            lines: Vec::new(),
        }
    }

    /// Creates an empty queue at time zero with the given number of lines.
    pub(crate) fn with_lines(lines: usize) -> Self {
        Self {
            lines: (0..lines)
                .map(|_| Line { is_open: false, last: Instant::ZERO, further: VecDeque::new() })
                .collect(),
            ..Self::new()
        }
    }

    /// Returns the simulated time.
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Schedules the step `happening` at the time `at`, or now if `at` is in the past.
    pub(crate) fn schedule(&mut self, at: Instant, happening: H) {
        let entry = self.entry(at, NO_LINE, happening);
        let soon = Duration::from_millis(2);
        if entry.at.since(self.now) > soon { self.later.push(entry) } else { self.agenda.push(entry) }
    }

    /// Schedules a step of a line. A step before the last of its line is scheduled alone.
    pub(crate) fn schedule_in(&mut self, line: LineIndex, at: Instant, happening: H) {
        let entry = self.entry(at, line, happening);
        let Line { is_open, last, further } = &mut self.lines[line as usize];
        if *is_open && entry.at < *last {
            self.agenda.push(Entry { line: NO_LINE, ..entry });
            return;
        }
        *last = entry.at;
        if core::mem::replace(is_open, true) { further.push_back(entry) } else { self.agenda.push(entry) }
    }

    fn entry(&mut self, at: Instant, line: LineIndex, happening: H) -> Entry<H> {
        let (at, sequence) = (at.max(self.now), self.sequence);
        self.sequence += 1;
        Entry { at, sequence, line, happening }
    }

    /// Advances the time to the next scheduled step, and returns the step.
    pub(crate) fn advance(&mut self) -> Option<H> {
        let is_later = match (self.agenda.peek(), self.later.peek()) {
            (Some(soon), Some(later)) => later > soon,
            (soon, _) => soon.is_none(),
        };
        let next = if is_later { self.later.pop()? } else { self.pop_soon()? };
        self.now = next.at;
        Some(next.happening)
    }

    /// Removes the next step of the agenda, and moves the next step of the same line there.
    fn pop_soon(&mut self) -> Option<Entry<H>> {
        let mut first = self.agenda.peek_mut()?;
        let further = self.lines.get_mut(first.line as usize).map(|line| &mut line.further);
        match further.and_then(VecDeque::pop_front) {
            Some(next) => Some(core::mem::replace(&mut *first, next)),
            None => {
                if let Some(line) = self.lines.get_mut(first.line as usize) {
                    line.is_open = false;
                }
                Some(PeekMut::pop(first))
            }
        }
    }

    /// Returns the number of steps scheduled since the start, including those that are still to
    /// come.
    pub(crate) fn count(&self) -> u64 {
        self.sequence
    }
}

impl<H> Default for World<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> Entry<H> {
    /// Returns a key that reverses the order of time, because the heap returns the greatest entry
    /// first.
    fn key(&self) -> core::cmp::Reverse<(Instant, u64)> {
        core::cmp::Reverse((self.at, self.sequence))
    }
}

impl<H> PartialEq for Entry<H> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<H> Eq for Entry<H> {}

impl<H> PartialOrd for Entry<H> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<H> Ord for Entry<H> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests;
