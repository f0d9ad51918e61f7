//! The kernel's clock, and how late its timers wake us. Measured.

#[cfg(test)]
mod tests;

use std::{io, time::Duration};

use super::{Fact, Unavailable, text_of};
use crate::{clock, timer::Timer};

/// Clock hardware from which the kernel takes its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockSource {
    /// The source in use.
    pub current: String,
    /// Other clock sources that it could use.
    pub available: Vec<String>,
}

/// Percentiles of a lateness.
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
    /// Returns the percentiles of these delays, given in any order; `None` if there are none.
    pub fn of(mut delays: Vec<Duration>) -> Option<Self> {
        delays.sort_unstable();
        let max = *delays.last()?;
        let count = delays.len();
        // The smallest value that that part of all does not exceed ("nearest rank").
        let rank = |percent: usize| delays.get((count * percent).div_ceil(100).max(1) - 1).copied();
        Some(Self { count, p50: rank(50)?, p99: rank(99)?, max })
    }
}

/// Reads the kernel's clock source.
///
/// # Errors
/// It does not say.
pub fn source() -> Fact<ClockSource> {
    let read =
        |name: &str| text_of(format!("/sys/devices/system/clocksource/clocksource0/{name}_clocksource"));
    let available = read("available")?.split_whitespace().map(str::to_owned).collect();
    Ok(ClockSource { current: read("current")?, available })
}

/// Returns the cost of one reading of the monotonic clock, the median of many.
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

/// Measures for `time` the lateness with which evb's timers wake a task that waits alone. Blocks
/// for that long, so it is not for use inside a runtime.
///
/// # Errors
/// Fails if no timer or runtime can be created.
pub fn timer_lateness(time: Duration) -> Fact<Lateness> {
    /// Long enough for the core to fall asleep in between, as it does between trains of packets.
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
    Lateness::of(delays).ok_or_else(|| Unavailable::new("timers: no timer fired"))
}
