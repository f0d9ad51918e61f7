//! [`Transport`]: the protocol below the lanes.

use core::fmt;

/// Transport protocol of the lanes. Messages to and from the supervisor always use TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP, with one byte stream for each lane.
    #[default]
    Tcp,
    /// UDP, with datagrams in evb's own format.
    Udp,
}

impl Transport {
    /// Returns the name of the transport in configurations.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}
