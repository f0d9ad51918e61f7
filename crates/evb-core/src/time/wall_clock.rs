//! [`WallClock`]: a reading of a host's wall clock, and [`Utc`], the times that it gives. This
//! crate never reads a clock; drivers pass readings to the machines.

#[cfg(test)]
mod tests;

use core::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A time in UTC: nanoseconds since 1970-01-01, without leap seconds. Zero means unknown.
///
/// ```
/// use evb_core::time::Utc;
///
/// let time = Utc::from_nanos(1_763_000_000_123_456_789);
/// assert_eq!(time.to_string(), "2025-11-13T02:13:20.123456789Z");
/// assert_eq!(format!("{time:.0}"), "2025-11-13T02:13:20Z");
/// assert!(!Utc::UNKNOWN.is_known());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utc(u64);

/// The kernel's word on whether its wall clock is synchronised with UTC, for example by NTP.
///
/// ```
/// use evb_core::time::ClockState;
///
/// assert_eq!(ClockState::Unsynchronised.to_string(), "not synchronised");
/// assert_eq!(ClockState::from_code(ClockState::Synchronised.code()), ClockState::Synchronised);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockState {
    /// The kernel does not say.
    #[default]
    Unknown,
    /// The kernel says that its clock is synchronised.
    Synchronised,
    /// The kernel says that its clock is not synchronised.
    #[serde(rename = "not synchronised")]
    Unsynchronised,
}

/// A reading of a host's wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallClock {
    /// The time that the clock shows.
    pub utc: Utc,
    /// State of the clock.
    pub state: ClockState,
}

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

/// Number of decimals of a time in nanoseconds.
const DECIMALS: usize = 9;

impl fmt::Display for Utc {
    /// Writes the time as in RFC 3339, with nanoseconds or with as many decimals as the precision
    /// of the format says: `{:.0}` writes whole seconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match f.precision().unwrap_or(DECIMALS).min(DECIMALS) {
            0 => f.write_str("Z"),
            width => write!(f, ".{:0width$}Z", nanos / 10u64.pow((DECIMALS - width) as u32)),
        }
    }
}

/// Reason why a text is no [`Utc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time cannot be read; write it in UTC as 2025-11-13T02:13:20.123456789Z")]
pub struct ParseUtcError;

impl FromStr for Utc {
    type Err = ParseUtcError;

    /// Reads a time as `Display` writes it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time = text.strip_suffix('Z').ok_or(ParseUtcError)?;
        let (date, time) = time.split_once('T').ok_or(ParseUtcError)?;
        let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let [year, month, day] = numbers(date, '-')?;
        let [hour, minute, second] = numbers(time, ':')?;
        let is_possible =
            (1970..=2554).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !is_possible || hour > 23 || minute > 59 || second > 59 || fraction.len() > DECIMALS {
            return Err(ParseUtcError);
        }
        let [fraction] = numbers(&format!("{fraction:0<9}"), '.')?;
        let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        let nanos = seconds.checked_mul(1_000_000_000).and_then(|nanos| nanos.checked_add(fraction));
        nanos.map(Self).ok_or(ParseUtcError)
    }
}

/// Reads unsigned numbers that are separated by `by`.
fn numbers<const N: usize>(text: &str, by: char) -> Result<[u64; N], ParseUtcError> {
    let mut parts = text.split(by);
    let mut numbers = [0; N];
    for number in &mut numbers {
        let digits = parts.next().filter(|part| part.bytes().all(|digit| digit.is_ascii_digit()));
        *number = digits.and_then(|digits| digits.parse().ok()).ok_or(ParseUtcError)?;
    }
    if parts.next().is_none() { Ok(numbers) } else { Err(ParseUtcError) }
}

impl<'de> Deserialize<'de> for Utc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map_or(Ok(Self::UNKNOWN), |text| text.parse().map_err(D::Error::custom))
    }
}

impl Serialize for Utc {
    /// Writes the time as text, as in RFC 3339, and an unknown time as null.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.is_known() {
            true => serializer.collect_str(self),
            false => serializer.serialize_none(),
        }
    }
}

/// Number of days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;

/// Returns year, month and day of the Gregorian calendar for a number of days since 1970-01-01.
/// Years are counted from 1 March, so that the leap day is the last day of a year.
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march_based = (5 * day + 2) / 153;
    let month = if march_based < 10 { march_based + 3 } else { march_based - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day - (153 * march_based + 2) / 5 + 1)
}

/// Returns the number of days from 1970-01-01 to a date of the Gregorian calendar. Source: as for
/// [`date`], `days_from_civil`.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + of_year - DAYS_TO_1970
}

impl ClockState {
    /// Returns the code of this state in messages and files (docs/reference/file-format.md).
    pub const fn code(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Synchronised => 1,
            Self::Unsynchronised => 2,
        }
    }

    /// Returns the state of that code; [`Self::Unknown`] for a code of a later version of evb.
    pub const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Synchronised,
            2 => Self::Unsynchronised,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for ClockState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Synchronised => "synchronised",
            Self::Unsynchronised => "not synchronised",
        })
    }
}
