//! The time that received data has waited in the kernel: its receive time (`SO_TIMESTAMPNS`)
//! against the same clock at the read. It is sampled, so that its cost is negligible.

#[cfg(test)]
mod tests;

use std::{os::fd::BorrowedFd, sync::LazyLock, time::Duration};

use crate::{clock, sys_time, sys_txtime};

/// One occasion in this many is a sample.
const EACH: u8 = 16;

/// The first few on a connection are no habit yet.
const BEFORE_FIRST: u8 = 3;

/// Longest wait that is believed: beyond it, the clock was set meanwhile.
const LONGEST: Duration = Duration::from_secs(60);

/// A clock reading that costs more is too expensive, as the kernel then takes one for each packet
/// of the host.
const DEAR: Duration = Duration::from_micros(1);

/// Picks the occasions that are samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    left: u8,
}

impl Sampler {
    pub(crate) const fn new() -> Self {
        Self { left: BEFORE_FIRST }
    }

    /// Returns true if the next occasion is a sample.
    pub(crate) fn is_due(self) -> bool {
        self.left == 0
    }

    /// Counts an occasion.
    pub(crate) fn count(&mut self) {
        self.left = self.left.checked_sub(1).unwrap_or(EACH - 1);
    }
}

/// Picks the reads of a socket that are samples, and says how long what they take has waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadSampler {
    pub(crate) sampler: Sampler,
    /// True if the kernel reports receive times.
    is_stamped: bool,
}

impl ReadSampler {
    /// Has the kernel report receive times of a socket, if it can.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> Self {
        Self { sampler: Sampler::new(), is_stamped: stamp(socket) }
    }

    /// Returns the time that the next byte of a stream has waited; `None` if there is none, or the
    /// kernel does not report it.
    pub(crate) fn waited(self, stream: BorrowedFd<'_>) -> Option<Duration> {
        if !self.is_stamped {
            return None;
        }
        let peeked = sys_txtime::peek(stream).ok().filter(|peeked| peeked.length > 0)?;
        waited(peeked.realtime?)
    }
}

/// Has the kernel report receive times on a socket. Returns false where it cannot, or where its
/// clock is expensive.
pub(crate) fn stamp(socket: BorrowedFd<'_>) -> bool {
    static IS_CHEAP: LazyLock<bool> = LazyLock::new(|| look_cost() < DEAR);
    *IS_CHEAP && sys_txtime::set_receive_stamps(socket).is_ok()
}

/// Returns the cost of one clock reading: the least of some rounds, which was not disturbed.
fn look_cost() -> Duration {
    const LOOKS: u32 = 32;
    let round = |_| {
        let start = clock::now();
        (0..LOOKS).for_each(|_| _ = std::hint::black_box(sys_time::realtime_nanos()));
        clock::now().since(start) / LOOKS
    };
    (0..5).map(round).min().unwrap_or_default()
}

/// Returns the time since the kernel's receive time, in nanoseconds of `CLOCK_REALTIME`; `None` if
/// the clock was set meanwhile.
pub(crate) fn waited(realtime: u64) -> Option<Duration> {
    let nanos = sys_time::realtime_nanos().checked_sub(realtime)?;
    Some(Duration::from_nanos(nanos)).filter(|waited| *waited < LONGEST)
}
