//! [`PathError`], which also exists without the feature `udp`.

use std::{io, net::SocketAddr};

/// Reason why a lane cannot use datagrams.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The builder replied to no probe of any size.
    #[error(
        "the builder at {peer} answers no datagram (UDP), though it answers over TCP; allow UDP to that port in the firewalls on the way"
    )]
    Silence {
        /// Address of the builder.
        peer: SocketAddr,
    },
    /// The network or the operating system failed.
    #[error(
        "cannot send UDP packets to the builder at {peer}: {reason}; check the network and the firewall of this host"
    )]
    Io {
        /// Address of the builder.
        peer: SocketAddr,
        /// Error that the operating system reported.
        reason: io::Error,
    },
}
