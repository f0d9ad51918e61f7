//! [`Scale`]: the arithmetic of one clock, prepared once so that an event costs no division.

use super::clock::{ClockWrap, DetectorClock};

/// Units of time per nanosecond. A guard counts time in 64ths of a nanosecond, as `i64`, from its
/// first event: 4.6 years are less than 2⁶³ of them.
pub const PER_NANOSECOND: f64 = 64.0;

/// Units of time per second.
pub const SECOND: i64 = 64_000_000_000;

/// The numbers of a declared clock in the guard's units of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Length of a tick.
    pub(super) tick: f64,
    /// Ticks per unit of time.
    pub(super) per_unit: f64,
    /// Largest deviation of a healthy reading.
    pub(super) tolerance: f64,
    /// The tolerance beside the lead for which the clock is declared.
    declared: f64,
    /// Largest deviation of this clock's rate, with a margin of a quarter.
    accuracy: f64,
    /// Largest difference of the rates of this clock and the lead, with the same margin.
    pub(super) rates: f64,
    /// A quarter of the wrap: if a reading is less certain, its wrap is a guess.
    pub(super) quarter: f64,
    /// Ticks of the wrap if it is no power of two, or else 0.
    modulus: u64,
    /// Bits above the clock's bits in a `u64`.
    shift: u32,
}

impl Scale {
    /// Returns the scale of a clock that passed [`DetectorClock::check`], beside a lead of the
    /// given accuracy.
    pub fn new(clock: &DetectorClock, lead_accuracy: f64) -> Self {
        let tick = 1e9 * PER_NANOSECOND / clock.rate.hertz();
        let (shift, modulus, ticks) = match clock.wrap {
            ClockWrap::Bits(bits) => (64 - u32::from(bits), 0, f64::from(bits).exp2()),
            ClockWrap::Ticks(ticks) => (0, ticks, ticks as f64),
        };
        let tolerance = clock.tolerance.as_nanos() as f64 * PER_NANOSECOND;
        Self {
            tick,
            per_unit: 1.0 / tick,
            tolerance,
            declared: tolerance,
            // Parts per million become parts, with a margin of a quarter.
            accuracy: 1.25e-6 * clock.accuracy,
            rates: 1.25e-6 * (clock.accuracy + lead_accuracy),
            quarter: 0.25 * tick * ticks,
            modulus,
            shift,
        }
    }

    /// Returns the largest difference of the rates of this clock and a lead, with a margin.
    pub(super) fn rates_beside(&self, lead: &Self) -> f64 {
        self.accuracy + lead.accuracy
    }

    /// Goes on beside another lead. If it is not the one for which clocks are declared, it may be
    /// less precise and less accurate. Returns by how much the tolerance has become smaller.
    pub(super) fn change_lead(&mut self, lead: &Self, is_declared: bool) -> f64 {
        let before = self.tolerance;
        self.tolerance = if is_declared { self.declared } else { self.declared.max(lead.declared) };
        // A rate that was learnt beside another lead keeps its room.
        self.rates = self.rates.max(self.rates_beside(lead));
        (before - self.tolerance).max(0.0)
    }

    /// Returns how many ticks a reading is ahead of `earlier` + `expected`, modulo the wrap: the
    /// number that is nearest to zero.
    #[inline]
    pub(super) fn ahead(&self, reading: u64, earlier: u64, expected: i64) -> i64 {
        if self.modulus != 0 {
            return self.ahead_of_modulus(reading, earlier, expected);
        }
        let ahead = reading.wrapping_sub(earlier).wrapping_sub(expected.cast_unsigned());
        (ahead << self.shift).cast_signed() >> self.shift
    }

    fn ahead_of_modulus(&self, reading: u64, earlier: u64, expected: i64) -> i64 {
        let wrap = self.modulus.cast_signed();
        let within = |ticks: u64| (ticks % self.modulus).cast_signed();
        let ahead = (within(reading) - within(earlier) - expected % wrap).rem_euclid(wrap);
        if ahead > wrap / 2 { ahead - wrap } else { ahead }
    }

    /// Returns the bits of the clock, if its wrap is a power of two.
    pub(super) fn bits(&self) -> Option<u32> {
        (self.modulus == 0).then_some(64 - self.shift)
    }

    /// Returns true if the host's time of a trigger is precise enough to choose the wrap.
    pub(super) fn is_wide(&self) -> bool {
        self.quarter > SECOND as f64
    }
}

#[cfg(test)]
mod tests;
