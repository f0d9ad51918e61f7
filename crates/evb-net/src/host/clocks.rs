//! Measurements of the cost of reading the clock, and of how late evb's timers wake a task.

#[cfg(test)]
mod tests;

use std::{io, time::Duration};

use super::{Fact, Unavailable};
use crate::{clock, timer::Timer};

/// Percentiles of measured delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Number of measurements.
    pub count: usize,
    /// Median.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Maximum.
    pub max: Duration,
}

impl Lateness {
    /// Returns the percentiles of `delays`, given in any order; `None` if `delays` is empty.
    pub fn of(mut delays: Vec<Duration>) -> Option<Self> {
        delays.sort_unstable();
        let max = *delays.last()?;
        let count = delays.len();
        // A percentile is the smallest delay that the given percentage of all delays does not
        // exceed ("nearest rank").
        let rank = |percent: usize| delays.get((count * percent).div_ceil(100).max(1) - 1).copied();
        Some(Self { count, p50: rank(50)?, p99: rank(99)?, max })
    }
}

/// Returns the time that one reading of the monotonic clock takes: the median of many rounds.
pub fn reading_cost() -> Duration {
    const LOOKS: u32 = 1000;
    let round = |_| {
        let start = clock::now();
        for _ in 1..LOOKS {
            std::hint::black_box(clock::now());
        }
        clock::now().since(start) / LOOKS
    };
    Lateness::of((0..21).map(round).collect()).map_or(Duration::ZERO, |costs| costs.p50)
}

/// Measures, during `time`, the lateness with which evb's timers wake a task on an otherwise idle
/// runtime. Blocks the calling thread meanwhile, so it must not be called inside an async runtime.
///
/// # Errors
/// Fails if no timer or runtime can be created.
pub fn timer_lateness(time: Duration) -> Fact<Lateness> {
    /// Duration of the wait in each measurement, long enough for the core to fall asleep as it does
    /// between trains of packets.
    const WAIT: Duration = Duration::from_micros(300);
    let measure = || -> io::Result<Vec<Duration>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut timer = Timer::new()?;
            let mut delays = Vec::new();
            let end = clock::now() + time;
            while clock::now() < end {
                let wanted = clock::now() + WAIT;
                timer.arm(Some(wanted));
                timer.expired().await;
                delays.push(clock::now().since(wanted));
            }
            Ok(delays)
        })
    };
    let delays = measure().map_err(|error| Unavailable::from_io("timers", &error))?;
    Lateness::of(delays)
        .ok_or_else(|| Unavailable::new("timers: none fired in time; repeat this when the host is less busy"))
}
