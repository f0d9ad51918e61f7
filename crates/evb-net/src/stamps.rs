//! The time that received data has waited in the kernel: the difference between its receive time
//! (`SO_TIMESTAMPNS`) and the time of its read. Only a sample of the reads is measured, so that the
//! cost is negligible.

#[cfg(test)]
mod tests;

use std::{os::fd::BorrowedFd, sync::LazyLock, time::Duration};

use crate::{clock, sys_time, sys_txtime};

/// Sampling interval: one operation in this many is measured.
const EACH: u8 = 16;

/// Number of operations at the start of a connection that are not measured, because they are not
/// typical.
const BEFORE_FIRST: u8 = 3;

/// Longest plausible wait; a longer result means that the clock was set in between.
const LONGEST: Duration = Duration::from_secs(60);

/// Highest acceptable cost of a clock reading: with receive time stamps, the kernel reads the clock
/// for each packet that the host receives.
const DEAR: Duration = Duration::from_micros(1);

/// Decides which operations of a connection are measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    left: u8,
}

impl Sampler {
    pub(crate) const fn new() -> Self {
        Self { left: BEFORE_FIRST }
    }

    /// Returns true if the next operation is to be measured.
    pub(crate) fn is_due(self) -> bool {
        self.left == 0
    }

    /// Counts one operation, measured or not.
    pub(crate) fn count(&mut self) {
        self.left = self.left.checked_sub(1).unwrap_or(EACH - 1);
    }
}

/// Decides which reads of a socket are measured, and measures how long the data waited in the
/// kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadSampler {
    pub(crate) sampler: Sampler,
    /// True if the kernel reports receive times.
    is_stamped: bool,
}

impl ReadSampler {
    /// Creates the sampler of a socket, and makes the kernel report receive times if it can.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> Self {
        Self { sampler: Sampler::new(), is_stamped: stamp(socket) }
    }

    /// Returns the time that the next unread byte of a stream has waited in the kernel; `None` if
    /// no byte is waiting, or if the kernel does not report receive times.
    pub(crate) fn waited(self, stream: BorrowedFd<'_>) -> Option<Duration> {
        if !self.is_stamped {
            return None;
        }
        let peeked = sys_txtime::peek(stream).ok().filter(|peeked| peeked.length > 0)?;
        waited(peeked.realtime?)
    }
}

/// Makes the kernel report receive times on a socket. Returns false if the kernel cannot, or if
/// reading its clock is too expensive.
pub(crate) fn stamp(socket: BorrowedFd<'_>) -> bool {
    static IS_CHEAP: LazyLock<bool> = LazyLock::new(|| look_cost() < DEAR);
    *IS_CHEAP && sys_txtime::set_receive_stamps(socket).is_ok()
}

/// Returns the time that one clock reading takes: the minimum of several rounds, because
/// disturbances only lengthen a round.
fn look_cost() -> Duration {
    const LOOKS: u32 = 32;
    let round = |_| {
        let start = clock::now();
        (0..LOOKS).for_each(|_| _ = std::hint::black_box(sys_time::realtime_nanos()));
        clock::now().since(start) / LOOKS
    };
    (0..5).map(round).min().unwrap_or_default()
}

/// Returns the time since `realtime`, a receive time of the kernel in nanoseconds of
/// `CLOCK_REALTIME`; `None` if the clock was set in between.
pub(crate) fn waited(realtime: u64) -> Option<Duration> {
    let nanos = sys_time::realtime_nanos().checked_sub(realtime)?;
    Some(Duration::from_nanos(nanos)).filter(|waited| *waited < LONGEST)
}
