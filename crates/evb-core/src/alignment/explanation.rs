//! [`Explanation`]: what happened to a source.

use crate::index::ClockIndex;

/// Explanation of the disagreements of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Explanation {
    /// The source's fragment of event n belongs to event n + `shift`.
    Slip {
        /// Number of events: positive if the source missed triggers, negative if it had some twice.
        shift: i64,
        /// True if the clock's offset changed, too, or was never known.
        offset_is_new: bool,
    },
    /// The clock was reset, or leapt by that many nanoseconds. The events are right.
    ClockJump {
        /// Time by which the clock leapt.
        nanos: f64,
    },
    /// The clock has that many bits, and not those that were declared.
    OtherBits(u32),
    /// The rate differs from the declared one by that many parts per million.
    OtherRate {
        /// Deviation of the rate.
        ppm: f64,
    },
    /// The fragments are those of another source: cables or addresses are exchanged.
    ExchangedWith(ClockIndex),
    /// All readings are equal.
    Stuck,
    /// The fragments of two neighbouring events are exchanged.
    SwappedPair,
    /// Single timestamps are wrong; the events around them are right.
    SingleStamps,
    /// The readings fit no event within 16 of their own: data of another run, or a broken clock.
    Foreign,
    /// The intervals fit, but nothing says at which shift.
    Unclear,
}

impl Explanation {
    /// Returns true if the source's fragments are in wrong events, or may be.
    pub fn is_misaligned(self) -> bool {
        match self {
            Self::Slip { .. }
            | Self::ExchangedWith(_)
            | Self::SwappedPair
            | Self::Foreign
            | Self::Unclear => true,
            Self::ClockJump { .. } | Self::OtherBits(_) | Self::OtherRate { .. } | Self::SingleStamps => {
                false
            }
            // A clock that stands still says nothing about the events.
            Self::Stuck => false,
        }
    }
}
