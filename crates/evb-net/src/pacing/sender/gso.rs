//! [`Gso`]: the choice to send trains whole, or datagram by datagram because the kernel has refused
//! to cut them.

#[cfg(test)]
mod tests;

use std::time::Duration;

use evb_core::time::Instant;

/// Time for which trains go datagram by datagram after the first refusal.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest such time. Refusals depend on routes and devices, so none is for the life of the socket.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Use of the kernel to cut trains into datagrams (`UDP_SEGMENT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoState {
    /// The kernel cuts trains, as far as is known.
    On,
    /// It refused; datagrams go one by one until then, at about a tenth of the throughput.
    Paused {
        /// Time of the next attempt.
        until: Instant,
    },
    /// The kernel never cuts them on this socket, which has no checksums.
    Off,
}

impl GsoState {
    /// Returns true if trains go whole.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

/// The state, and how long the next pause is.
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

    /// Returns true if a try is due; asks for the time only if it matters.
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

    /// The kernel refused what goes datagram by datagram.
    pub(super) fn refused(&mut self, now: Instant) {
        self.state = GsoState::Paused { until: now + self.pause };
        self.pause = LONGEST_PAUSE.min(2 * self.pause);
    }
}
