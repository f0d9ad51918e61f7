//! Messages of the study. Each message is one datagram in a single packet.

use evb_core::units::Bytes;
use evb_shaper::cost::{LINE_OVERHEAD, datagram_headers};

/// Bytes of the label that identifies a message, which are also the size of the smallest message.
pub(super) const LEAST: usize = 20;
const MAGIC: u32 = u32::from_be_bytes(*b"evbr");

/// The sizes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageSize {
    pub(super) payload: Bytes,
    headers: u64,
}

impl MessageSize {
    pub(super) fn new(payload: Bytes, ipv6: bool) -> Self {
        Self { payload, headers: datagram_headers(ipv6) }
    }

    /// Returns the bytes of the L2 frame, as a port's buffer and tc's token bucket count it.
    pub(super) fn buffer(self) -> Bytes {
        self.payload + Bytes::new(self.headers)
    }

    /// Returns the bytes on the wire: the L2 frame with preamble, checksum and interframe gap.
    pub(super) fn line(self) -> Bytes {
        self.buffer() + Bytes::new(LINE_OVERHEAD)
    }
}

/// Writes the run and the number of a message into the message's buffer.
pub(super) fn label(room: &mut [u8], run: u64, number: u32) {
    let fields = MAGIC.to_le_bytes().into_iter().chain(run.to_le_bytes()).chain(number.to_le_bytes());
    room.iter_mut().zip(fields).for_each(|(place, byte)| *place = byte);
}

/// Returns the run and the number of a message; `None` if the bytes are not a message of this
/// study.
pub(super) fn read(bytes: &[u8]) -> Option<(u64, u32)> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (run, rest) = rest.split_first_chunk::<8>()?;
    let (number, _) = rest.split_first_chunk::<4>()?;
    (u32::from_le_bytes(*magic) == MAGIC).then(|| (u64::from_le_bytes(*run), u32::from_le_bytes(*number)))
}
