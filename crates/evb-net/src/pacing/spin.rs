//! Spinning: a busy core waits through the last microseconds before a departure, where a timer
//! would come late.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// Time before the departure at which the timer wakes: twice the lateness of a `timerfd` at its
/// 99th percentile (28 µs at the median, 42 µs there, on an idle host), so that the spinning begins
/// in time.
pub const SPIN_MARGIN: Duration = Duration::from_micros(100);

/// Fewer cores than this, and a spinning thread takes the time from those that it waits for.
pub const SPIN_CORES: usize = 4;

/// Error of a host with too few cores for spinning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "spinning takes a whole core, but this process has only {cores} cores and should have {SPIN_CORES}; write `spin = \"force\"` to spin all the same"
)]
pub struct TooFewCores {
    /// The cores that this process may use.
    pub cores: usize,
}

/// Checks that a thread may spin on a host where this process has that many cores.
///
/// # Errors
/// [`TooFewCores`], unless forced.
pub const fn spin_allowed(force: bool, cores: usize) -> Result<(), TooFewCores> {
    if force || cores >= SPIN_CORES { Ok(()) } else { Err(TooFewCores { cores }) }
}

/// Returns the number of cores that this process may use, by its affinity and its control group; 1
/// if the system does not report them.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
