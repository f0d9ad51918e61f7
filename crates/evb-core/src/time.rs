//! Times in nanoseconds: of the host's monotonic clock, and in UTC. This crate never reads a clock;
//! its functions get the time as the argument `now`.

use core::{
    fmt,
    ops::{Add, AddAssign, Sub},
    time::Duration,
};

/// An instant of the host's monotonic clock in nanoseconds. In production the clock is
/// `CLOCK_MONOTONIC`; in the simulator it begins at zero.
///
/// Each host has its own clock: never subtract instants of two hosts without the offset between
/// their clocks.
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
pub struct Instant(u64);

impl Instant {
    /// Zero of the clock.
    pub const ZERO: Self = Self(0);
    /// An instant later than any that occurs.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Returns the instant `nanos` nanoseconds after the zero of the clock.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the zero of the clock.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to `self`, or zero if `self` is the earlier one.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Converts this instant to a clock that is `nanos` ahead of its own clock.
    #[must_use]
    pub const fn shifted(self, nanos: i64) -> Self {
        Self(self.0.saturating_add_signed(nanos))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
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
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A time in UTC: nanoseconds since 1970-01-01, without leap seconds. Zero means unknown.
///
/// ```
/// use evb_core::time::Utc;
///
/// let noon = Utc::from_nanos(1_763_000_000_123_456_789);
/// assert_eq!(noon.to_string(), "2025-11-13T02:13:20.123456789Z");
/// assert!(!Utc::UNKNOWN.is_known());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utc(u64);

impl Utc {
    /// The time that is written where the time is not known.
    pub const UNKNOWN: Self = Self(0);

    /// Returns the time `nanos` nanoseconds after the beginning of 1970.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the beginning of 1970.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns false for [`Self::UNKNOWN`].
    pub const fn is_known(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for Utc {
    /// Writes the time as in RFC 3339, with nanoseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
    }
}

/// Returns year, month and day of the Gregorian calendar for a number of days since 1970-01-01.
/// Years are counted from 1 March, so that the leap day is the last day of a year.
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march_based = (5 * day + 2) / 153;
    let month = if march_based < 10 { march_based + 3 } else { march_based - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day - (153 * march_based + 2) / 5 + 1)
}

/// Returns the earlier of two optional instants.
pub fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
