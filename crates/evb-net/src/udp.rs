//! Datagram sockets of lanes: trains cut by the kernel on the way out (`UDP_SEGMENT`), runs of
//! datagrams in batches on the way in (`UDP_GRO`, `recvmmsg`), never blocking, watched by tokio.
//! They handle addresses and bytes, and are independent of the protocol.
//!
//! A source has one socket for each lane, connected to its builder, so that the kernel may pace it
//! (`fq` treats an unconnected socket as a flow per destination). A builder has one socket for all
//! its sources, and answers by [`DatagramSocket::send_to`].
//!
//! Datagrams are never fragmented, by this host or on the way (`IP_PMTUDISC_PROBE`: don't-fragment
//! is set, and the path MTU that the kernel has recorded is ignored): sending a datagram that
//! exceeds the device's MTU fails with [`SendError::TooLarge`](crate::pacing::SendError), and a
//! datagram that exceeds the path MTU is lost.

mod options;
#[cfg(feature = "udp")]
mod counts;
#[cfg(feature = "udp")]
mod pool;
#[cfg(feature = "udp")]
mod socket;
#[cfg(feature = "udp")]
mod open;

#[cfg(test)]
#[cfg(feature = "udp")]
pub(crate) mod tests;

pub use crate::progress::Progress;
pub use options::{Buffers, UdpOptions};

#[cfg(feature = "udp")]
pub use {
    counts::UdpCounts,
    open::{Listening, listen, open},
    pool::Run,
    socket::DatagramSocket,
};
