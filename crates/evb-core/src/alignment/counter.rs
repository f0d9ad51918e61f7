//! [`TriggerCounter`]: what the configuration declares about a board's trigger counter.

#[cfg(test)]
mod tests;

use core::fmt;

use crate::id::EventId;

/// The trigger counter that a board sends in place of evb's event id.
///
/// ```
/// use evb_core::alignment::{CounterError, CounterStart, TriggerCounter};
///
/// // The board is reset before each run, and counts the first trigger as 0.
/// let counter = TriggerCounter { first: CounterStart::At(0), ..TriggerCounter::new(24) };
/// assert_eq!(counter.check(), Ok(()));
/// assert_eq!(TriggerCounter::new(4).check(), Err(CounterError::Bits));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerCounter {
    /// Bits of the counter: 8 to 64.
    pub bits: u8,
    /// Value of the counter for event 1.
    pub first: CounterStart,
    /// Number by which the counter grows from one trigger to the next.
    pub step: u64,
}

/// Value of a counter for event 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterStart {
    /// The counter is reset before each run, and has this value for event 1.
    At(u64),
    /// The counter is not reset: the first fragment of the run is event 1, with any value.
    Any,
}

/// A reason why a declared counter cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterError {
    /// The counter has fewer than 8 or more than 64 bits.
    Bits,
    /// The first value has more bits than the counter.
    First,
    /// The step is zero, or the counter wraps within 256 triggers.
    Step,
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bits => "a trigger counter must have 8 to 64 bits",
            Self::First => "the first value of a trigger counter must fit into the counter's bits",
            Self::Step => {
                "the step of a trigger counter must be at least 1, and so small that the counter wraps after at least 256 triggers"
            }
        })
    }
}

impl core::error::Error for CounterError {}

impl TriggerCounter {
    /// Returns a counter of that many bits that counts triggers one by one from 1.
    pub const fn new(bits: u8) -> Self {
        Self { bits, first: CounterStart::At(1), step: 1 }
    }

    /// Checks that each number is within its range.
    ///
    /// # Errors
    /// Returns the first number that is not.
    pub fn check(&self) -> Result<(), CounterError> {
        if !(8..=64).contains(&self.bits) {
            return Err(CounterError::Bits);
        }
        if matches!(self.first, CounterStart::At(first) if first > self.most()) {
            return Err(CounterError::First);
        }
        if self.step == 0 || self.most() / self.step < 255 {
            return Err(CounterError::Step);
        }
        Ok(())
    }

    /// Returns the value for an event; `None` if the counter starts with any value.
    pub fn value_of(&self, event: EventId) -> Option<u64> {
        let CounterStart::At(first) = self.first else { return None };
        let triggers = event.number().wrapping_sub(1);
        Some(first.wrapping_add(triggers.wrapping_mul(self.step)) & self.most())
    }

    /// Returns the largest value.
    pub(super) fn most(&self) -> u64 {
        u64::MAX >> (64 - u32::from(self.bits))
    }

    /// Returns the value for the trigger that follows one with this value.
    pub(super) fn after(&self, value: u64) -> u64 {
        value.wrapping_add(self.step) & self.most()
    }

    /// Returns how far `value` is ahead of `other`: the difference nearest to zero, modulo the
    /// wrap.
    pub(super) fn ahead(&self, value: u64, other: u64) -> i64 {
        let shift = 64 - u32::from(self.bits);
        (value.wrapping_sub(other) << shift).cast_signed() >> shift
    }

    /// Returns the number of triggers after which the counter has the same value again, or a lower
    /// bound of it: 2⁶³ triggers never happen.
    pub(super) fn period(&self) -> u64 {
        self.most() / self.step
    }
}
