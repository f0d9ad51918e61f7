//! [`DetectorClock`]: what the configuration declares about the clock of a source.

use core::{fmt, time::Duration};

use crate::units::Frequency;

/// The clock that a board reads for the timestamps of its fragments, as the operator declares it.
///
/// ```
/// use core::time::Duration;
/// use evb_core::alignment::{ClockError, ClockWrap, DetectorClock};
///
/// let mut clock = DetectorClock::new("125 MHz".parse()?, ClockWrap::Bits(48));
/// // The jitter is 10 ns, and the ticks of this clock and of the one that counts time take 8 ns.
/// clock.tolerance = Duration::from_nanos(2 * (10 + 8 + 8));
/// assert_eq!(clock.check(), Ok(()));
/// assert!(clock.wrap_seconds() > 26.0 * 86_400.0);
/// // An unsigned 64-bit word cannot have more bits.
/// clock.wrap = ClockWrap::Bits(65);
/// assert_eq!(clock.check(), Err(ClockError::Wrap));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetectorClock {
    /// Nominal rate of the ticks.
    pub rate: Frequency,
    /// Reading at which the clock starts again at zero.
    pub wrap: ClockWrap,
    /// Largest deviation of a healthy timestamp from the lead's time of the event: jitter of both
    /// boards and ticks of both clocks, with a margin.
    pub tolerance: Duration,
    /// Largest deviation of the rate from its nominal value, in parts per million.
    pub accuracy: f64,
}

/// The number of ticks after which a clock reads zero again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockWrap {
    /// The clock has that many bits: 1 to 64.
    Bits(u8),
    /// The clock counts from zero to this number less one, such as the 3564 bunch crossings of an
    /// orbit of the LHC.
    Ticks(u64),
}

/// A reason why a declared clock cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockError {
    /// The rate is below 1 mHz or above 1 THz.
    Rate,
    /// The clock has no bits or more than 64, or wraps at fewer than two ticks or at more than 2⁶¹.
    Wrap,
    /// The tolerance is below 1 ns or above an hour.
    Tolerance,
    /// The accuracy is no number from 0 to 10 000 ppm.
    Accuracy,
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "the rate of a clock must be 1 mHz to 1 THz",
            Self::Wrap => "a clock must have 1 to 64 bits, or wrap after 2 to 2^61 ticks",
            Self::Tolerance => "the tolerance of a clock must be 1 ns to 1 h",
            Self::Accuracy => "the accuracy of a clock must be 0 to 10 000 ppm",
        })
    }
}

impl core::error::Error for ClockError {}

impl DetectorClock {
    /// Tolerance that applies if none is declared.
    pub const TOLERANCE: Duration = Duration::from_micros(1);
    /// Accuracy that applies if none is declared, in parts per million: an ordinary crystal.
    pub const ACCURACY: f64 = 100.0;

    /// Returns a clock with the default tolerance and accuracy.
    pub const fn new(rate: Frequency, wrap: ClockWrap) -> Self {
        Self { rate, wrap, tolerance: Self::TOLERANCE, accuracy: Self::ACCURACY }
    }

    /// Checks that each quantity is within its range.
    ///
    /// # Errors
    /// Returns the first quantity that is not.
    pub fn check(&self) -> Result<(), ClockError> {
        if !(1e-3..=1e12).contains(&self.rate.hertz()) {
            return Err(ClockError::Rate);
        }
        let is_wrap = match self.wrap {
            ClockWrap::Bits(bits) => (1..=64).contains(&bits),
            ClockWrap::Ticks(ticks) => (2..=1 << 61).contains(&ticks),
        };
        if !is_wrap {
            return Err(ClockError::Wrap);
        }
        if !(Duration::from_nanos(1)..=Duration::from_secs(3600)).contains(&self.tolerance) {
            return Err(ClockError::Tolerance);
        }
        if !(0.0..=1e4).contains(&self.accuracy) {
            return Err(ClockError::Accuracy);
        }
        Ok(())
    }

    /// Returns the time after which the clock reads the same again, in seconds.
    pub fn wrap_seconds(&self) -> f64 {
        let ticks = match self.wrap {
            ClockWrap::Bits(bits) => f64::from(bits).exp2(),
            ClockWrap::Ticks(ticks) => ticks as f64,
        };
        ticks / self.rate.hertz()
    }
}

/// Returns the position of the clock that counts time for the others: the one with the longest
/// wrap, then the one with the finest tick, then the first. `None` without any clock.
pub fn choose_lead(clocks: &[DetectorClock]) -> Option<usize> {
    let better = |one: &DetectorClock, other: &DetectorClock| {
        let wrap = one.wrap_seconds().total_cmp(&other.wrap_seconds());
        wrap.then(one.rate.hertz().total_cmp(&other.rate.hertz())).is_gt()
    };
    let mut lead = None;
    for (position, clock) in clocks.iter().enumerate() {
        if lead.is_none_or(|best: usize| better(clock, &clocks[best])) {
            lead = Some(position);
        }
    }
    lead
}

#[cfg(test)]
mod tests;
