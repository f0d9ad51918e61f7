//! [`Lateness`]: a histogram of the lateness of departures.

use core::time::Duration;

use hdrhistogram::Histogram;

/// The largest lateness that the histogram distinguishes, in ns: a quarter of an hour. A greater
/// lateness counts as a quarter of an hour.
const LIMIT: u64 = 900_000_000_000;

/// A histogram of the times by which departures were late, in ns, with a relative resolution of a
/// tenth.
#[derive(Clone, Debug, PartialEq)]
pub struct Lateness(Histogram<u64>);

impl Default for Lateness {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LIMIT, 1).expect("the bounds are constants that fit"))
    }
}

impl Lateness {
    /// Records the lateness of one departure.
    #[inline]
    pub fn record(&mut self, late: Duration) {
        self.0.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the number of latenesses recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the longest recorded lateness, rounded up to the resolution.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// Returns the lateness that the fraction `part` of all departures did not exceed, rounded up
    /// to the resolution; zero if none were recorded.
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(part))
    }
}

#[cfg(test)]
mod tests;
