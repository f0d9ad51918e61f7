//! Times in nanoseconds of the host's monotonic clock. This crate never reads a clock; its
//! functions get the time as the argument `now`.

mod wall_clock;

use core::{
    fmt,
    ops::{Add, AddAssign, Sub},
    time::Duration,
};

pub use wall_clock::{ClockState, ParseUtcError, Utc, WallClock};

/// An instant of the host's monotonic clock in nanoseconds. In production the clock is
/// `CLOCK_MONOTONIC`; in the simulator it begins at zero.
///
/// Each host has its own clock: never subtract instants of two hosts without the offset between
/// their clocks. An instant may lie before the zero of its clock: the clock of a host begins again
/// when the host boots, and a run can be older than that.
///
/// ```
/// use std::time::Duration;
///
/// use evb_core::time::Instant;
///
/// let triggered = Instant::from_nanos(2_000_000);
/// let complete = triggered + Duration::from_micros(350);
/// assert_eq!(complete.since(triggered), Duration::from_micros(350));
/// assert_eq!(triggered.since(complete), Duration::ZERO); // never negative
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(i64);

impl Instant {
    /// Zero of the clock.
    pub const ZERO: Self = Self(0);
    /// An instant later than any that occurs.
    pub const FAR_FUTURE: Self = Self(i64::MAX);

    /// Returns the instant `nanos` nanoseconds after the zero of the clock, modulo 2⁶⁴: numbers
    /// from 2⁶³ up are instants before that zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.cast_signed())
    }

    /// Returns the nanoseconds since the zero of the clock, modulo 2⁶⁴.
    pub const fn as_nanos(self) -> u64 {
        self.0.cast_unsigned()
    }

    /// Returns the time from `earlier` to `self`, or zero if `self` is the earlier one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        if self.0 <= earlier.0 {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.0.abs_diff(earlier.0))
    }

    /// Converts this instant to a clock that is `nanos` ahead of its own clock.
    #[must_use]
    pub const fn shifted(self, nanos: i64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add_unsigned(nanos))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, nanos) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        write!(f, "{sign}{}.{:09} s", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

/// A role whose timer is later than this stood still with its process or its host. That time counts
/// as no peer's silence, because messages that arrived meanwhile are still unread.
pub const STANDSTILL: Duration = Duration::from_millis(250);

/// Returns true if a role that wanted to act at `due` stood still until `now`.
pub fn stood_still(due: Instant, now: Instant) -> bool {
    now.since(due) >= STANDSTILL
}

/// Returns the earlier of two optional instants.
pub fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
