//! [`Gaps`]: how regular a sequence of times is.

#[cfg(test)]
mod tests;

use std::time::Duration;

use evb_core::time::Instant;

/// The times between consecutive packets, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    nanos: Vec<u64>,
}

impl Gaps {
    /// Computes the gaps between consecutive times; a time before its predecessor gives a gap of
    /// zero.
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

    /// Returns the gaps, the shortest first.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = Duration> + '_ {
        self.nanos.iter().copied().map(Duration::from_nanos)
    }

    /// Returns the smallest gap that at least the fraction `q` of the gaps do not exceed; `None` if
    /// there are no gaps.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let rank = (q.clamp(0.0, 1.0) * self.nanos.len() as f64).ceil() as usize;
        self.nanos.get(rank.max(1) - 1).copied().map(Duration::from_nanos)
    }

    /// Returns the median gap; `None` if there are no gaps.
    pub fn median(&self) -> Option<Duration> {
        self.quantile(0.5)
    }

    /// Returns the distance of the median gap from `nominal`, as a fraction of `nominal`.
    pub fn median_error(&self, nominal: Duration) -> Option<f64> {
        let nominal = nominal.as_secs_f64();
        self.median().filter(|_| nominal > 0.0).map(|median| (median.as_secs_f64() - nominal).abs() / nominal)
    }

    /// Returns the distance from `nominal` that the fraction `q` of the gaps do not exceed.
    pub fn deviation(&self, nominal: Duration, q: f64) -> Option<Duration> {
        let mut off: Vec<u64> = self
            .sorted()
            .map(|gap| gap.abs_diff(nominal).as_nanos().try_into().unwrap_or(u64::MAX))
            .collect();
        off.sort_unstable();
        Self { nanos: off }.quantile(q)
    }

    /// Returns the fraction of the gaps that differ from `nominal` by at most `tolerance`, a
    /// fraction of `nominal`; zero if there are no gaps.
    pub fn within(&self, nominal: Duration, tolerance: f64) -> f64 {
        let allowed = nominal.as_secs_f64() * tolerance;
        let good = self.sorted().filter(|gap| gap.abs_diff(nominal).as_secs_f64() <= allowed).count();
        good as f64 / self.nanos.len().max(1) as f64
    }

    /// Returns the standard deviation of the gaps divided by their mean: 0 for a regular sequence,
    /// 1 for a Poisson process; `None` for fewer than two gaps.
    pub fn coefficient_of_variation(&self) -> Option<f64> {
        let count = self.nanos.len() as f64;
        let mean = self.nanos.iter().map(|gap| *gap as f64).sum::<f64>() / count;
        let squares = self.nanos.iter().map(|gap| (*gap as f64 - mean).powi(2)).sum::<f64>();
        (self.nanos.len() >= 2 && mean > 0.0).then(|| (squares / (count - 1.0)).sqrt() / mean)
    }
}
