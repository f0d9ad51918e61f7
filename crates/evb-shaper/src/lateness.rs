//! [`Lateness`]: how late departures are, in a histogram that costs a few nanoseconds.

use core::time::Duration;

/// Bins per doubling, as a power of two: a quantile is right to an eighth.
const SUB_BITS: u32 = 3;
/// Number of bins, for latenesses up to 2⁴⁰ ns, a quarter of an hour.
const BINS: usize = ((40 - SUB_BITS as usize) << SUB_BITS) + (1 << SUB_BITS);

/// Logarithmic histogram of latenesses, after HdrHistogram (G. Tene): eight bins per doubling,
/// exact below 8 ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    counts: [u64; BINS],
    count: u64,
    max: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { counts: [0; BINS], count: 0, max: Duration::ZERO }
    }
}

impl Lateness {
    /// One departure was so late.
    #[inline]
    pub fn record(&mut self, late: Duration) {
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bin(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(late);
    }

    /// Returns the number of latenesses recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The latest.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns the lateness that this part of them did not exceed, rounded up to the end of a bin;
    /// zero where there are none.
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = ((part.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let bin = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        bin.map_or(Duration::ZERO, |bin| Duration::from_nanos(last_of(bin)).min(self.max))
    }

    /// Takes in what another one recorded.
    pub fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, count)| *own += count);
        self.count += other.count;
        self.max = self.max.max(other.max);
    }
}

fn bin(nanos: u64) -> usize {
    if nanos < 1 << SUB_BITS {
        return nanos as usize;
    }
    let shift = 63 - nanos.leading_zeros() - SUB_BITS;
    let within = (nanos >> shift) as usize & ((1 << SUB_BITS) - 1);
    (((shift as usize + 1) << SUB_BITS) + within).min(BINS - 1)
}

/// The largest that falls into a bin.
fn last_of(bin: usize) -> u64 {
    let within = bin as u64 & ((1 << SUB_BITS) - 1);
    match (bin >> SUB_BITS) as u32 {
        0 => within,
        doubling => ((1 << SUB_BITS) + within + 1).checked_shl(doubling - 1).map_or(u64::MAX, |end| end - 1),
    }
}

#[cfg(test)]
mod tests;
