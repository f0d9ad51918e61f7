//! The one place where the operating system's clock is read.

#[cfg(test)]
mod tests;

use evb_core::time::Instant;

use crate::sys_time;

/// The host's monotonic clock (`CLOCK_MONOTONIC`), which every process of a host shares.
pub fn now() -> Instant {
    Instant::from_nanos(sys_time::monotonic_nanos())
}

/// Microseconds since 1970: fresh for every start of a supervisor, hence good for an epoch; never for measuring time.
pub fn wall_clock_micros() -> u64 {
    sys_time::realtime_nanos() / 1_000
}
