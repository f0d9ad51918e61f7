//! [`Gso`]: the choice to send trains whole, or datagram by datagram because the kernel has refused
//! to cut them.

#[cfg(test)]
mod tests;

use std::time::Duration;

use evb_core::time::Instant;

/// Time for which datagrams are sent one by one after the kernel first refuses to cut a train.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest time for which datagrams are sent one by one before the next attempt. A refusal depends
/// on routes and devices, so it is never final for a socket.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Use of the kernel to cut trains into datagrams (`UDP_SEGMENT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoState {
    /// The kernel cuts trains, as far as is known.
    On,
    /// The kernel refused to cut a train, so datagrams are sent one by one until the next attempt,
    /// at about a tenth of the throughput.
    Paused {
        /// Time of the next attempt.
        until: Instant,
    },
    /// The kernel never cuts trains on this socket, because the socket has no checksums.
    Off,
}

impl GsoState {
    /// Returns true if trains are passed to the kernel as a whole.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// State of cutting trains in the kernel, and the duration of the next pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gso {
    state: GsoState,
    pause: Duration,
}

impl Default for Gso {
    fn default() -> Self {
        Self { state: GsoState::On, pause: FIRST_PAUSE }
    }
}

impl Gso {
    pub(super) const fn off() -> Self {
        Self { state: GsoState::Off, pause: FIRST_PAUSE }
    }

    pub(super) const fn state(&self) -> GsoState {
        self.state
    }

    /// Returns true if the next train should be passed to the kernel as a whole; reads the time
    /// only if the result depends on it.
    pub(super) fn is_worth_trying(&self, now: impl FnOnce() -> Instant) -> bool {
        match self.state {
            GsoState::On => true,
            GsoState::Paused { until } => now() >= until,
            GsoState::Off => false,
        }
    }

    pub(super) fn worked(&mut self) {
        *self = Self::default();
    }

    /// Notes that the kernel refused to cut a train whose datagrams it then accepted one by one.
    pub(super) fn refused(&mut self, now: Instant) {
        self.state = GsoState::Paused { until: now + self.pause };
        self.pause = LONGEST_PAUSE.min(2 * self.pause);
    }
}
