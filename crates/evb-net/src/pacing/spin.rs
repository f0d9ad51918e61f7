//! Spinning: a busy core waits through the last microseconds before a departure, where a timer
//! would come late.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// Time before a departure at which the timer wakes the thread: twice the lateness of a `timerfd`
/// at the 99th percentile (42 µs on an idle host, where the median is 28 µs), so that spinning
/// begins in time.
pub const SPIN_MARGIN: Duration = Duration::from_micros(100);

/// Minimum number of cores for spinning: with fewer, a spinning thread takes time from the threads
/// that it waits for.
pub const SPIN_CORES: usize = 4;

/// Error of a host with too few cores for spinning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "spinning takes a whole core, but this process has only {cores} cores and should have {SPIN_CORES}; give it more cores, or write `spin = \"force\"` to spin all the same"
)]
pub struct TooFewCores {
    /// Number of cores that this process may use.
    pub cores: usize,
}

/// Checks that a thread may spin on a host where this process may use `cores` cores.
///
/// # Errors
/// [`TooFewCores`] if `cores` is too small, unless `force` is set.
pub const fn spin_allowed(force: bool, cores: usize) -> Result<(), TooFewCores> {
    if force || cores >= SPIN_CORES { Ok(()) } else { Err(TooFewCores { cores }) }
}

/// Returns the number of cores that this process may use, as limited by its CPU affinity and its
/// control group; 1 if the system does not report it.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
