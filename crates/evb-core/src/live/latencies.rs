//! [`Latencies`]: a histogram of durations that is cheap enough to count every event, and small
//! enough to be sent every second.

use core::time::Duration;

/// Number of buckets: four for each factor of two, up to more than an hour.
const BUCKETS: usize = 128;

/// A histogram of durations from 1 µs on. Each factor of two has four buckets, so the width of a
/// bucket is about a fifth of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    counts: Vec<u64>,
}

impl Latencies {
    /// Returns an empty histogram.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }

    /// Counts one duration, given in µs.
    pub fn record(&mut self, micros: u64) {
        if let Some(count) = self.counts.get_mut(bucket(micros)) {
            *count += 1;
        }
    }

    /// Returns the histogram in the form of reports: pairs of a bucket's index and its count.
    pub fn pairs(&self) -> Vec<u64> {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.flat_map(|(index, count)| [index as u64, *count]).collect()
    }

    /// Adds the pairs from a report, and ignores unknown buckets.
    pub fn add_pairs(&mut self, pairs: &[u64]) {
        for [index, count] in pairs.as_chunks::<2>().0 {
            let bucket = usize::try_from(*index).ok().and_then(|index| self.counts.get_mut(index));
            if let Some(bucket) = bucket {
                *bucket = bucket.saturating_add(*count);
            }
        }
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, count)| *own = own.saturating_add(*count));
    }

    /// Returns the durations that were counted since the histogram `before`, or all durations if
    /// counting has restarted since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let began_anew = self.counts.iter().zip(&before.counts).any(|(now, before)| now < before);
        if began_anew {
            return self.clone();
        }
        Self { counts: self.counts.iter().zip(&before.counts).map(|(now, before)| now - before).collect() }
    }

    /// Returns the number of durations counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |all, count| all.saturating_add(*count))
    }

    /// Returns the quantile `part` (0 to 1) of the counted durations, as the upper end of its
    /// bucket; `None` if the histogram is empty.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let all = self.count();
        let wanted = ((all as f64 * part).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0u64;
        let index = self.counts.iter().position(|count| {
            seen = seen.saturating_add(*count);
            seen >= wanted
        })?;
        Some(Duration::from_micros(end(index)))
    }

    /// Returns the histogram in coarse buckets, each twice as wide as the previous one, as pairs of
    /// upper end and count. The number of buckets is fixed.
    pub fn octaves(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.counts.chunks(4).enumerate().map(|(octave, counts)| {
            let count = counts.iter().fold(0, |all: u64, count| all.saturating_add(*count));
            (Duration::from_micros(end(4 * octave + 3)), count)
        })
    }

    /// Returns the approximate sum of all durations, each taken as the upper end of its bucket.
    pub fn sum(&self) -> Duration {
        let micros = self.counts.iter().enumerate().map(|(index, count)| end(index).saturating_mul(*count));
        Duration::from_micros(micros.fold(0, u64::saturating_add))
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the index of the bucket of a duration. Below 4 µs, each value has its own bucket; above,
/// the two bits after the highest set bit choose among the four buckets of a factor of two.
fn bucket(micros: u64) -> usize {
    let Some(octave) = micros.checked_ilog2().filter(|octave| *octave >= 2) else { return micros as usize };
    let quarter = (micros >> (octave - 2)) & 3;
    (4 * (octave as usize - 1) + quarter as usize).min(BUCKETS - 1)
}

/// Returns the largest duration in a bucket, in µs.
fn end(index: usize) -> u64 {
    let index = index as u64;
    if index < 4 { index } else { ((4 + index % 4 + 1) << (index / 4 - 1)) - 1 }
}

#[cfg(test)]
mod tests;
