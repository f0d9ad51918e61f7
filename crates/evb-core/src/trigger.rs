//! [`Trigger`]: computes the times of a run's own triggers. The times are kept in fixed point, so
//! that no rate drifts.

pub mod announcement;
mod clipped;
pub mod numbers;
mod on_off;
#[cfg(test)]
mod tests;

use core::{ops::RangeInclusive, time::Duration};

use on_off::OnOff;

use crate::{rng::Rng, time::Instant, units::Frequency};

/// Kind of trigger of a run.
///
/// ```
/// use evb_core::{
///     time::Instant,
///     trigger::{Trigger, TriggerKind},
/// };
///
/// let bursts = TriggerKind::Burst { rate: "10 Hz".parse()?, count: 3 };
/// let mut trigger = Trigger::new(bursts, 1, Instant::ZERO);
/// let tenth = Instant::from_nanos(100_000_000);
/// let at_once = std::iter::from_fn(|| trigger.pop_due(tenth)).count();
/// assert_eq!(at_once, 3);
/// # Ok::<(), evb_core::units::UnitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TriggerKind {
    /// Events whenever slots are free: as soon as half of a builder's slots are free, that many
    /// events at once.
    AsFastAsPossible,
    /// Events at equal intervals.
    Periodic {
        /// Events per second.
        rate: Frequency,
    },
    /// Events at exponentially distributed intervals.
    Poisson {
        /// Mean events per second.
        rate: Frequency,
    },
    /// Events at normally distributed intervals. Intervals below zero become zero; the mean is
    /// corrected for that.
    Gaussian {
        /// Mean events per second.
        rate: Frequency,
        /// Standard deviation of an interval before negative intervals become zero.
        sigma: Duration,
    },
    /// Several events at once, at equal intervals.
    Burst {
        /// Bursts per second.
        rate: Frequency,
        /// Events in each burst.
        count: u32,
    },
    /// Events of several superposed streams, each of which is on and off in turn for times with
    /// heavy tails: a self-similar load, which has bursts and silences of all lengths
    /// (`docs/reference/triggers.md` gives the source).
    OnOff {
        /// Mean events per second of all streams together.
        rate: Frequency,
        /// Mean time for which a stream stays on.
        on: Duration,
        /// Mean time for which a stream stays off.
        off: Duration,
        /// Shape of the Pareto distribution of both times, above 1. With a shape of 2 or more, the
        /// load is not self-similar.
        shape: f64,
        /// Number of streams.
        streams: u16,
    },
    /// External triggers: from the library, a script, or a program that sends triggers over the
    /// network.
    External,
}

impl TriggerKind {
    /// Usual mean time for which a stream of [`OnOff`](Self::OnOff) stays on.
    pub const USUAL_ON: Duration = Duration::from_millis(50);
    /// Usual mean time for which a stream stays off.
    pub const USUAL_OFF: Duration = Duration::from_millis(150);
    /// Usual shape of the distribution of both times.
    pub const USUAL_SHAPE: f64 = 1.5;
    /// Usual number of streams.
    pub const USUAL_STREAMS: u16 = 16;
    /// Range of the shape: times of a smaller shape have hardly a mean, and those of a larger one
    /// are nearly equal.
    pub const SHAPES: RangeInclusive<f64> = 1.05..=10.0;
    /// Largest number of streams.
    pub const MOST_STREAMS: u16 = 1000;

    /// Returns [`OnOff`](Self::OnOff) with the usual parameters.
    pub const fn on_off(rate: Frequency) -> Self {
        let (on, off) = (Self::USUAL_ON, Self::USUAL_OFF);
        Self::OnOff { rate, on, off, shape: Self::USUAL_SHAPE, streams: Self::USUAL_STREAMS }
    }
}

/// Nanoseconds with 48 fractional bits. After an hour at 1 MHz, the error is below a picosecond.
type FixedNanos = u128;
const FRACTION_BITS: u32 = 48;

/// The times at which a [`TriggerKind`] triggers. A kind of trigger without times of its own is
/// never due.
#[derive(Clone, Debug)]
pub struct Trigger {
    intervals: Intervals,
    start: Instant,
    /// Time from the start to the next trigger.
    next: FixedNanos,
    rng: Rng,
}

#[derive(Clone, Debug)]
enum Intervals {
    None,
    Periodic { period: FixedNanos },
    Exponential { mean_nanos: f64 },
    Normal { centre_nanos: f64, sigma_nanos: f64 },
    Burst { period: FixedNanos, count: u32, left: u32 },
    OnOff(OnOff),
}

impl Trigger {
    /// Creates the triggers after `start`; the first one occurs one interval after `start`. All
    /// random times follow from `seed`.
    pub fn new(kind: TriggerKind, seed: u64, start: Instant) -> Self {
        let mut rng = Rng::new(seed);
        let intervals = match kind {
            TriggerKind::AsFastAsPossible | TriggerKind::External => Intervals::None,
            TriggerKind::Periodic { rate } => Intervals::Periodic { period: fixed(rate.period_nanos()) },
            TriggerKind::Poisson { rate } => Intervals::Exponential { mean_nanos: rate.period_nanos() },
            TriggerKind::Gaussian { rate, sigma } => {
                let sigma_nanos = sigma.as_nanos() as f64;
                let centre_nanos = clipped::centre(rate.period_nanos(), sigma_nanos);
                Intervals::Normal { centre_nanos, sigma_nanos }
            }
            TriggerKind::Burst { rate, count } => {
                let count = count.max(1);
                Intervals::Burst { period: fixed(rate.period_nanos()), count, left: 0 }
            }
            TriggerKind::OnOff { rate, on, off, shape, streams } => {
                Intervals::OnOff(OnOff::new(rate, (on, off), shape, streams, &mut rng))
            }
        };
        let mut trigger = Self { intervals, start, next: 0, rng };
        trigger.advance();
        trigger
    }

    /// Returns the time of the next trigger; `None` for a kind without times of its own.
    pub fn next_due(&self) -> Option<Instant> {
        match self.intervals {
            Intervals::None => None,
            _ => {
                let nanos = u64::try_from(self.next >> FRACTION_BITS).unwrap_or(u64::MAX);
                Some(self.start + Duration::from_nanos(nanos))
            }
        }
    }

    /// Returns the nominal time of the next trigger if that is not later than `now`. Call `pop_due`
    /// until it returns `None`, or stop earlier and continue later; no trigger is lost.
    pub fn pop_due(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next_due().filter(|due| *due <= now)?;
        self.advance();
        Some(due)
    }

    fn advance(&mut self) {
        let step = match &mut self.intervals {
            Intervals::None => 0,
            Intervals::Periodic { period } => *period,
            Intervals::Exponential { mean_nanos } => fixed(*mean_nanos * self.rng.exponential()),
            Intervals::Normal { centre_nanos, sigma_nanos } => {
                fixed(*centre_nanos + *sigma_nanos * self.rng.gaussian())
            }
            Intervals::Burst { left, .. } if *left > 0 => {
                *left -= 1;
                0
            }
            Intervals::Burst { period, count, left } => {
                *left = *count - 1;
                *period
            }
            Intervals::OnOff(streams) => streams.take(&mut self.rng).saturating_sub(self.next),
        };
        self.next = self.next.saturating_add(step);
    }
}

/// Converts nanoseconds to fixed point. Negative values and not-a-number become zero; infinity
/// becomes the largest time.
fn fixed(nanos: f64) -> FixedNanos {
    (nanos * (1u64 << FRACTION_BITS) as f64) as FixedNanos
}
