//! Datagrams of lanes over UDP: a header of 40 bytes, then lane bytes or lane records
//! (docs/reference/protocol.md, section "Lanes over datagrams"). The header's fields by offset:
//!
//! ```text
//! 0  magic 0xeb, u8             16  source u16        28  heard u32
//! 1  version << 4 | kind, u8    18  builder u16       32  lane offset u64
//! 2  request u16                20  connection u32    40  body
//! 4  CRC-32C u32                24  sequence u32
//! 8  epoch u64
//! ```

use crate::id::{BuilderId, Epoch, SourceId};

/// Length of every datagram's header.
pub const DATAGRAM_HEADER: usize = 40;
/// The first byte: not ASCII, and equal to the last byte of the preamble's magic.
pub const DATAGRAM_MAGIC: u8 = 0xeb;
/// The version of this format.
pub const DATAGRAM_VERSION: u8 = 1;
/// Size of the headers of IPv4 (RFC 791, without options) and UDP (RFC 768).
pub const IPV4_UDP: usize = 28;
/// Size of the headers of IPv6 (RFC 8200, without extensions) and UDP.
pub const IPV6_UDP: usize = 48;
/// The smallest packet that every IPv6 path carries (RFC 8200 §5); nearly all IPv4 paths do.
pub const MIN_MTU: usize = 1280;

const CHECKSUM: core::ops::Range<usize> = 4..8;

/// The number of a transmission of lane bytes: 0 for the first, otherwise the number of the request
/// that it answers.
pub type Request = u16;

/// The identity of one connection of a lane, which every datagram of it carries
/// (docs/reference/protocol.md UDP-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association {
    /// The run's epoch.
    pub epoch: Epoch,
    /// The source of the lane.
    pub source: SourceId,
    /// The builder of the lane.
    pub builder: BuilderId,
    /// The number of the lane's connection, which the builder drew when it accepted.
    pub connection: u32,
}

/// The content of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramKind {
    /// Lane bytes.
    Data,
    /// Whole lane records.
    Records,
    /// A probe: padding to find out if a packet of that size arrives.
    Probe,
    /// The reply to a probe; the offset says how many bytes arrived.
    ProbeReply,
}

/// A datagram's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// The kind of the body.
    pub kind: DatagramKind,
    /// For data: 0 if these bytes are sent for the first time, otherwise the number of the request
    /// that they answer.
    pub request: u16,
    /// The connection that the datagram belongs to.
    pub association: Association,
    /// The sender's count of datagrams on this connection; wraps around.
    pub sequence: u32,
    /// The highest sequence of the other side that the sender has handled; 0 for none.
    pub heard: u32,
    /// For data: lane offset of the first byte.
    pub offset: u64,
}

/// The reason why bytes are not an intact datagram of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The datagram is too short, or another protocol's.
    #[error("{length} bytes that are not a datagram of evb")]
    Foreign {
        /// Length of the datagram.
        length: usize,
    },
    /// The datagram is of another version, or of an unknown kind.
    #[error("datagram of version and kind {0:#04x}, which this version does not know")]
    Version(u8),
    /// The datagram was damaged on the way.
    #[error("datagram with a wrong checksum: damaged on the way")]
    Checksum,
}

