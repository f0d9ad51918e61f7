//! [`EdtBucket`]: a token bucket that answers with departure times.

use core::time::Duration;

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};

/// An earliest-departure-time bucket: instead of tokens, it keeps the instant at which the line is
/// free again.
///
/// The model is that of Carousel (Saeed et al., SIGCOMM 2017) and of Linux's `fq` since 4.20: every
/// train gets the time at which it may leave, and the next one the time at which a line of that
/// rate has carried it. Time is fixed point in 2⁻⁴⁰ ns: a byte takes 20 ps at 400 Gbit/s and 8 ms
/// at 1 kbit/s, and both are held to better than 10⁻¹⁰. Slower rates than 1 kbit/s become 1 kbit/s.
///
/// **The burst is for catching up.** A shaper that wakes late has to catch up, or the late time is
/// lost for ever. While a queue is *backlogged*, the line's schedule runs on even if it is not
/// served, and overdue trains may leave at once: at most `burst`; time beyond that is forfeited. A
/// queue that was *empty* has nothing to catch up with: [`Self::wake`] marks its end of idleness,
/// and then its first trains are spaced like all others. (The classic token bucket fills up while
/// idle, and so begins every busy period with a burst: such bursts of N sources at once overflow a
/// port.)
///
/// Laws, with `c` the largest train:
/// * since a wake, at most `rate × t` and one train have departed: never ahead of the line;
/// * in any interval, for any sequence of requests, at most `rate × (t + 1 ns) + max(burst, c)`
///   departs.
#[derive(Clone, Debug)]
pub struct EdtBucket {
    rate: Rate,
    burst: Bytes,
    /// Time per byte, in 2⁻⁴⁰ ns.
    per_byte: u64,
    /// The burst as a time on the line, in 2⁻⁴⁰ ns.
    tolerance: u128,
    /// Time at which the line is free, in 2⁻⁴⁰ ns: the schedule.
    next: u128,
    /// Time at which a classic bucket would be full again, in 2⁻⁴⁰ ns: it bounds the sum of
    /// catching up (the theoretical arrival time of GCRA, ITU-T I.371).
    full: u128,
}

/// Bits behind the point.
const FRACTION: u32 = 40;

/// Tolerance for departures, which are whole nanoseconds: without it, the rounding up would be lost
/// for ever.
const GRAIN: u128 = 1 << FRACTION;

/// The slowest rate.
const SLOWEST: u64 = 1000;

impl EdtBucket {
    /// Creates a bucket whose line is free from the clock's zero on. The burst counts the same
    /// bytes as the rate.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        let per_byte = per_byte(rate);
        let tolerance = u128::from(per_byte) * u128::from(burst.count());
        Self { rate, burst, per_byte, tolerance, next: 0, full: 0 }
    }

    /// The rate that was asked for.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the bytes that may be caught up.
    pub fn burst(&self) -> Bytes {
        self.burst
    }

    /// Returns the lateness of trains that costs no rate: the time that the burst takes on the
    /// line.
    pub fn tolerance(&self) -> Duration {
        Duration::from_nanos(whole(self.tolerance))
    }

    /// The queue behind this bucket was empty and has something to send: idle time is no credit.
    #[inline]
    pub fn wake(&mut self, now: Instant) {
        self.next = self.next.max(fixed(now));
    }

    /// Returns the time at which the next bytes may depart; not before `now`.
    #[inline]
    pub fn departure(&self, now: Instant) -> Instant {
        self.departure_of(Bytes::ZERO, now)
    }

    /// Returns the time at which that many bytes may depart together; not before `now`.
    #[inline]
    pub fn departure_of(&self, bytes: Bytes, now: Instant) -> Instant {
        now.max(self.due(bytes))
    }

    /// Returns the time at which that many bytes could have departed at the earliest: their
    /// lateness is the time since.
    #[inline]
    pub fn due(&self, bytes: Bytes) -> Instant {
        // What is larger than the burst goes when the bucket is full.
        let missing = self.cost(bytes).min(self.tolerance);
        let conforms = self.full.saturating_add(missing).saturating_sub(self.tolerance + GRAIN);
        let at = self.next.max(conforms);
        Instant::from_nanos(whole(at.saturating_add(GRAIN - 1)))
    }

    /// Notes that those bytes depart at `at`, which [`Self::departure_of`] allowed. Returns the
    /// time for which they keep the line busy.
    #[inline]
    pub fn spend(&mut self, bytes: Bytes, at: Instant) -> Duration {
        let (cost, at) = (self.cost(bytes), fixed(at));
        let forfeit = at.saturating_sub(self.tolerance.max(GRAIN));
        self.next = self.next.max(forfeit).saturating_add(cost);
        self.full = self.full.max(at).saturating_add(cost);
        Duration::from_nanos(whole(cost))
    }

    /// Takes the next place on the line for bytes that are ready now, and returns their departure
    /// time: for executors that hold trains until their time. A delay beyond that place is the
    /// caller's, and not caught up.
    #[inline]
    pub fn depart(&mut self, bytes: Bytes, now: Instant) -> Instant {
        self.wake(now);
        let at = self.departure_of(bytes, now);
        self.spend(bytes, at);
        at
    }

    /// Changes the rate from now on; bytes still on the line are carried at the new one.
    pub fn set_rate(&mut self, rate: Rate, now: Instant) {
        let (old, new) = (u128::from(self.per_byte), per_byte(rate));
        let now = fixed(now);
        let rescaled = |time: u128| match time.checked_sub(now) {
            None => time,
            Some(ahead) => {
                let (bytes, rest) = (ahead / old, ahead % old);
                let bytes = bytes.min(u64::MAX.into()) * u128::from(new);
                now.saturating_add(bytes).saturating_add(rest * u128::from(new) / old)
            }
        };
        (self.next, self.full) = (rescaled(self.next), rescaled(self.full));
        self.tolerance = u128::from(new) * u128::from(self.burst.count());
        (self.rate, self.per_byte) = (rate, new);
    }

    #[inline]
    fn cost(&self, bytes: Bytes) -> u128 {
        u128::from(self.per_byte) * u128::from(bytes.count())
    }
}

/// Time per byte, rounded up: never faster than asked.
fn per_byte(rate: Rate) -> u64 {
    let bits = u128::from(rate.bits_per_second().max(SLOWEST));
    // At most 8 ms: 8.8e18 units, within 64 bits.
    (8_000_000_000_u128 << FRACTION).div_ceil(bits) as u64
}

#[inline]
fn fixed(at: Instant) -> u128 {
    u128::from(at.as_nanos()) << FRACTION
}

/// Whole nanoseconds, cut off; the end of time where there are too many.
#[inline]
fn whole(time: u128) -> u64 {
    u64::try_from(time >> FRACTION).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
