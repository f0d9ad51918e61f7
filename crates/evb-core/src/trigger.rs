//! [`Trigger`]: computes the times of a run's own triggers. The times are kept in fixed point (as
//! integers with fractional bits), so that no rate drifts.

pub mod announcement;
pub mod numbers;
#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::{rng::Rng, time::Instant, units::Frequency};

/// Kind of trigger of a run.
///
/// ```
/// use evb_core::{
///     time::Instant,
///     trigger::{Trigger, TriggerKind},
/// };
///
/// let kind = TriggerKind::Periodic { rate: "30 Hz".parse()? };
/// let mut trigger = Trigger::new(kind, 1, Instant::ZERO);
/// let tenth = Instant::from_nanos(100_000_000);
/// let due = std::iter::from_fn(|| trigger.pop_due(tenth)).count();
/// assert_eq!(due, 3);
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
    /// External triggers: from the library, a script, or a program that sends triggers over the
    /// network.
    External,
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
    /// Time from the start to the next trigger; zero and without meaning for [`Intervals::None`].
    next: FixedNanos,
    rng: Rng,
}

/// The intervals between triggers.
#[derive(Clone, Debug)]
enum Intervals {
    /// The kind of trigger has no times of its own.
    None,
    Periodic {
        period: FixedNanos,
    },
    Exponential {
        mean_nanos: f64,
    },
}

impl Trigger {
    /// Creates the triggers after `start`; the first one occurs one interval after `start`. All
    /// random times follow from `seed`.
    pub fn new(kind: TriggerKind, seed: u64, start: Instant) -> Self {
        let intervals = match kind {
            TriggerKind::AsFastAsPossible | TriggerKind::External => Intervals::None,
            TriggerKind::Periodic { rate } => {
                Intervals::Periodic { period: to_fixed_nanos(rate.period_nanos()) }
            }
            TriggerKind::Poisson { rate } => Intervals::Exponential { mean_nanos: rate.period_nanos() },
        };
        let mut trigger = Self { intervals, start, next: 0, rng: Rng::new(seed) };
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

    /// Moves `next` on by one interval.
    fn advance(&mut self) {
        let interval = match &self.intervals {
            Intervals::None => return,
            Intervals::Periodic { period } => *period,
            Intervals::Exponential { mean_nanos } => to_fixed_nanos(*mean_nanos * self.rng.exponential()),
        };
        self.next = self.next.saturating_add(interval);
    }
}

/// Converts nanoseconds to fixed point. Negative values and not-a-number become zero; infinity
/// becomes the largest time.
fn to_fixed_nanos(nanos: f64) -> FixedNanos {
    (nanos * (1u64 << FRACTION_BITS) as f64) as FixedNanos
}
