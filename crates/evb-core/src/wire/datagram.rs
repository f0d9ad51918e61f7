//! Datagrams of lanes over UDP: a header of 40 bytes, then lane bytes or lane records
//! (docs/reference/protocol.md, section "Lanes over datagrams"). The fields of the header, by
//! offset:
//!
//! ```text
//! 0  magic 0xeb, u8             16  source u16        28  heard u32
//! 1  version << 4 | kind, u8    18  builder u16       32  lane offset u64
//! 2  request u16                20  connection u32    40  body
//! 4  CRC-32C u32                24  sequence u32
//! 8  epoch u64
//! ```

use crate::id::{BuilderId, Epoch, SourceId};

/// Length of a datagram's header.
pub const DATAGRAM_HEADER: usize = 40;
/// First byte of every datagram. The byte is not ASCII, and equals the last byte of the preamble's
/// magic.
pub const DATAGRAM_MAGIC: u8 = 0xeb;
/// Version of the datagram format, which is that of the protocol.
pub const DATAGRAM_VERSION: u8 = 3;
/// Length of the headers of IPv4 (RFC 791, without options) and UDP (RFC 768).
pub const IPV4_UDP: usize = 28;
/// Length of the headers of IPv6 (RFC 8200, without extensions) and UDP.
pub const IPV6_UDP: usize = 48;
/// Largest packet size that every IPv6 path supports (RFC 8200 §5); nearly all IPv4 paths support
/// it, too.
pub const MIN_MTU: usize = 1280;

const CHECKSUM: core::ops::Range<usize> = 4..8;

/// Number that identifies a transmission of lane bytes: 0 for the first transmission, otherwise the
/// number of the request that the transmission answers.
pub type Request = u16;

/// Identity of one connection of a lane. All datagrams of that connection carry it
/// (docs/reference/protocol.md UDP-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association {
    /// Epoch of the run.
    pub epoch: Epoch,
    /// Source of the lane.
    pub source: SourceId,
    /// Builder of the lane.
    pub builder: BuilderId,
    /// Random number that the builder chose for the lane's connection when it accepted the
    /// connection.
    pub connection: u32,
}

/// Kind of a datagram's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramKind {
    /// Lane bytes.
    Data,
    /// Whole lane records.
    Records,
    /// A probe: padding, to find out if a packet of that size arrives.
    Probe,
    /// The reply to a probe; the `offset` field contains the number of bytes that arrived.
    ProbeReply,
}

/// Header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// Kind of the datagram's body.
    pub kind: DatagramKind,
    /// For data: 0 if the bytes are sent for the first time, otherwise the number of the request
    /// that they answer.
    pub request: u16,
    /// Connection that the datagram belongs to.
    pub association: Association,
    /// Sequence number: the sender's count of its datagrams on this connection, which wraps around.
    pub sequence: u32,
    /// Highest sequence number of the other side's datagrams that the sender has handled; 0 for
    /// none.
    pub heard: u32,
    /// For data: lane offset of the first byte. For a reply to a probe: number of bytes that
    /// arrived.
    pub offset: u64,
}

/// Reason why bytes are not an undamaged datagram of evb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The datagram is too short, or belongs to another protocol.
    #[error("its {length} bytes are not a datagram of evb; look which program sends to this port")]
    Foreign {
        /// Length of the datagram.
        length: usize,
    },
    /// The datagram has another format version, or an unknown kind.
    #[error("it is of another release of evb (version {} and kind {} of datagrams; this is version {DATAGRAM_VERSION}): install the same release on both hosts", .0 >> 4, .0 & 15)]
    Version(u8),
    /// The datagram was damaged in the network.
    #[error(
        "it was damaged on the way (wrong checksum); if this is frequent, check cables, switch ports and network cards"
    )]
    Checksum,
}

impl DatagramHeader {
    /// Returns the bytes of the header, with a checksum over the header and over `body`, which must
    /// follow it.
    pub fn seal<'a>(&self, body: impl IntoIterator<Item = &'a [u8]>) -> [u8; DATAGRAM_HEADER] {
        let mut bytes = self.encode();
        let checksum = checksum(&bytes, body);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Returns the bytes of the header without a checksum, for a datagram that is protected by a
    /// tag instead (docs/reference/protocol.md SEC-10).
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

    /// Checks a datagram and splits it into header and body (docs/reference/protocol.md UDP-2).
    ///
    /// # Errors
    /// Returns [`DatagramError`]; then drop the datagram.
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

    /// Splits a datagram into header and body, without a check of the checksum, for datagrams that
    /// are protected by a tag instead (docs/reference/protocol.md SEC-10).
    ///
    /// # Errors
    /// Returns [`DatagramError`]; then drop the datagram.
    pub fn decode(datagram: &[u8]) -> Result<(Self, &[u8]), DatagramError> {
        let foreign = DatagramError::Foreign { length: datagram.len() };
        let (header, body) = datagram.split_first_chunk::<DATAGRAM_HEADER>().ok_or(foreign)?;
        if header[0] != DATAGRAM_MAGIC {
            return Err(foreign);
        }
        let kind = DatagramKind::from_number(header[1]).ok_or(DatagramError::Version(header[1]))?;
        // The letters stand for request, epoch, source, builder, number of the connection, sequence
        // and heard.
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
    /// Returns the sequence number in the bytes of a header, and before it true if the datagram is
    /// a probe or a reply to a probe.
    pub const fn number(bytes: &[u8; DATAGRAM_HEADER]) -> (bool, u32) {
        let is_probe = bytes[1] & 0x0f >= DatagramKind::Probe.number();
        (is_probe, u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]))
    }

    /// Sets the checksum of a whole datagram to zero, before its tag is computed.
    pub fn blank_checksum(datagram: &mut [u8]) {
        datagram.get_mut(CHECKSUM).unwrap_or_default().fill(0);
    }
}

impl DatagramKind {
    /// Returns the number that stands for the kind in a datagram.
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

/// Returns true if sequence number `a` is later than `b`. Sequence numbers wrap around (RFC 1982;
/// docs/reference/protocol.md UDP-6).
pub const fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Returns the CRC-32C (Castagnoli, RFC 3720 §B.4) of the header, with zeros in place of the
/// checksum, and of the body.
fn checksum<'a>(header: &[u8; DATAGRAM_HEADER], body: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(header);
    body.into_iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

#[cfg(test)]
mod tests;
