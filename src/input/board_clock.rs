//! The clock of a simulated board, which turns the times of events into timestamps.

use core::time::Duration;

use evb_core::{
    alignment::{ClockWrap, DetectorClock},
    fragment::Timestamp,
    id::EventId,
    rng::Rng,
};

#[cfg(test)]
mod tests;

/// Mean interval between events. An event is up to half of it late, so that the events are not
/// periodic and the readings of other events do not fit.
pub(super) const MEAN_INTERVAL: Duration = Duration::from_millis(1);
const INTERVAL: u64 = MEAN_INTERVAL.as_nanos() as u64;

/// Events in a second.
const PER_SECOND: u64 = 1_000_000_000 / INTERVAL;

/// Part of the tolerance that is the range of the jitter.
const JITTER: u64 = 20;

/// Largest range of the jitter in nanoseconds. The jitter of the clock that counts time adds to
/// that of every other board, whose tolerance may be smaller.
const MOST_JITTER: u64 = 10;

/// The largest rate that a clock may have, in nanohertz.
const FASTEST: f64 = 1e21;

/// A clock that reads the times of events. Its phase and its jitter are its own; the times are
/// common to all clocks, in all processes.
#[derive(Clone, Debug)]
pub(super) struct BoardClock {
    /// Rate in nanohertz, in which each decimal rate is a whole number.
    rate: u128,
    /// Number of different readings.
    wrap: u128,
    /// Reading at the time zero.
    phase: u128,
    /// Range of the jitter in nanoseconds.
    jitter: u64,
    seed: u64,
}

impl BoardClock {
    /// Creates the board's clock with the declared rate and wrap. The seed gives its phase and
    /// jitter.
    pub(super) fn new(clock: &DetectorClock, seed: u64) -> Self {
        let wrap = ticks_of(clock.wrap);
        let tolerance = u64::try_from(clock.tolerance.as_nanos()).unwrap_or(u64::MAX);
        Self {
            // Hertz become nanohertz.
            rate: (clock.rate.hertz() * 1e9).min(FASTEST).round() as u128,
            wrap,
            phase: u128::from(Rng::new(!seed).next_u64()) % wrap,
            jitter: (tolerance / JITTER).min(MOST_JITTER),
            seed,
        }
    }

    /// Returns the reading that the fragment of an event has.
    pub(super) fn reading(&self, event: EventId) -> Timestamp {
        let number = event.number();
        let late = Rng::new(number).below(INTERVAL / 2);
        let jitter = Rng::new(self.seed ^ number).below(self.jitter + 1);
        // The seconds and the rest are multiplied apart, because the product of all nanoseconds and
        // the rate has more than 128 bits.
        let (seconds, rest) = (number / PER_SECOND, number % PER_SECOND * INTERVAL + late + jitter);
        let nanoticks = u128::from(seconds) * self.rate + u128::from(rest) * self.rate / 1_000_000_000;
        Timestamp::new(((self.phase + nanoticks / 1_000_000_000) % self.wrap) as u64)
    }
}

/// Returns the number of different readings of a clock.
pub(super) fn ticks_of(wrap: ClockWrap) -> u128 {
    match wrap {
        ClockWrap::Bits(bits) => 1 << bits.min(64),
        ClockWrap::Ticks(ticks) => u128::from(ticks.max(1)),
    }
}
