//! Superposed streams of triggers that are on and off in turn, for times with heavy tails.
//!
//! A stream that is on triggers at equal intervals. Times on and off are independent and have
//! Pareto distributions: P(T > t) = (least / t)^shape. With a shape α between 1 and 2, these times
//! have a mean but no variance, and the sum of many such streams is self-similar: the variance of
//! the number of triggers in a window grows as the window to the power 2H, with H = (3 − α) / 2,
//! and not in proportion to the window as for Poisson triggers. (Willinger, Taqqu, Sherman and
//! Wilson, "Self-similarity through high-variability: statistical analysis of Ethernet LAN traffic
//! at the source level", IEEE/ACM Transactions on Networking 5 (1997) 71–86.)

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use evb_core::{rng::Rng, units::Frequency};

/// Nanoseconds with 48 fractional bits.
type FixedNanos = u128;
const FRACTION_BITS: u32 = 48;

/// Converts nanoseconds to fixed point. Negative values and not-a-number become zero; infinity
/// becomes the largest time.
fn fixed(nanos: f64) -> FixedNanos {
    (nanos * (1u64 << FRACTION_BITS) as f64) as FixedNanos
}

/// The smallest shape, slightly above 1: at 1, the mean would be infinite.
const LEAST_SHAPE: f64 = 1.01;

/// Largest ratio of the time on between two triggers of a stream to the mean time on. It bounds the
/// work for one trigger.
const MOST_PAUSES: f64 = 1000.0;

/// A Pareto distribution of times.
#[derive(Clone, Copy, Debug)]
struct Pareto {
    least_nanos: f64,
    shape: f64,
}

impl Pareto {
    fn with_mean(mean_nanos: f64, shape: f64) -> Self {
        Self { least_nanos: mean_nanos * (shape - 1.0) / shape, shape }
    }

    fn draw(self, rng: &mut Rng) -> FixedNanos {
        fixed(self.least_nanos * (1.0 - rng.uniform()).powf(-1.0 / self.shape))
    }

    /// Returns the rest of a time that began long ago, so that a stream is as likely to be on at
    /// the start of a run as later. The rest has the density P(T > t) / mean: it is uniform up to
    /// the least time with probability (α−1)/α, and otherwise has a Pareto distribution of the
    /// shape α−1.
    fn draw_rest(self, rng: &mut Rng) -> FixedNanos {
        let short = rng.uniform() < (self.shape - 1.0) / self.shape;
        let part = rng.uniform();
        fixed(self.least_nanos * if short { part } else { (1.0 - part).powf(-1.0 / (self.shape - 1.0)) })
    }
}

/// A stream; streams are compared by the time of their next trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Stream {
    /// Time from the start of the run to the next trigger.
    next: FixedNanos,
    /// Time after the next trigger for which the stream stays on.
    left_on: FixedNanos,
}

/// The superposed streams.
#[derive(Clone, Debug)]
pub(super) struct OnOff {
    on: Pareto,
    off: Pareto,
    /// Time on between two triggers of a stream.
    interval: FixedNanos,
    streams: BinaryHeap<Reverse<Stream>>,
}

impl OnOff {
    /// Creates the streams. All together trigger at the mean rate `rate`.
    pub(super) fn new(
        rate: Frequency,
        (on, off): (Duration, Duration),
        shape: f64,
        streams: u16,
        rng: &mut Rng,
    ) -> Self {
        let count = streams.max(1);
        let shape = shape.max(LEAST_SHAPE);
        let (on, off) = (on.as_nanos().max(1) as f64, off.as_nanos() as f64);
        let part_on = on / (on + off);
        let interval = rate.period_nanos() * f64::from(count) * part_on;
        let stretch = (interval / MOST_PAUSES / on).max(1.0);
        let mut streams = Self {
            on: Pareto::with_mean(on * stretch, shape),
            off: Pareto::with_mean(off * stretch, shape),
            interval: fixed(interval),
            streams: BinaryHeap::new(),
        };
        for _ in 0..count {
            let mut stream = if rng.uniform() < part_on {
                Stream { next: 0, left_on: streams.on.draw_rest(rng) }
            } else {
                Stream { next: streams.off.draw_rest(rng), left_on: streams.on.draw(rng) }
            };
            let phase = fixed(interval * rng.uniform());
            streams.pass(&mut stream, phase, rng);
            streams.streams.push(Reverse(stream));
        }
        streams
    }

    /// Returns the time of the next trigger of any stream, from the start of the run.
    pub(super) fn take(&mut self, rng: &mut Rng) -> Duration {
        let Some(Reverse(mut stream)) = self.streams.pop() else { return Duration::MAX };
        let at = stream.next;
        self.pass(&mut stream, self.interval, rng);
        self.streams.push(Reverse(stream));
        Duration::from_nanos(u64::try_from(at >> FRACTION_BITS).unwrap_or(u64::MAX))
    }

    /// Moves the next trigger of a stream forward by `time` during which the stream is on.
    fn pass(&self, stream: &mut Stream, mut time: FixedNanos, rng: &mut Rng) {
        while stream.left_on < time {
            time -= stream.left_on;
            let pause = self.off.draw(rng);
            stream.next = stream.next.saturating_add(stream.left_on).saturating_add(pause);
            // A time on of at least a nanosecond lets every sum of times end.
            stream.left_on = self.on.draw(rng).max(fixed(1.0));
        }
        stream.left_on -= time;
        stream.next = stream.next.saturating_add(time);
    }
}

#[cfg(test)]
mod tests;
