//! [`Times`]: a histogram of durations that takes little memory until it is used.

use core::time::Duration;

use hdrhistogram::Histogram;

/// One hour in µs. Longer durations count as one hour.
const LIMIT: u64 = 3_600_000_000;

/// A histogram of durations in µs, with a resolution of 1 %.
#[derive(Clone, Debug)]
pub struct Times {
    /// Histogram; `None` until a duration has been recorded.
    histogram: Option<Histogram<u32>>,
    max: u64,
}

impl Times {
    /// Returns an empty histogram.
    pub const fn new() -> Self {
        Self { histogram: None, max: 0 }
    }

    /// Counts a duration.
    pub fn record(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(LIMIT).min(LIMIT);
        self.max = self.max.max(micros);
        self.histogram().saturating_record(micros);
    }

    /// Adds the durations of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.max = self.max.max(other.max);
        for bin in other.histogram.iter().flat_map(Histogram::iter_recorded) {
            let count = bin.count_at_value();
            // The value is within the limit, because the other histogram has the same limit.
            self.histogram().saturating_record_n(bin.value_iterated_to(), count);
        }
    }

    /// Returns the histogram in the form of reports: pairs of a value in µs and its count.
    pub fn pairs(&self) -> Vec<u64> {
        let bins = self.histogram.iter().flat_map(Histogram::iter_recorded);
        bins.flat_map(|bin| [bin.value_iterated_to(), bin.count_at_value().into()]).collect()
    }

    /// Returns the longest duration in µs.
    pub fn max(&self) -> u64 {
        self.max
    }

    fn histogram(&mut self) -> &mut Histogram<u32> {
        self.histogram.get_or_insert_with(|| {
            Histogram::new_with_bounds(1, LIMIT, 2).expect("the bounds are constants that fit")
        })
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
