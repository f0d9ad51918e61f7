//! Who makes trains depart on time.

use std::fmt;

/// The component that makes each train of packets wait for its departure time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Offload {
    /// This program, by a timer or by spinning.
    Software,
    /// The kernel, by the rate of a socket (`SO_MAX_PACING_RATE`): TCP everywhere, UDP below `fq`.
    PacingRate,
    /// The kernel, by the departure time that each datagram carries (`SO_TXTIME`), below `fq`.
    Txtime,
    /// `SO_TXTIME` on `CLOCK_TAI`, kept by `etf`. A late datagram is dropped, and reported.
    Etf,
    /// The kernel, by a token bucket for each destination that was set up beforehand.
    Tbf,
}

impl Offload {
    /// All offloads.
    pub const ALL: [Self; 5] = [Self::Software, Self::PacingRate, Self::Txtime, Self::Etf, Self::Tbf];

    /// The word that configurations use.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::PacingRate => "pacing-rate",
            Self::Txtime => "txtime",
            Self::Etf => "etf",
            Self::Tbf => "tbf",
        }
    }

    /// The one of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|offload| offload.word() == word)
    }

    /// Returns true if it can work for that transport.
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

/// Transport protocol of the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// One byte stream for each lane.
    Tcp,
    /// Datagrams.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

#[cfg(test)]
mod tests;
