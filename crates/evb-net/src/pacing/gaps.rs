//! [`Gaps`]: how regular a sequence of times is.

#[cfg(test)]
mod tests;

use std::time::Duration;

use evb_core::time::Instant;

/// The times between arrivals, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    nanos: Vec<u64>,
}

impl Gaps {
    /// Between each time and the next; a time before its predecessor counts as no gap.
    pub fn between(times: &[Instant]) -> Self {
        let mut nanos: Vec<u64> =
            times.windows(2).map(|pair| pair[1].as_nanos().saturating_sub(pair[0].as_nanos())).collect();
        nanos.sort_unstable();
        Self { nanos }
    }

    /// Returns the number of gaps.
    pub fn count(&self) -> usize {
        self.nanos.len()
    }

    /// The shortest first.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = Duration> + '_ {
        self.nanos.iter().copied().map(Duration::from_nanos)
    }

    /// The smallest that at least the fraction `q` of them do not exceed; `None` without any.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = (q.clamp(0.0, 1.0) * self.nanos.len() as f64).ceil() as usize;
        self.nanos.get(rank.max(1) - 1).copied().map(Duration::from_nanos)
    }

    /// The one in the middle.
    pub fn median(&self) -> Option<Duration> {
        self.quantile(0.5)
    }

    /// Returns the distance of the median from `nominal`, as a fraction of it.
    pub fn median_error(&self, nominal: Duration) -> Option<f64> {
        let nominal = nominal.as_secs_f64();
        self.median().filter(|_| nominal > 0.0).map(|median| (median.as_secs_f64() - nominal).abs() / nominal)
    }

    /// The distance from `nominal` that the fraction `q` of them keep.
    pub fn deviation(&self, nominal: Duration, q: f64) -> Option<Duration> {
        let mut off: Vec<u64> = self
            .sorted()
            .map(|gap| gap.abs_diff(nominal).as_nanos().try_into().unwrap_or(u64::MAX))
            .collect();
        off.sort_unstable();
        Self { nanos: off }.quantile(q)
    }

    /// Returns the part of the gaps that lies within `tolerance`, a fraction, of `nominal`; zero if
    /// there are none.
    pub fn within(&self, nominal: Duration, tolerance: f64) -> f64 {
        let allowed = nominal.as_secs_f64() * tolerance;
        let good = self.sorted().filter(|gap| gap.abs_diff(nominal).as_secs_f64() <= allowed).count();
        good as f64 / self.nanos.len().max(1) as f64
    }

    /// Standard deviation over mean: 0 for a clock, 1 for Poisson; `None` below two gaps.
    pub fn coefficient_of_variation(&self) -> Option<f64> {
        let count = self.nanos.len() as f64;
        let mean = self.nanos.iter().map(|gap| *gap as f64).sum::<f64>() / count;
        let squares = self.nanos.iter().map(|gap| (*gap as f64 - mean).powi(2)).sum::<f64>();
        (self.nanos.len() >= 2 && mean > 0.0).then(|| (squares / (count - 1.0)).sqrt() / mean)
    }
}
