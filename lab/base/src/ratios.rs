//! Computes the mean ratio of paired measurements, and its confidence interval.

/// Two-sided 95 % quantiles of Student's t distribution for 1, 2, … 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Geometric mean of ratios, and its 95 % confidence interval, computed from the logarithms of the
/// ratios, which scatter symmetrically.
#[derive(Debug)]
pub struct Ratios {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratios {
    /// Computes the mean of the ratios after/before of pairs (before, after).
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let logs: Vec<f64> = pairs.iter().map(|(before, after)| (after / before).ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let student = STUDENT.get(logs.len().saturating_sub(2)).copied().unwrap_or(2.042);
        let half = student * (variance / count).sqrt();
        Self { mean: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() }
    }
}

#[cfg(test)]
mod tests;
