//! [`EdtBucket`]: a token bucket that returns departure times instead of counting tokens.

use core::time::Duration;

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};

/// A rate limiter of the kind "earliest departure time": instead of tokens, it keeps the time at
/// which the line has carried all earlier bytes and is free again.
///
/// The model is that of Carousel (Saeed et al., SIGCOMM 2017) and of Linux's `fq` since 4.20: every
/// packet train gets the time at which it may leave, and its successor the time at which a line of
/// the given rate has carried the train. Time is fixed point in 2⁻⁴⁰ ns: a byte takes 20 ps at 400
/// Gbit/s and 8 ms at 1 kbit/s, and the format represents both with an error below 10⁻¹⁰. Rates
/// below 1 kbit/s are raised to 1 kbit/s.
///
/// **The burst is for catching up.** A shaper that wakes up late has to catch up, or the lost time
/// lowers the rate permanently. While a queue is *backlogged*, the line's schedule runs on even if
/// the queue is not served, and overdue trains may leave at once: at most `burst` bytes. Any
/// further lateness is forfeited. A queue that was *empty* has nothing to catch up with:
/// [`Self::wake`] marks the end of its idleness, and then its first trains are spaced like all
/// others. (The classic token bucket fills up while idle, and so begins every busy period with a
/// burst: such bursts of N sources at once overflow a port.)
///
/// Guaranteed limits, with `c` the largest train:
/// * since a wake, at most `rate × t` and one train have departed, so departures are never ahead of
///   the line;
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
    /// Time at which the line is free for the next train, in 2⁻⁴⁰ ns.
    next: u128,
    /// Time at which a classic token bucket would be full again, in 2⁻⁴⁰ ns (the theoretical
    /// arrival time of GCRA, ITU-T I.371). This time limits the bytes that may leave at once to
    /// catch up.
    full: u128,
}

/// Number of fractional bits in the fixed-point times.
const FRACTION: u32 = 40;

/// Tolerance of one nanosecond. Departure times are rounded up to whole nanoseconds, and without
/// the tolerance each rounding would lower the rate.
const GRAIN: u128 = 1 << FRACTION;

/// The slowest rate that a bucket supports, in bit/s.
const SLOWEST: u64 = 1000;

impl EdtBucket {
    /// Creates a bucket whose line is free from the zero of the clock on. The burst counts the same
    /// kind of bytes as the rate.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        let per_byte = per_byte(rate);
        let tolerance = u128::from(per_byte) * u128::from(burst.count());
        Self { rate, burst, per_byte, tolerance, next: 0, full: 0 }
    }

    /// Returns the configured rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the burst: the bytes that may leave at once to catch up with the schedule.
    pub fn burst(&self) -> Bytes {
        self.burst
    }

    /// Returns the greatest lateness of trains that does not lower the rate, which is the time that
    /// the burst takes on the line.
    pub fn tolerance(&self) -> Duration {
        Duration::from_nanos(whole(self.tolerance))
    }

    /// Notes that the queue of this bucket was empty until `now` and has something to send. The
    /// idle time does not count as time to catch up with.
    #[inline]
    pub fn wake(&mut self, now: Instant) {
        self.next = self.next.max(fixed(now));
    }

    /// Returns the time at which the line is free for the next bytes, at the earliest `now`.
    #[inline]
    pub fn departure(&self, now: Instant) -> Instant {
        self.departure_of(Bytes::ZERO, now)
    }

    /// Returns the time at which a train of `bytes` may depart, at the earliest `now`.
    #[inline]
    pub fn departure_of(&self, bytes: Bytes, now: Instant) -> Instant {
        now.max(self.due(bytes))
    }

    /// Returns the earliest time at which a train of `bytes` may depart or could have departed. If
    /// the returned time is in the past, the time since then is the lateness of the train.
    #[inline]
    pub fn due(&self, bytes: Bytes) -> Instant {
        // A train larger than the burst may depart when the bucket is full.
        let missing = self.cost(bytes).min(self.tolerance);
        let conforms = self.full.saturating_add(missing).saturating_sub(self.tolerance + GRAIN);
        let at = self.next.max(conforms);
        Instant::from_nanos(whole(at.saturating_add(GRAIN - 1)))
    }

    /// Notes that a train of `bytes` departs at `at`, a time that [`Self::departure_of`] has
    /// allowed. Returns the time for which the train keeps the line busy.
    #[inline]
    pub fn spend(&mut self, bytes: Bytes, at: Instant) -> Duration {
        let (cost, at) = (self.cost(bytes), fixed(at));
        let forfeit = at.saturating_sub(self.tolerance.max(GRAIN));
        self.next = self.next.max(forfeit).saturating_add(cost);
        self.full = self.full.max(at).saturating_add(cost);
        Duration::from_nanos(whole(cost))
    }

    /// Reserves the line for a train that is ready now, and returns its departure time. This
    /// function is for callers that hold trains until their departure time themselves. If a train
    /// leaves later than the returned time, the delay is not caught up.
    #[inline]
    pub fn depart(&mut self, bytes: Bytes, now: Instant) -> Instant {
        self.wake(now);
        let at = self.departure_of(bytes, now);
        self.spend(bytes, at);
        at
    }

    /// Changes the rate from `now` on. Bytes that the line has not carried yet are carried at the
    /// new rate.
    pub fn set_rate(&mut self, rate: Rate, now: Instant) {
        let (old, new) = (u128::from(self.per_byte), per_byte(rate));
        let now = fixed(now);
        // A time in the future stands for bytes that the line has not carried yet.
        let rescaled = |time: u128| match time.checked_sub(now) {
            None => time,
            Some(ahead) => {
                let (bytes, rest) = (ahead / old, ahead % old);
                // Far more bytes than any line carries are cut, so that the product fits.
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

/// Returns the time per byte at a rate, in 2⁻⁴⁰ ns, rounded up so that the bucket is never faster
/// than the rate.
fn per_byte(rate: Rate) -> u64 {
    let bits = u128::from(rate.bits_per_second().max(SLOWEST));
    // The time per byte is at most 8 ms, or 8.8e18 units, which fits into 64 bits.
    (8_000_000_000_u128 << FRACTION).div_ceil(bits) as u64
}

#[inline]
fn fixed(at: Instant) -> u128 {
    u128::from(at.as_nanos()) << FRACTION
}

/// Converts a fixed-point time to whole nanoseconds, rounded down, and limited to `u64::MAX`.
#[inline]
fn whole(time: u128) -> u64 {
    u64::try_from(time >> FRACTION).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
