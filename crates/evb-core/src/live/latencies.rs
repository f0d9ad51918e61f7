//! [`Latencies`]: durations counted so cheaply that every event can be, and sent every second.

use core::time::Duration;

/// Buckets: four for each doubling, up to an hour and more.
const BUCKETS: usize = 128;

/// A histogram of durations in buckets that are a fifth wide (each doubling has four), from 1 µs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    counts: Vec<u64>,
}

impl Latencies {
    /// A histogram of nothing.
    pub fn new() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }

    /// Counts one.
    pub fn record(&mut self, micros: u64) {
        if let Some(count) = self.counts.get_mut(bucket(micros)) {
            *count += 1;
        }
    }

    /// The histogram as reports carry it: pairs of a bucket and its count.
    pub fn pairs(&self) -> Vec<u64> {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.flat_map(|(index, count)| [index as u64, *count]).collect()
    }

    /// Adds what a report carries; buckets that there are not are left out.
    pub fn add_pairs(&mut self, pairs: &[u64]) {
        for [index, count] in pairs.as_chunks::<2>().0 {
            let own = usize::try_from(*index).ok().and_then(|index| self.counts.get_mut(index));
            if let Some(own) = own {
                *own = own.saturating_add(*count);
            }
        }
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, count)| *own = own.saturating_add(*count));
    }

    /// What came since an earlier histogram; everything if counting began anew meanwhile.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let began_anew = self.counts.iter().zip(&before.counts).any(|(now, before)| now < before);
        if began_anew {
            return self.clone();
        }
        Self { counts: self.counts.iter().zip(&before.counts).map(|(now, before)| now - before).collect() }
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |all, count| all.saturating_add(*count))
    }

    /// The duration that this part of all does not exceed, to the upper end of its bucket; `None` if there is none.
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

    /// The same in coarse buckets, each twice as wide as the one before: their upper ends, and how many were counted in each. There
    /// are always as many.
    pub fn octaves(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.counts.chunks(4).enumerate().map(|(octave, counts)| {
            let count = counts.iter().fold(0, |all: u64, count| all.saturating_add(*count));
            (Duration::from_micros(end(4 * octave + 3)), count)
        })
    }

    /// About the sum of all: each counts as the upper end of its bucket.
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

/// Below 4 µs a bucket for each; then the two bits behind the highest one choose among four.
fn bucket(micros: u64) -> usize {
    let Some(octave) = micros.checked_ilog2().filter(|octave| *octave >= 2) else { return micros as usize };
    let quarter = (micros >> (octave - 2)) & 3;
    (4 * (octave as usize - 1) + quarter as usize).min(BUCKETS - 1)
}

/// The largest number of microseconds in a bucket.
fn end(index: usize) -> u64 {
    let index = index as u64;
    if index < 4 { index } else { ((4 + index % 4 + 1) << (index / 4 - 1)) - 1 }
}

#[cfg(test)]
mod tests;
