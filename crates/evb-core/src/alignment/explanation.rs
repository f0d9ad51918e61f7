//! [`Explanation`]: what happened to a source.

use crate::{index::ClockIndex, quantities::counted};

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
    /// The readings fit at several shifts, or too few could be compared.
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

    /// Returns true if it says what an earlier explanation said, and the clock was the same all the
    /// time. `is_proven` is true if the clock was believed between them.
    pub(crate) fn goes_on(self, earlier: Self, is_proven: bool) -> bool {
        match (earlier, self) {
            (Self::Stuck, Self::Stuck) => !is_proven,
            (Self::OtherBits(earlier), Self::OtherBits(now)) => earlier == now,
            (Self::OtherRate { .. }, Self::OtherRate { .. }) => true,
            _ => false,
        }
    }

    /// Returns true if it does not say what happened.
    pub(super) fn is_vague(self) -> bool {
        matches!(self, Self::Foreign | Self::Unclear)
    }

    /// Returns a word for the kind of this explanation.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Slip { .. } => "slip",
            Self::ClockJump { .. } => "clock jump",
            Self::OtherBits(_) => "other bits",
            Self::OtherRate { .. } => "other rate",
            Self::ExchangedWith(_) => "exchanged",
            Self::Stuck => "stuck",
            Self::SwappedPair => "swapped",
            Self::SingleStamps => "single timestamps",
            Self::Foreign => "foreign",
            Self::Unclear => "unclear",
        }
    }

    /// Returns what happened, as a sentence without its subject, the source. `named` returns the
    /// name of another source.
    pub fn sentence(self, named: impl Fn(ClockIndex) -> String) -> String {
        let fixed = match self {
            Self::Slip { shift, offset_is_new } => return slip(shift, offset_is_new),
            Self::ClockJump { nanos } => {
                return format!(
                    "had its clock reset, or moved by {:.3} ms: its events are right",
                    nanos / 1e6
                );
            }
            Self::OtherBits(bits) => {
                return format!(
                    "has a clock of {bits} bits, not of as many as configured: its events are right"
                );
            }
            Self::OtherRate { ppm } => {
                return format!("has a clock {ppm:+.1} ppm from the configured rate: its events are right");
            }
            Self::ExchangedWith(other) => {
                let other = named(other);
                return format!("sends the fragments of {other}: cables or addresses are exchanged");
            }
            Self::Stuck => {
                "sends the same timestamp all the time, so evb cannot tell whether its fragments are in the right events"
            }
            Self::SwappedPair => "exchanged the fragments of two neighbouring events",
            Self::SingleStamps => {
                "had single wrong timestamps, but its events are right, as those before and after show"
            }
            Self::Foreign => {
                "sends timestamps that fit neither their events nor any of the 16 before or after: data of another run, or a broken clock"
            }
            Self::Unclear => {
                "may have its fragments in wrong events, and evb cannot tell by how many: the triggers are too regular, or too few"
            }
        };
        fixed.to_owned()
    }
}

/// Describes a slip by `shift` events: a positive shift means missed triggers, a negative one
/// triggers that were counted twice.
fn slip(shift: i64, offset_is_new: bool) -> String {
    let count = shift.unsigned_abs();
    let (how, whose) = match shift > 0 {
        true => (format!("missed {}", counted(count, "trigger")), "later"),
        false => (format!("had {} twice", counted(count, "trigger")), "earlier"),
    };
    let reset = if offset_is_new { ", and its clock was reset" } else { "" };
    format!("{how}{reset}: its fragments belong to {} {whose}", counted(count, "event"))
}
