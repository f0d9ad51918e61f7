//! Timers that expire only at ticks, as those of kernels did before Linux 2.6.16, and the gate that
//! a token bucket keeps with or without them.

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};
use evb_shaper::EdtBucket;

/// The ticks of a clock of this many hertz. The ticks are the multiples of 1/HZ on the clock,
/// rounded up to whole nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    hertz: u32,
}

impl Ticks {
    /// Returns the ticks of a clock; `None` for a frequency of zero, or one above 1 MHz, which no
    /// timer of a program can follow.
    pub(super) fn new(hertz: u32) -> Option<Self> {
        (1..=1_000_000).contains(&hertz).then_some(Self { hertz })
    }

    /// Returns the number of ticks per second.
    pub(super) fn hertz(self) -> u32 {
        self.hertz
    }

    /// Returns the time between two ticks in nanoseconds.
    pub(super) fn period_nanos(self) -> f64 {
        1e9 / f64::from(self.hertz)
    }

    fn number(self, at: Instant) -> u128 {
        u128::from(at.as_nanos()) * u128::from(self.hertz) / 1_000_000_000
    }

    fn time(self, number: u128) -> Instant {
        let nanos = (number * 1_000_000_000).div_ceil(self.hertz.into());
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the last tick that is not later than `at`.
    pub(super) fn last(self, at: Instant) -> Instant {
        self.time(self.number(at))
    }

    /// Returns the first tick that is not earlier than `at`.
    pub(super) fn next(self, at: Instant) -> Instant {
        let last = self.last(at);
        if last == at { at } else { self.time(self.number(at) + 1) }
    }
}

/// A token bucket in front of a line.
///
/// With ticks, the gate behaves as `tbf` of a kernel whose clock and timers know only ticks: it
/// sees the tokens that the last tick has brought, and its timer opens the gate at the first tick
/// at which enough tokens are there. So all messages whose departure time has come since the last
/// tick leave together.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    bucket: EdtBucket,
    ticks: Option<Ticks>,
    /// True if tokens gather while nothing waits, as in the classic token bucket.
    gathers: bool,
    /// True until the first message has come.
    untouched: bool,
    full_at_start: bool,
}

impl Gate {
    /// Creates a gate whose bucket holds `depth` bytes. The bucket of a gate without ticks is empty
    /// whenever a message finds the line idle, unless it is full at the start: then tokens also
    /// gather while nothing waits.
    pub(super) fn new(rate: Rate, depth: Bytes, ticks: Option<Ticks>, full_at_start: bool) -> Self {
        let gathers = ticks.is_some() || full_at_start;
        Self { bucket: EdtBucket::new(rate, depth), ticks, gathers, untouched: true, full_at_start }
    }

    fn clock(&self, now: Instant) -> Instant {
        self.ticks.map_or(now, |ticks| ticks.last(now))
    }

    /// Notes that a message came at `came` and found nothing waiting.
    pub(super) fn wake(&mut self, came: Instant) {
        let empties = if self.untouched { !self.full_at_start } else { !self.gathers };
        if empties {
            self.bucket.wake(self.clock(came));
        }
        self.untouched = false;
    }

    /// Returns `None` if the next message may leave now, and otherwise the time at which the gate
    /// opens for it.
    pub(super) fn opens(&self, cost: Bytes, now: Instant) -> Option<Instant> {
        let due = self.bucket.due(cost);
        (due > self.clock(now)).then(|| self.ticks.map_or(due, |ticks| ticks.next(due)))
    }

    /// Returns the time at which the next message may leave by the bucket alone.
    pub(super) fn due(&self, cost: Bytes) -> Instant {
        self.bucket.due(cost)
    }

    /// Takes the tokens for a message that leaves now.
    pub(super) fn spend(&mut self, cost: Bytes, now: Instant) {
        self.bucket.spend(cost, self.clock(now));
    }

    /// Takes the tokens for a message in advance; returns the time at which it may leave.
    pub(super) fn reserve(&mut self, cost: Bytes, now: Instant) -> Instant {
        if !self.gathers {
            return self.bucket.depart(cost, now);
        }
        let at = self.bucket.departure_of(cost, now);
        self.bucket.spend(cost, at);
        at
    }
}

/// Returns the depth of a bucket for messages of `size`: two messages, so that a late timer does
/// not lower the rate. With ticks, the depth is one message more than the tokens of a tick, as
/// `tc-tbf(8)` advises.
pub(super) fn depth(rate: Rate, size: Bytes, ticks: Option<Ticks>) -> Bytes {
    let two = size * 2;
    match ticks {
        None => two,
        Some(ticks) => {
            let tokens = rate.bytes_per_second() / f64::from(ticks.hertz());
            two.max(Bytes::new(tokens.ceil() as u64) + size)
        }
    }
}

#[cfg(test)]
mod tests;
