//! [`UdpOptions`]: what is asked of a datagram socket, and [`Buffers`]: what it got.

use evb_core::units::Bytes;

use crate::class::TrafficClass;

/// Options of a datagram socket; what is `None` is left to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Bytes that may wait to be read. Beyond `net.core.rmem_max` it needs CAP_NET_ADMIN;
    /// [`Buffers`] has the size that was granted.
    pub receive_buffer: Option<Bytes>,
    /// Bytes that may wait to be sent. Beyond `net.core.wmem_max` it needs CAP_NET_ADMIN.
    pub send_buffer: Option<Bytes>,
    /// The marks of its packets.
    pub class: TrafficClass,
    /// True if UDP's own checksum is computed. Without it trains go out datagram by datagram (the
    /// kernel cuts none), and damaged ones reach the reader: for tests of the checks that follow.
    pub checksum: bool,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self { receive_buffer: None, send_buffer: None, class: TrafficClass::default(), checksum: true }
    }
}

/// Sizes of a socket's buffers: half of the kernel's figures, since it doubles what it grants for
/// its own bookkeeping (socket(7)). A datagram that was not merged with others counts for more than
/// its length: 2304 B for 1472 B is usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// `SO_RCVBUF / 2`.
    pub receive: Bytes,
    /// `SO_SNDBUF / 2`.
    pub send: Bytes,
}
