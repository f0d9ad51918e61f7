//! Datagram sockets of lanes: trains cut by the kernel on the way out (`UDP_SEGMENT`), runs of
//! datagrams in batches on the way in (`UDP_GRO`, `recvmmsg`), never blocking, watched by tokio.
//! They handle addresses and bytes, and are independent of the protocol.
//!
//! A source has one for each lane, connected to its builder, so that the kernel may pace it (`fq`
//! treats an unconnected socket as a flow per destination). A builder has one for all its sources,
//! and answers by [`DatagramSocket::send_to`].
//!
//! Datagrams are never fragmented, by this host or on the way (`IP_PMTUDISC_PROBE`: don't-fragment
//! is set, and the kernel's memory of the path is ignored): one that exceeds the device's MTU is
//! [`SendError::TooLarge`](crate::pacing::SendError), one that exceeds the path's is lost.

mod options;
#[cfg(not(feature = "udp"))]
mod absent;
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

#[cfg(not(feature = "udp"))]
pub use absent::{DatagramSocket, open};
#[cfg(feature = "udp")]
pub use {counts::UdpCounts, open::open, pool::Run, socket::DatagramSocket};