impl DatagramHeader {
    /// Returns the header's bytes, with the checksum over them and over the body that will follow.
    pub fn seal<'a>(&self, body: impl IntoIterator<Item = &'a [u8]>) -> [u8; DATAGRAM_HEADER] {
        let mut bytes = self.encode();
        let checksum = checksum(&bytes, body);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the header's bytes without a checksum, for a datagram that ends in a tag
    /// (docs/reference/protocol.md SEC-10).
    #[inline]
    pub fn encode(&self) -> [u8; DATAGRAM_HEADER] {
        let mut bytes = [0; DATAGRAM_HEADER];
        bytes[0] = DATAGRAM_MAGIC;
        bytes[1] = DATAGRAM_VERSION << 4 | self.kind.number();
        bytes[2..4].copy_from_slice(&self.request.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.association.epoch.number().to_le_bytes());
        bytes[16..18].copy_from_slice(&self.association.source.number().to_le_bytes());
        bytes[18..20].copy_from_slice(&self.association.builder.number().to_le_bytes());
        bytes[20..24].copy_from_slice(&self.association.connection.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.heard.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Reads an intact datagram as header and body (docs/reference/protocol.md UDP-2).
    ///
    /// # Errors
    /// [`DatagramError`]; drop the datagram.
    pub fn open(datagram: &[u8]) -> Result<(Self, &[u8]), DatagramError> {
        let opened = Self::decode(datagram)?;
        let Some((header, body)) = datagram.split_first_chunk::<DATAGRAM_HEADER>() else { return Ok(opened) };
        let mut blank = *header;
        blank[CHECKSUM].fill(0);
        if checksum(&blank, [body]).to_le_bytes() != header[CHECKSUM] {
            return Err(DatagramError::Checksum);
        }
        Ok(opened)
    }

    /// Reads a datagram that a tag protects: the checksum is ignored (docs/reference/protocol.md
    /// SEC-10).
    ///
    /// # Errors
    /// [`DatagramError`]; drop the datagram.
    pub fn decode(datagram: &[u8]) -> Result<(Self, &[u8]), DatagramError> {
        let foreign = DatagramError::Foreign { length: datagram.len() };
        let (header, body) = datagram.split_first_chunk::<DATAGRAM_HEADER>().ok_or(foreign)?;
        if header[0] != DATAGRAM_MAGIC {
            return Err(foreign);
        }
        let kind = DatagramKind::from_number(header[1]).ok_or(DatagramError::Version(header[1]))?;
        let [_, _, r0, r1, _, _, _, _, e0, e1, e2, e3, e4, e5, e6, e7, rest @ ..] = *header;
        let [s0, s1, b0, b1, n0, n1, n2, n3, q0, q1, q2, q3, h0, h1, h2, h3, offset @ ..] = rest;
        let association = Association {
            epoch: Epoch::new(u64::from_le_bytes([e0, e1, e2, e3, e4, e5, e6, e7])),
            source: SourceId::new(u16::from_le_bytes([s0, s1])),
            builder: BuilderId::new(u16::from_le_bytes([b0, b1])),
            connection: u32::from_le_bytes([n0, n1, n2, n3]),
        };
        let header = Self {
            kind,
            request: u16::from_le_bytes([r0, r1]),
            association,
            sequence: u32::from_le_bytes([q0, q1, q2, q3]),
            heard: u32::from_le_bytes([h0, h1, h2, h3]),
            offset: u64::from_le_bytes(offset),
        };
        Ok((header, body))
    }
}

impl DatagramHeader {
    /// Returns true for the bytes of a header of a probe or its reply, and the sequence.
    pub const fn number(bytes: &[u8; DATAGRAM_HEADER]) -> (bool, u32) {
        let is_probe = bytes[1] & 0x0f >= DatagramKind::Probe.number();
        (is_probe, u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]))
    }

    /// Blanks the checksum of a whole datagram before its tag is computed.
    pub fn blank_checksum(datagram: &mut [u8]) {
        datagram.get_mut(CHECKSUM).unwrap_or_default().fill(0);
    }
}

impl DatagramKind {
    const fn number(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Records => 2,
            Self::Probe => 3,
            Self::ProbeReply => 4,
        }
    }

    fn from_number(byte: u8) -> Option<Self> {
        let kinds = [Self::Data, Self::Records, Self::Probe, Self::ProbeReply];
        kinds.into_iter().find(|kind| byte == DATAGRAM_VERSION << 4 | kind.number())
    }
}

/// Returns true if `a` was counted after `b`: sequences wrap around (RFC 1982;
/// docs/reference/protocol.md UDP-6).
pub const fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Returns the CRC-32C (Castagnoli, RFC 3720 §B.4) of the header with zeros for the checksum, then
/// the body.
fn checksum<'a>(header: &[u8; DATAGRAM_HEADER], body: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(header);
    body.into_iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

#[cfg(test)]
mod tests;
