//! The part of a run that counts: from the end of the warm-up, for a limited time.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

/// A count of arrivals in the window of time that follows the warm-up. The arrival that opens the
/// window is not counted, because its bytes came in the time before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    warm_up: Duration,
    length: Duration,
    first: Option<Instant>,
    opened: Option<Instant>,
    last: Option<Instant>,
    /// Number of bytes in the window.
    pub(super) bytes: u64,
    /// Number of arrivals in the window.
    pub(super) arrivals: u64,
}

impl Window {
    pub(super) fn new(warm_up: Duration, length: Duration) -> Self {
        Self { warm_up, length, first: None, opened: None, last: None, bytes: 0, arrivals: 0 }
    }

    /// Adds an arrival. Arrivals before and after the window count nothing.
    pub(super) fn add(&mut self, bytes: usize, now: Instant) {
        let first = *self.first.get_or_insert(now);
        match self.opened {
            None if now.duration_since(first) >= self.warm_up => self.opened = Some(now),
            Some(opened) if now.duration_since(opened) <= self.length => {
                self.bytes += bytes as u64;
                self.arrivals += 1;
                self.last = Some(now);
            }
            _ => {}
        }
    }

    /// Returns the time from the arrival that opened the window to the last one in it; zero if
    /// nothing arrived in the window.
    pub(super) fn time(&self) -> Duration {
        self.opened.zip(self.last).map_or(Duration::ZERO, |(opened, last)| last.duration_since(opened))
    }
}
