//! Datagrams of lanes over UDP: a header of 40 bytes, then lane bytes or lane records (docs/reference/protocol.md,
//! section "Lanes over datagrams").
//!
//! ```text
//! offset 0      1                2        4         8       16      18       20          24        28     32       40
//!        magic  version << 4     request  CRC-32C   epoch   source  builder  connection  sequence  heard  lane     body
//!        0xeb   | kind           u16      u32       u64     u16     u16      u32         u32       u32    offset
//!        u8     u8                                                                                        u64
//! ```

use crate::id::{BuilderId, Epoch, SourceId};

/// Length of every datagram's header.
pub const DATAGRAM_HEADER: usize = 40;
/// The first byte: outside of ASCII, the last of the preamble's magic.
pub const DATAGRAM_MAGIC: u8 = 0xeb;
/// The version of this format.
pub const DATAGRAM_VERSION: u8 = 1;
/// What IPv4 (RFC 791, without options) and UDP (RFC 768) take of a packet.
pub const IPV4_UDP: usize = 28;
/// What IPv6 (RFC 8200, without extensions) and UDP take of a packet.
pub const IPV6_UDP: usize = 48;
/// The smallest packet that every IPv6 path carries (RFC 8200 §5); nearly all IPv4 paths do.
pub const MIN_MTU: usize = 1280;

const CHECKSUM: core::ops::Range<usize> = 4..8;

/// What a transmission of lane bytes is called on the wire: 0 is the first, else the number of the request it answers.
pub type Request = u16;

/// One life of one lane's connection: what every datagram of it carries (docs/reference/protocol.md UDP-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association {
    /// Which life of the run.
    pub epoch: Epoch,
    /// Who sends fragments.
    pub source: SourceId,
    /// Who builds events.
    pub builder: BuilderId,
    /// Which connection of that lane: a number that the builder drew when it accepted.
    pub connection: u32,
}

/// What a datagram carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramKind {
    /// Lane bytes.
    Data,
    /// Lane records, whole ones.
    Records,
    /// Padding up to a size: does a packet of that size get through?
    Probe,
    /// It did; the offset says with how many bytes.
    ProbeReply,
}

/// A datagram's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// What follows.
    pub kind: DatagramKind,
    /// Of data: 0 if these bytes are sent for the first time, else the number of the request that they answer.
    pub request: u16,
    /// Whose it is.
    pub association: Association,
    /// The sender's count of datagrams on this connection; wraps around.
    pub sequence: u32,
    /// The highest sequence of the other side that the sender has dealt with; 0: none.
    pub heard: u32,
    /// Of data: lane offset of the first byte.
    pub offset: u64,
}

/// Bytes that are no datagram of ours, or not as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// Too short, or another protocol's.
    #[error("{length} bytes that are not a datagram of evb")]
    Foreign {
        /// How long it was.
        length: usize,
    },
    /// Of another version, or of no known kind.
    #[error("datagram of version and kind {0:#04x}, which this version does not know")]
    Version(u8),
    /// Damaged on the way.
    #[error("datagram with a wrong checksum: damaged on the way")]
    Checksum,
}

impl DatagramHeader {
    /// The header's bytes, with the checksum over them and the body that will follow.
    pub fn seal<'a>(&self, body: impl IntoIterator<Item = &'a [u8]>) -> [u8; DATAGRAM_HEADER] {
        let mut bytes = self.encode();
        let checksum = checksum(&bytes, body);
        bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header's bytes without a checksum, where a tag will stand behind the body (docs/reference/protocol.md
    /// SEC-10).
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

    /// Reads a datagram: its header and body, as they were sent (docs/reference/protocol.md UDP-2).
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

    /// The same where a tag tells whether they are as they were sent: the checksum is not looked at
    /// (docs/reference/protocol.md SEC-10).
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
    /// Of a header as it goes over the wire: whether it is of a probe or its reply, and the sequence.
    pub const fn number(bytes: &[u8; DATAGRAM_HEADER]) -> (bool, u32) {
        let is_probe = bytes[1] & 0x0f >= DatagramKind::Probe.number();
        (is_probe, u32::from_le_bytes([bytes[24], bytes[25], bytes[26], bytes[27]]))
    }

    /// Takes the checksum out of a whole datagram, to which a tag is made.
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

/// Whether `a` was counted after `b`: sequences wrap around (RFC 1982; docs/reference/protocol.md UDP-6).
pub const fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// CRC-32C (Castagnoli, RFC 3720 §B.4): the header with zeros for the checksum, then the body.
fn checksum<'a>(header: &[u8; DATAGRAM_HEADER], body: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(header);
    body.into_iter().for_each(|piece| digest.update(piece));
    digest.finalize() as u32
}

#[cfg(test)]
mod tests;
