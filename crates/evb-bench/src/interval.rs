//! Confidence intervals of means, and repetition until an interval is narrow enough.

#[cfg(test)]
mod tests;

use std::f64::consts::FRAC_2_PI;

use serde::Serialize;

use crate::output::BenchError;

/// Least number of samples of which an interval is judged: two may agree by chance.
const LEAST: u32 = 3;
/// Largest number of repetitions that can be requested.
const MOST: u32 = 1000;

/// Arguments for the repetition of measurements.
#[derive(clap::Args, Clone, Copy, Debug, PartialEq)]
pub(super) struct Repetition {
    /// Largest number of measurements of a point; the smallest is 3.
    #[arg(long, default_value_t = 10)]
    pub(super) repeats: u32,
    /// Probability that the stated interval contains the mean (Student's t).
    #[arg(long, default_value_t = 0.95)]
    pub(super) confidence: f64,
    /// Half width of the interval, as a part of the mean, at which a point is not repeated any
    /// more.
    #[arg(long, default_value = "2.5%", value_parser = part)]
    pub(super) within: f64,
}

/// Parses a part of a whole: `2.5%`, or `0.025`.
fn part(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 0.01),
        None => (text.trim(), 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value * unit),
        _ => Err(format!("`{text}` is not a part above zero, such as 2.5%")),
    }
}

impl Repetition {
    /// Refuses numbers with which nothing can be measured.
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let refuse = |reason: String| Err(BenchError::Operator(reason));
        if !(LEAST..=MOST).contains(&self.repeats) {
            return refuse(format!("--repeats is {LEAST} to {MOST}, not {}", self.repeats));
        }
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            return refuse(format!("--confidence is above 0 and below 1, not {}", self.confidence));
        }
        Ok(())
    }

    /// Measures until the interval of the runs' `rate` is narrow enough, or the number of
    /// repetitions is reached. Returns the interval and all runs.
    pub(super) fn runs<R, E>(
        &self,
        rate: impl Fn(&R) -> f64,
        mut measure: impl FnMut(u32) -> Result<R, E>,
    ) -> Result<(Interval, Vec<R>), E> {
        let mut runs = Vec::new();
        let interval = self.run(|number| {
            let run = measure(number)?;
            let sample = rate(&run);
            runs.push(run);
            Ok(sample)
        })?;
        Ok((interval, runs))
    }

    /// Measures until the interval is narrow enough, or the number of repetitions is reached.
    pub(super) fn run<E>(&self, mut measure: impl FnMut(u32) -> Result<f64, E>) -> Result<Interval, E> {
        let mut samples = Vec::new();
        for number in 1..=self.repeats {
            samples.push(measure(number)?);
            let interval = Interval::of(&samples, self.confidence);
            if number >= LEAST && interval.half_width <= self.within * interval.mean.abs() {
                return Ok(Interval { converged: Some(true), ..interval });
            }
        }
        Ok(Interval { converged: Some(false), ..Interval::of(&samples, self.confidence) })
    }

    /// Describes the repetition in words.
    pub(super) fn text(&self) -> String {
        format!(
            "each point repeated until its {} % interval is within ± {} % of the mean, {LEAST} to {} times",
            trimmed(self.confidence * 100.0),
            trimmed(self.within * 100.0),
            self.repeats
        )
    }
}

/// Rounds a number to six decimals, so that 0.025 · 100 reads 2.5.
fn trimmed(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// A mean with its confidence interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Mean of the samples.
    pub mean: f64,
    /// Half of the width of the interval around the mean; infinite (`null` in JSON) for a single
    /// sample.
    pub half_width: f64,
    /// True if the interval became as narrow as requested; `None` if no width was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub converged: Option<bool>,
    /// All samples, in the order of the measurements.
    pub samples: Vec<f64>,
}

impl Interval {
    /// Returns the mean of independent samples and the interval that contains the true mean with
    /// this probability, if the samples are distributed normally.
    pub(super) fn of(samples: &[f64], confidence: f64) -> Self {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let half_width = match samples.len() {
            0 | 1 => f64::INFINITY,
            more => {
                let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
                student_t(confidence, more as u32 - 1) * (squares / (count - 1.0) / count).sqrt()
            }
        };
        Self { mean, half_width, converged: None, samples: samples.to_vec() }
    }

    /// Returns the ends of the interval.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.mean - self.half_width, self.mean + self.half_width)
    }

    /// Returns true if the interval did not become as narrow as requested.
    pub(super) fn is_wide(&self) -> bool {
        self.converged == Some(false)
    }

    /// Formats the half width relative to the mean, and marks an interval that is wider than
    /// requested.
    pub(super) fn width_text(&self) -> String {
        let mark = if self.is_wide() { " (wide)" } else { "" };
        format!("± {:.1} %{mark}", self.half_width / self.mean.abs() * 100.0)
    }
}

/// Returns the value that the absolute value of Student's t does not exceed with this probability,
/// for a number of degrees of freedom.
pub(super) fn student_t(confidence: f64, freedom: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while probability(high, freedom) < confidence && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if probability(middle, freedom) < confidence { low = middle } else { high = middle }
    }
    high
}

/// Returns the probability that the absolute value of Student's t is at most `t`: Abramowitz and
/// Stegun, "Handbook of Mathematical Functions" (1964), equations 26.7.3 and 26.7.4.
fn probability(t: f64, freedom: u32) -> f64 {
    let angle = (t / f64::from(freedom).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let (mut term, mut sum) = if is_odd { (cos, cos) } else { (1.0, 1.0) };
    let mut k = if is_odd { 3 } else { 2 };
    while k < freedom {
        term *= f64::from(k - 1) / f64::from(k) * cos * cos;
        sum += term;
        k += 2;
    }
    match (is_odd, freedom) {
        (true, 1) => FRAC_2_PI * angle,
        (true, _) => FRAC_2_PI * (angle + sin * sum),
        (false, _) => sin * sum,
    }
}
