//! [`Lateness`]: a histogram of how late departures are.

use core::time::Duration;

use hdrhistogram::Histogram;

/// A quarter of an hour in ns. Later departures count as so late.
const LIMIT: u64 = 900_000_000_000;

/// A histogram of latenesses in ns, with a resolution of a tenth.
#[derive(Clone, Debug, PartialEq)]
pub struct Lateness(Histogram<u64>);

impl Default for Lateness {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LIMIT, 1).expect("the bounds are constants that fit"))
    }
}

impl Lateness {
    /// Counts a departure that was so late.
    #[inline]
    pub fn record(&mut self, late: Duration) {
        self.0.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Returns the number of latenesses recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the longest, rounded up to the resolution.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }

    /// Returns the lateness that this part of them did not exceed, rounded up to the resolution;
    /// zero where there are none.
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(part))
    }
}

#[cfg(test)]
mod tests;
