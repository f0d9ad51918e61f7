//! Quantities with units: [`Bytes`], [`Rate`] and [`Frequency`], and the text form of quantities.
//!
//! `Bytes / Rate` is a `Duration`. The text form needs a unit: `"128 KiB"`, `"1 Gbit/s"`, `"600
//! MB/s"`, `"2 kHz"`, `"50 ms"`. A number without a unit is refused, because `1000` could mean
//! bytes, kilobytes or packets.

mod parse;
#[cfg(test)]
mod tests;

use core::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Div, Mul, Sub, SubAssign},
    time::Duration,
};

pub use parse::{UnitError, parse_duration};

/// A number of bytes.
///
/// ```
/// use evb_core::units::Bytes;
///
/// let chunk: Bytes = "128 KiB".parse()?;
/// assert_eq!(chunk, Bytes::kib(128));
/// assert_eq!((chunk * 8).to_string(), "1 MiB");
/// assert_eq!(Bytes::new(131_073).to_string(), "131.1 kB");
/// # Ok::<(), evb_core::units::UnitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);
    /// The largest number of bytes, which stands for no limit.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns `kib` KiB.
    pub const fn kib(kib: u64) -> Self {
        Self(kib * 1024)
    }

    /// Returns `mib` MiB.
    pub const fn mib(mib: u64) -> Self {
        Self(mib * 1024 * 1024)
    }

    /// Returns the number of bytes.
    pub const fn count(self) -> u64 {
        self.0
    }

    /// Returns the number of bytes as a `usize`, for lengths in memory.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }

    /// Returns `self − other`, or zero if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        debug_assert!(other <= self, "{other} taken from {self}");
        self.saturating_sub(other)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Div<u64> for Bytes {
    type Output = Self;
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// 8 bits per byte times 10⁹ nanoseconds per second.
const NANOBITS: u128 = 8_000_000_000;

impl Div<Rate> for Bytes {
    type Output = Duration;
    /// Returns the time that this number of bytes takes at that rate, rounded up to a nanosecond.
    #[allow(clippy::suspicious_arithmetic_impl)] // bytes · 8 · 1e9 / (bit/s)
    fn div(self, rate: Rate) -> Duration {
        let bits_in_nanos = u128::from(self.0) * NANOBITS;
        let nanos = bits_in_nanos.div_ceil(u128::from(rate.0.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 6] = [
            (1 << 30, "GiB"),
            (1_000_000_000, "GB"),
            (1 << 20, "MiB"),
            (1_000_000, "MB"),
            (1 << 10, "KiB"),
            (1_000, "kB"),
        ];
        // A size is exact in the largest unit of which it is a whole number, and else rounded.
        let whole = STEPS.iter().find(|(step, _)| self.0 >= *step && self.0.is_multiple_of(*step));
        match whole {
            Some((step, unit)) => write!(f, "{} {unit}", self.0 / step),
            None if self.0 >= 1_000_000_000 => write!(f, "{:.3} GB", self.0 as f64 / 1e9),
            None if self.0 >= 1_000_000 => write!(f, "{:.3} MB", self.0 as f64 / 1e6),
            None if self.0 >= 10_000 => write!(f, "{:.1} kB", self.0 as f64 / 1e3),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// A data rate, stored in bits per second.
///
/// ```
/// use std::time::Duration;
///
/// use evb_core::units::{Bytes, Rate};
///
/// let link: Rate = "10 Gbit/s".parse()?;
/// assert_eq!(Bytes::mib(1) / link, Duration::from_nanos(838_861));
/// assert_eq!(link * Duration::from_millis(1), Bytes::new(1_250_000));
/// assert_eq!("600 MB/s".parse::<Rate>()?.to_string(), "4.8 Gbit/s");
/// # Ok::<(), evb_core::units::UnitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Returns a rate of `bits` bits per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns a rate of `bytes` bytes per second.
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes.saturating_mul(8))
    }

    /// Returns the rate in bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the rate in bytes per second.
    pub fn bytes_per_second(self) -> f64 {
        self.0 as f64 / 8.0
    }
}

impl Add for Rate {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Mul<u64> for Rate {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Mul<Duration> for Rate {
    type Output = Bytes;
    /// Returns the number of bytes that pass at this rate in the given time.
    #[allow(clippy::suspicious_arithmetic_impl)] // bit/s · ns / 8 / 1e9
    fn mul(self, time: Duration) -> Bytes {
        let bytes = u128::from(self.0) * time.as_nanos() / NANOBITS;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0 as f64;
        match self.0 {
            1_000_000_000.. => write!(f, "{} Gbit/s", rounded(bits / 1e9)),
            1_000_000.. => write!(f, "{} Mbit/s", rounded(bits / 1e6)),
            1_000.. => write!(f, "{} kbit/s", rounded(bits / 1e3)),
            _ => write!(f, "{} bit/s", self.0),
        }
    }
}

/// A frequency, stored in hertz.
///
/// ```
/// use evb_core::units::Frequency;
///
/// let rate: Frequency = "2 kHz".parse()?;
/// assert_eq!(rate.period_nanos(), 500_000.0);
/// assert_eq!(Frequency::from_hertz(0.0), None);
/// # Ok::<(), evb_core::units::UnitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Frequency(f64);

impl Frequency {
    /// Returns a frequency of `hertz` Hz; `None` unless the number is finite and above zero.
    pub fn from_hertz(hertz: f64) -> Option<Self> {
        (hertz.is_finite() && hertz > 0.0).then_some(Self(hertz))
    }

    /// Returns the frequency in hertz.
    pub const fn hertz(self) -> f64 {
        self.0
    }

    /// Returns the period in nanoseconds.
    pub fn period_nanos(self) -> f64 {
        1e9 / self.0
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            hz if hz >= 1e9 => write!(f, "{} GHz", rounded(hz / 1e9)),
            hz if hz >= 1e6 => write!(f, "{} MHz", rounded(hz / 1e6)),
            hz if hz >= 1e3 => write!(f, "{} kHz", rounded(hz / 1e3)),
            hz => write!(f, "{} Hz", rounded(hz)),
        }
    }
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
