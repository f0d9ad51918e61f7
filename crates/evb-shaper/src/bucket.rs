//! A token bucket that answers with departure times.

use core::time::Duration;

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};

/// An earliest-departure-time bucket (Saeed et al., "Carousel", SIGCOMM 2017): instead of tokens, the instant at which the
/// line is free again, in fixed point of 2⁻³² ns, so that no rate is rounded.
///
/// Law: what departs in any interval T is at most `rate × (T + 1 ns) + burst`, plus one packet by [`Self::departure`], or where a
/// packet is larger than the burst.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    /// ns per byte, 32.32 fixed point.
    per_byte: u128,
    burst: u128,
    /// When the line is free, in 2⁻³² ns.
    next: u128,
}

/// Departures are whole nanoseconds. So much on top of the burst keeps what the rounding up would lose for ever where a
/// packet is as large as the burst.
const GRAIN: u128 = 1 << 32;

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        let per_byte = (8_000_000_000_u128 << 32).div_ceil(u128::from(rate.bits_per_second().max(1)));
        Self { per_byte, burst: per_byte.saturating_mul(burst.count().into()).saturating_add(GRAIN), next: 0 }
    }

    /// When the next bytes may depart; not before `now`.
    pub fn departure(&self, now: Instant) -> Instant {
        let conforms = self.next.saturating_sub(self.burst).div_ceil(1 << 32);
        now.max(Instant::from_nanos(u64::try_from(conforms).unwrap_or(u64::MAX)))
    }

    /// When that many bytes may depart together without going beyond the burst, or, where they are more than the burst,
    /// when the bucket is full; not before `now`.
    pub fn departure_of(&self, bytes: Bytes, now: Instant) -> Instant {
        let cost = self.per_byte.saturating_mul(bytes.count().into()).min(self.burst);
        let conforms = (self.next.saturating_add(cost)).saturating_sub(self.burst).div_ceil(1 << 32);
        now.max(Instant::from_nanos(u64::try_from(conforms).unwrap_or(u64::MAX)))
    }

    /// Those bytes depart now. Returns how long they keep the line busy.
    pub fn spend(&mut self, bytes: Bytes, now: Instant) -> Duration {
        let cost = self.per_byte.saturating_mul(bytes.count().into()).min(u128::from(u64::MAX) << 32);
        self.next = self.next.max(u128::from(now.as_nanos()) << 32) + cost;
        Duration::from_nanos((cost >> 32) as u64)
    }
}

#[cfg(test)]
mod tests;
