//! [`Times`]: the times of a pseudo-trigger. The kinds that only studies use are computed here, and
//! the others by evb itself.

mod clipped;
mod on_off;
#[cfg(test)]
mod tests;

use std::{ops::RangeInclusive, time::Duration};

use evb_core::{
    rng::Rng,
    time::Instant,
    trigger::{Trigger, TriggerKind},
    units::Frequency,
};
use on_off::OnOff;

/// Kind of a pseudo-trigger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TimesKind {
    /// Triggers at equal intervals.
    Periodic {
        /// Triggers per second.
        rate: Frequency,
    },
    /// Triggers at exponentially distributed intervals.
    Poisson {
        /// Mean triggers per second.
        rate: Frequency,
    },
    /// Triggers at normally distributed intervals. Intervals below zero become zero; the mean is
    /// corrected for that.
    Gaussian {
        /// Mean triggers per second.
        rate: Frequency,
        /// Standard deviation of an interval before negative intervals become zero.
        sigma: Duration,
    },
    /// Several triggers at once, at equal intervals.
    Burst {
        /// Bursts per second.
        rate: Frequency,
        /// Triggers in each burst.
        count: u32,
    },
    /// Triggers of several superposed streams, each of which is on and off in turn for times with
    /// heavy tails: a self-similar load, which has bursts and silences of all lengths
    /// (`docs/reference/triggers.md` gives the source).
    OnOff {
        /// Mean triggers per second of all streams together.
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
}

impl TimesKind {
    /// Usual mean time for which a stream of [`OnOff`](Self::OnOff) stays on.
    pub(crate) const USUAL_ON: Duration = Duration::from_millis(50);
    /// Usual mean time for which a stream stays off.
    pub(crate) const USUAL_OFF: Duration = Duration::from_millis(150);
    /// Usual shape of the distribution of both times.
    pub(crate) const USUAL_SHAPE: f64 = 1.5;
    /// Usual number of streams.
    pub(crate) const USUAL_STREAMS: u16 = 16;
    /// Range of the shape: times of a smaller shape have hardly a mean, and those of a larger one
    /// are nearly equal.
    pub(crate) const SHAPES: RangeInclusive<f64> = 1.05..=10.0;

    /// Returns the mean rate; of [`Burst`](Self::Burst), the rate of bursts.
    pub(crate) fn rate(self) -> Frequency {
        match self {
            Self::Periodic { rate }
            | Self::Poisson { rate }
            | Self::Gaussian { rate, .. }
            | Self::Burst { rate, .. }
            | Self::OnOff { rate, .. } => rate,
        }
    }

    /// Returns the name of the kind, as on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Periodic { .. } => "periodic",
            Self::Poisson { .. } => "poisson",
            Self::Gaussian { .. } => "gaussian",
            Self::Burst { .. } => "burst",
            Self::OnOff { .. } => "on-off",
        }
    }
}

/// The times at which a pseudo-trigger triggers, in ascending order and without end.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    intervals: Intervals,
    start: Instant,
    next: Instant,
    rng: Rng,
}

#[derive(Clone, Debug)]
enum Intervals {
    Plain(Trigger),
    Normal { centre_nanos: f64, sigma_nanos: f64, nanos: f64 },
    Burst { bursts: Trigger, at: Instant, count: u32, left: u32 },
    OnOff(OnOff),
}

impl Times {
    /// Creates the times after `start`; the first one is one interval after `start`. All random
    /// times follow from `seed`.
    pub(crate) fn new(kind: TimesKind, seed: u64, start: Instant) -> Self {
        let mut rng = Rng::new(seed);
        let intervals = match kind {
            TimesKind::Periodic { rate } => {
                Intervals::Plain(Trigger::new(TriggerKind::Periodic { rate }, seed, start))
            }
            TimesKind::Poisson { rate } => {
                Intervals::Plain(Trigger::new(TriggerKind::Poisson { rate }, seed, start))
            }
            TimesKind::Gaussian { rate, sigma } => {
                let sigma_nanos = sigma.as_nanos() as f64;
                let centre_nanos = clipped::centre(rate.period_nanos(), sigma_nanos);
                Intervals::Normal { centre_nanos, sigma_nanos, nanos: 0.0 }
            }
            TimesKind::Burst { rate, count } => {
                let bursts = Trigger::new(TriggerKind::Periodic { rate }, seed, start);
                Intervals::Burst { bursts, at: start, count: count.max(1), left: 0 }
            }
            TimesKind::OnOff { rate, on, off, shape, streams } => {
                Intervals::OnOff(OnOff::new(rate, (on, off), shape, streams, &mut rng))
            }
        };
        let mut times = Self { intervals, start, next: start, rng };
        times.next = times.after_next();
        times
    }

    /// Returns the time of the next trigger.
    pub(crate) fn next_due(&self) -> Instant {
        self.next
    }

    /// Returns the time of the next trigger if that is not later than `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Instant> {
        let due = Some(self.next).filter(|due| *due <= now)?;
        self.next = self.after_next();
        Some(due)
    }

    /// Returns the time of the trigger after the next one.
    fn after_next(&mut self) -> Instant {
        let after = match &mut self.intervals {
            Intervals::Plain(trigger) => return popped(trigger),
            Intervals::Burst { at, left, .. } if *left > 0 => {
                *left -= 1;
                return *at;
            }
            Intervals::Burst { bursts, at, count, left } => {
                *at = popped(bursts);
                *left = *count - 1;
                return *at;
            }
            Intervals::Normal { centre_nanos, sigma_nanos, nanos } => {
                *nanos += (*centre_nanos + *sigma_nanos * self.rng.gaussian()).max(0.0);
                Duration::from_nanos(*nanos as u64)
            }
            Intervals::OnOff(streams) => streams.take(&mut self.rng),
        };
        self.start + after
    }
}

/// Takes the next time of a trigger that has no end.
fn popped(trigger: &mut Trigger) -> Instant {
    trigger.pop_due(Instant::FAR_FUTURE).unwrap_or(Instant::FAR_FUTURE)
}

impl Iterator for Times {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        self.pop_due(Instant::FAR_FUTURE)
    }
}
