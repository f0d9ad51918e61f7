//! Polling: a thread looks for packets for a while before it sleeps, so that early arrivals need
//! not wake it.

#[cfg(test)]
mod tests;

use std::time::Duration;

use evb_core::time::Instant;

use super::spin::SPIN_CORES;
use crate::clock;

/// Time for which a role polls after the last grant: a few times the time from a grant to its data
/// on a local network.
pub const POLL_TIME: Duration = Duration::from_micros(200);

/// Duration of the trial.
const TRIAL: Duration = Duration::from_millis(5);

/// The longest distance between two looks at the clock of a thread that has its core.
const SHORT: Duration = Duration::from_micros(20);

/// The largest part of the trial, in percent, for which the thread may be off its core.
const MOST_ABSENT: u128 = 10;

/// Reason why threads may not poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PollingRefused {
    /// The operator's fault: threads that poll would take the cores from those that they wait for.
    #[error(
        "this process has {cores} cores for {threads} polling threads, but needs one core more than it has polling threads, and at least {SPIN_CORES}; host fewer roles here, or write `busy_poll = \"force\"`"
    )]
    TooFewCores {
        /// The cores that this process may use.
        cores: usize,
        /// Sources and builders in this process.
        threads: usize,
    },
    /// The system's fault: other programs or virtual machines take the core.
    #[error(
        "other programs or virtual machines took the core from a thread that polled, for {percent} % of {TRIAL:?}; \
         stop what else runs here, give the roles cores of their own (`core`), or write `busy_poll = \"force\"`"
    )]
    CoreTaken {
        /// The part of the trial for which the thread was off its core.
        percent: u32,
    },
}

/// Decides if `threads` may poll on a host where this process has that many cores, by counting and
/// by a trial of some milliseconds.
///
/// # Errors
/// [`PollingRefused`]
pub fn prove_polling(threads: usize, cores: usize) -> Result<(), PollingRefused> {
    if cores < SPIN_CORES.max(threads.saturating_add(1)) {
        return Err(PollingRefused::TooFewCores { cores, threads });
    }
    judge(absence(clock::now))
}

/// Refuses a core on which a thread was absent for too long.
fn judge(absent: Duration) -> Result<(), PollingRefused> {
    let percent = absent.as_nanos() * 100 / TRIAL.as_nanos();
    if percent <= MOST_ABSENT {
        return Ok(());
    }
    Err(PollingRefused::CoreTaken { percent: u32::try_from(percent).unwrap_or(u32::MAX) })
}

/// Looks at the clock for the duration of the trial. Returns how long the thread could not.
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
