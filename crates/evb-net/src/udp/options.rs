//! [`UdpOptions`]: the requested options of a datagram socket, and [`Buffers`]: the granted buffer
//! sizes.

use evb_core::units::Bytes;

use crate::class::TrafficClass;

/// Options of a datagram socket; where an option is `None`, the operating system's default applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Number of bytes that may wait to be read. A number beyond `net.core.rmem_max` needs
    /// CAP_NET_ADMIN; [`Buffers`] has the size that was granted.
    pub receive_buffer: Option<Bytes>,
    /// Number of bytes that may wait to be sent. A number beyond `net.core.wmem_max` needs
    /// CAP_NET_ADMIN.
    pub send_buffer: Option<Bytes>,
    /// Marks of the socket's packets.
    pub class: TrafficClass,
    /// True if the UDP checksum is computed. Without UDP checksums, datagrams are sent one by one
    /// (the kernel cuts no trains), and damaged datagrams reach the reader, which serves to test
    /// evb's own checks.
    pub checksum: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self { receive_buffer: None, send_buffer: None, class: TrafficClass::default(), checksum: true }
    }
}

/// Granted sizes of a socket's buffers: half of the sizes that the kernel reports, since the kernel
/// doubles each granted size for its own bookkeeping (socket(7)). A datagram that was not merged
/// with others takes more of the buffer than its length: usually 2304 B for 1472 B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Size of the receive buffer: `SO_RCVBUF / 2`.
    pub receive: Bytes,
    /// Size of the send buffer: `SO_SNDBUF / 2`.
    pub send: Bytes,
}
