//! Polling: a thread looks for packets for a while before it sleeps, so that early arrivals need
//! not wake it.

#[cfg(test)]
mod tests;

use std::time::Duration;

use evb_core::time::Instant;

use super::spin::SPIN_CORES;
use crate::clock;

/// Time for which a role polls after the last grant: a few times the delay from a grant to the
/// grant's data on a local network.
pub const POLL_TIME: Duration = Duration::from_micros(200);

/// Duration of the trial of polling.
const TRIAL: Duration = Duration::from_millis(5);

/// Longest time between two clock readings of a thread that was not taken off its core.
const SHORT: Duration = Duration::from_micros(20);

/// The largest part of the trial, in percent, for which the thread may be off its core.
const MOST_ABSENT: u128 = 10;

/// Reason why threads may not poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PollingRefused {
    /// The process has too few cores: polling threads would take the cores from the threads that
    /// they wait for.
    #[error(
        "this process has {cores} cores for {threads} polling threads, but needs one core more than it has polling threads, and at least {SPIN_CORES}; host fewer roles here, or write `busy_poll = \"force\"`"
    )]
    TooFewCores {
        /// Number of cores that this process may use.
        cores: usize,
        /// Number of sources and builders in this process, each of which has a polling thread.
        threads: usize,
    },
    /// Other programs or virtual machines took the core from the polling thread.
    #[error(
        "other programs or virtual machines took the core from a thread that polled, for {percent} % of {TRIAL:?}; \
         stop what else runs here, give the roles cores of their own (`cpu`), or write `busy_poll = \"force\"`"
    )]
    CoreTaken {
        /// The part of the trial for which the thread was off its core.
        percent: u32,
    },
}

/// Checks if `threads` threads may poll on a host where this process may use `cores` cores: first
/// by these numbers, then by a trial of some milliseconds.
///
/// # Errors
/// [`PollingRefused`]
pub fn prove_polling(threads: usize, cores: usize) -> Result<(), PollingRefused> {
    if cores < SPIN_CORES.max(threads.saturating_add(1)) {
        return Err(PollingRefused::TooFewCores { cores, threads });
    }
    judge(absence(clock::now))
}

/// Refuses polling if the thread was off its core for too long during the trial.
fn judge(absent: Duration) -> Result<(), PollingRefused> {
    let percent = absent.as_nanos() * 100 / TRIAL.as_nanos();
    if percent <= MOST_ABSENT {
        return Ok(());
    }
    Err(PollingRefused::CoreTaken { percent: u32::try_from(percent).unwrap_or(u32::MAX) })
}

/// Reads the clock continually for the duration of the trial. Returns the time for which the thread
/// was off its core.
fn absence(mut now: impl FnMut() -> Instant) -> Duration {
    let began = now();
    let (mut last, mut absent) = (began, Duration::ZERO);
    while last.since(began) < TRIAL {
        let next = now();
        let gap = next.since(last);
        if gap > SHORT {
            absent += gap;
        }
        last = next;
    }
    absent
}
