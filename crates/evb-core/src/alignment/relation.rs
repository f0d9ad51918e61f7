//! [`Relation`]: the straight line that predicts a clock's reading from the lead's time.

use super::scale::{PER_NANOSECOND, Scale};

/// Fastest change of the difference of two rates that a guard follows: 0.3 ppm per second, more
/// than two crystals that warm up need. In relative rate per unit of time.
pub(super) const DRIFT: f64 = 3e-7 / (1e9 * PER_NANOSECOND);

/// Largest relative rate that a relation can have. It keeps all numbers finite.
const FASTEST: f64 = 0.5;

/// The reading of a clock at one instant, and its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Relation {
    /// Reading at the anchor.
    pub(super) ticks: u64,
    /// Time of the anchor.
    pub(super) at: i64,
    /// True phase of the clock at the anchor, less that of the reading.
    pub(super) phase: f64,
    /// Deviation of the rate from its nominal value, relative to the lead's time.
    pub(super) rate: f64,
    /// Bound on the error of `rate`.
    pub(super) bound: f64,
    /// Bound on the error of the anchor's time, if the lead changed after it.
    pub(super) blur: f64,
}

impl Relation {
    /// Returns the relation of a clock of which one reading is known.
    pub(super) fn anchored(scale: &Scale, ticks: u64, at: i64) -> Self {
        Self { ticks, at, phase: 0.0, rate: 0.0, bound: scale.rates, blur: 0.0 }
    }

    /// Returns the residual of a reading at time `at`: measured less expected.
    #[inline]
    pub(super) fn residual(&self, scale: &Scale, ticks: u64, at: i64) -> f64 {
        let elapsed = self.elapsed(at);
        let expected = (elapsed * (1.0 + self.rate) + self.phase) * scale.per_unit;
        let whole = expected as i64;
        let ahead = scale.ahead(ticks, self.ticks, whole);
        (ahead as f64 - (expected - whole as f64)) * scale.tick
    }

    /// Returns the time since the anchor, which is negative for an event before it.
    #[inline]
    pub(super) fn elapsed(&self, at: i64) -> f64 {
        at.wrapping_sub(self.at) as f64
    }

    /// Returns how far the clock may have moved from the line within that time.
    #[inline]
    pub(super) fn moved(&self, elapsed: f64) -> f64 {
        self.blur + (self.bound + DRIFT * elapsed) * elapsed
    }

    /// Returns the largest residual of a healthy reading at time `at`.
    #[inline]
    pub(super) fn limit(&self, scale: &Scale, at: i64) -> f64 {
        let elapsed = self.elapsed(at).abs();
        scale.tolerance + self.blur + (self.bound + DRIFT * elapsed).min(scale.rates) * elapsed
    }

    /// Returns the time of a reading, and the residual that rounding leaves at that time. The time
    /// `near` says in which wrap the reading lies.
    #[inline]
    pub(super) fn time(&self, scale: &Scale, ticks: u64, near: i64) -> (i64, f64) {
        if self.rate == 0.0 && self.elapsed(near).abs() < scale.quarter {
            // The reading is in the same wrap as the anchor, so nothing needs to be predicted.
            let later = scale.ahead(ticks, self.ticks, 0) as f64 * scale.tick - self.phase;
            let whole = later as i64;
            return (self.at.wrapping_add(whole), later - whole as f64);
        }
        // The residual at `near` says how much later the reading was.
        let residual = self.residual(scale, ticks, near);
        let later = (residual / (1.0 + self.rate)) as i64;
        (near.wrapping_add(later), residual - later as f64 * (1.0 + self.rate))
    }

    /// Returns the residual of the interval between two readings, against an interval of the lead.
    pub(super) fn interval(&self, scale: &Scale, from: u64, to: u64, elapsed: f64) -> f64 {
        let expected = elapsed * (1.0 + self.rate) * scale.per_unit;
        let whole = expected as i64;
        (scale.ahead(to, from, whole) as f64 - (expected - whole as f64)) * scale.tick
    }

    /// Returns the largest deviation that the rate may have.
    pub(super) fn fastest(&self) -> f64 {
        self.rate.abs() + self.bound
    }

    /// Sets the rate and the bound of its error, both within what arithmetic can carry.
    pub(super) fn set_rate(&mut self, rate: f64, bound: f64) {
        self.rate = rate.clamp(-FASTEST, FASTEST);
        self.bound = bound;
    }

    /// Moves the anchor to a reading, and leaves of its residual what `phase` says.
    #[inline]
    pub(super) fn advance(&mut self, ticks: u64, at: i64, phase: f64) {
        (self.ticks, self.at, self.phase, self.blur) = (ticks, at, phase, 0.0);
    }

    /// Goes on beside another lead, of which only its relation to the old one is known: the time of
    /// the anchor and the rate become as uncertain as the new lead's were.
    pub(super) fn change_lead(&mut self, scale: &Scale, lead: &Self, lead_scale: &Scale) {
        self.blur += lead.limit(lead_scale, self.at);
        // This is the slope of the limit there, so the sum holds before and after the anchor.
        let slope = lead.bound + 2.0 * DRIFT * lead.elapsed(self.at).abs();
        let widest = scale.rates_beside(lead_scale) + self.rate.abs() + lead.rate.abs();
        self.bound = (self.bound + slope).min(widest);
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if a number is not finite or a bound is negative, which is a defect of evb.
    pub fn invariants(&self) {
        assert!(self.phase.is_finite() && self.rate.abs() <= FASTEST, "{self:?}");
        assert!(self.bound >= 0.0 && self.bound.is_finite(), "{self:?}");
        assert!(self.blur >= 0.0 && self.blur.is_finite(), "{self:?}");
    }
}

#[cfg(test)]
mod tests;
