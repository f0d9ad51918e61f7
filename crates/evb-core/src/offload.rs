//! The components that make trains depart on time.

use core::fmt;

use crate::transport::Transport;

/// The component that makes each train of packets wait for its departure time.
///
/// ```
/// use evb_core::{offload::Offload, transport::Transport};
///
/// let asked = Offload::from_word("txtime").expect("a word of `shaping.offload`");
/// assert!(asked.fits(Transport::Udp));
/// assert!(!asked.fits(Transport::Tcp)); // the kernel's TCP chooses its own departure times
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Offload {
    /// This program waits for the departure times, with a timer or by spinning.
    Software,
    /// The kernel paces each socket at a rate (`SO_MAX_PACING_RATE`): TCP on any device, UDP only
    /// with the queueing discipline `fq`.
    PacingRate,
    /// The queueing discipline `fq` holds each datagram until the departure time that the datagram
    /// carries (`SO_TXTIME`).
    Txtime,
    /// The queueing discipline `etf` holds each datagram until its departure time on `CLOCK_TAI`
    /// (`SO_TXTIME`). `etf` drops a late datagram, and reports the drop.
    Etf,
    /// A token bucket in the kernel, set up beforehand for each destination, delays packets.
    Tbf,
}

impl Offload {
    /// All offloads.
    pub const ALL: [Self; 5] = [Self::Software, Self::PacingRate, Self::Txtime, Self::Etf, Self::Tbf];

    /// Returns the word that configurations use for this offload.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::PacingRate => "pacing-rate",
            Self::Txtime => "txtime",
            Self::Etf => "etf",
            Self::Tbf => "tbf",
        }
    }

    /// Returns the offload for which configurations use `word`.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|offload| offload.word() == word)
    }

    /// Returns true if this offload can work with the given transport.
    pub const fn fits(self, transport: Transport) -> bool {
        match self {
            Self::Software | Self::PacingRate | Self::Tbf => true,
            Self::Txtime | Self::Etf => matches!(transport, Transport::Udp),
        }
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests;
