//! [`Packets`]: finds the UDP datagrams and TCP segments in the packets of a capture.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use evb_core::flow::FlowFilter;
use pcap_parser::Linktype;

use super::{
    reassembly::{IpFragment, IpReassembly, Origin},
    records::Record,
};

/// Link types of raw IP in old captures.
const DLT_RAW: [Linktype; 2] = [Linktype(12), Linktype(14)];

/// Types of Ethernet frames: IP, and tags of VLANs.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Numbers of protocols in IP packets.
const TCP: u8 = 6;
const UDP: u8 = 17;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;

/// Largest number of tags, and of extension headers, that a packet has.
const MAX_HEADERS: usize = 8;

/// One direction of a connection, or of an exchange of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// True for TCP, false for UDP.
    pub is_tcp: bool,
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = if self.is_tcp { "TCP" } else { "UDP" };
        write!(f, "{protocol} from {} to {}", self.from, self.to)
    }
}

/// The content of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    Datagram(&'a [u8]),
    Segment(Segment<'a>),
    /// The capture has not all of it, or its lengths cannot be.
    Unusable,
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) sequence: u32,
    pub(super) begins: bool,
    pub(super) ends: bool,
    pub(super) resets: bool,
    pub(super) payload: &'a [u8],
}

/// Finds datagrams and segments in packets.
#[derive(Debug)]
pub(super) struct Packets {
    filter: FlowFilter,
    pub(super) reassembly: IpReassembly,
    /// A link type that is not known, if there was one.
    pub(super) unknown_link: Option<i32>,
    /// Number of fragments of IP datagrams that were not whole by then.
    pub(super) parts: u64,
}

impl Packets {
    pub(super) fn new(filter: FlowFilter) -> Self {
        Self { filter, reassembly: IpReassembly::default(), unknown_link: None, parts: 0 }
    }

    /// Returns the datagram or segment of a packet; `None` if it is neither, or a fragment of an IP
    /// datagram that is not whole yet.
    pub(super) fn read<'a>(&'a mut self, record: Record<'a>) -> Option<(Flow, Content<'a>)> {
        let packet = self.network(record)?;
        let IpPacket { from, to, number, payload, is_cut, fragment } = packet;
        if number != TCP && number != UDP {
            return None;
        }
        let Some((id, offset, has_more)) = fragment else {
            return transport(number, from, to, payload, is_cut);
        };
        if is_cut || !self.filter.may_take(from, to) {
            return None;
        }
        let fragment = IpFragment { offset, has_more, bytes: payload };
        let Some(whole) = self.reassembly.take(Origin { from, to, id, number }, fragment) else {
            self.parts += 1;
            return None;
        };
        transport(number, from, to, whole, false)
    }

    /// Returns the IP packet in the frame of a link.
    fn network<'a>(&mut self, record: Record<'a>) -> Option<IpPacket<'a>> {
        let Record { bytes, link, is_cut, .. } = record;
        // The type of the content as Ethernet numbers it, and the bytes behind the link's header.
        let (kind, ip) = match link {
            Linktype::ETHERNET => untagged(bytes, 12)?,
            Linktype::LINUX_SLL => untagged(bytes, 14)?,
            Linktype::LINUX_SLL2 => (half(bytes, 0)?, bytes.get(20..)?),
            Linktype::NULL | Linktype::LOOP => by_version(bytes.get(4..)?)?,
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => by_version(bytes)?,
            raw if DLT_RAW.contains(&raw) => by_version(bytes)?,
            Linktype(other) => {
                self.unknown_link = Some(other);
                return None;
            }
        };
        match kind {
            IPV4 => read_ipv4(ip, is_cut),
            IPV6 => read_ipv6(ip, is_cut),
            _ => None,
        }
    }
}

/// An IP packet.
struct IpPacket<'a> {
    from: IpAddr,
    to: IpAddr,
    /// Number of the protocol of the payload.
    number: u8,
    payload: &'a [u8],
    /// True if the capture has not the whole packet.
    is_cut: bool,
    /// If it is a fragment: id of the datagram, offset, and whether others follow.
    fragment: Option<(u32, usize, bool)>,
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|half| u16::from_be_bytes(*half))
}

/// Returns the type and the content of a frame whose type is at an offset, behind its VLAN tags.
fn untagged(bytes: &[u8], mut at: usize) -> Option<(u16, &[u8])> {
    for _ in 0..MAX_HEADERS {
        let kind = half(bytes, at)?;
        if !TAGS.contains(&kind) {
            return Some((kind, bytes.get(at + 2..)?));
        }
        at += 4;
    }
    None
}

fn by_version(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let kind = if bytes.first()? >> 4 == 6 { IPV6 } else { IPV4 };
    Some((kind, bytes))
}

/// Returns the first `length` bytes, and true if they are not there. Packets that the network card
/// splits or joins have no length: for them, `is_cut` tells of the whole packet.
fn within(bytes: &[u8], length: usize, is_cut: bool) -> (&[u8], bool) {
    match length {
        0 => (bytes, is_cut),
        _ => (&bytes[..length.min(bytes.len())], length > bytes.len()),
    }
}

/// Reads an IPv4 packet (RFC 791). `is_cut` is true if the capture has only the front of it.
fn read_ipv4(bytes: &[u8], is_cut: bool) -> Option<IpPacket<'_>> {
    let head: &[u8; 20] = bytes.first_chunk()?;
    let (header, length) = (usize::from(head[0] & 15) * 4, half(head, 2)?.into());
    if head[0] >> 4 != 4 || header < head.len() || length != 0 && length < header {
        return None;
    }
    let (packet, is_cut) = within(bytes, length, is_cut);
    // The lower 13 bits are the offset in units of 8 bytes, and bit 13 says that more fragments
    // follow.
    let place = half(head, 6)?;
    let (offset, has_more) = (usize::from(place & 0x1fff) * 8, place & 0x2000 != 0);
    let fragment = (offset > 0 || has_more).then_some((half(head, 4)?.into(), offset, has_more));
    let address = |at: usize| head[at..].first_chunk().map(|address: &[u8; 4]| IpAddr::from(*address));
    let (from, to) = (address(12)?, address(16)?);
    Some(IpPacket { from, to, number: head[9], payload: packet.get(header..)?, is_cut, fragment })
}

/// Reads an IPv6 packet (RFC 8200) and its extension headers. `is_cut` is true if the capture has
/// only the front of it.
fn read_ipv6(bytes: &[u8], is_cut: bool) -> Option<IpPacket<'_>> {
    let (head, rest): (&[u8; 40], _) = bytes.split_first_chunk()?;
    if head[0] >> 4 != 6 {
        return None;
    }
    let (mut payload, is_cut) = within(rest, half(head, 4)?.into(), is_cut);
    let (mut number, mut fragment) = (head[6], None);
    for _ in 0..MAX_HEADERS {
        let header = match (number, payload.get(1)) {
            // Options hop by hop, routing, and options of the destination (RFC 8200, 4).
            (0 | 43 | 60, Some(length)) => (usize::from(*length) + 1) * 8,
            (AUTHENTICATION, Some(length)) => (usize::from(*length) + 2) * 4,
            (FRAGMENT, _) => 8,
            _ => break,
        };
        let (extension, behind) = payload.split_at_checked(header)?;
        payload = behind;
        if number == FRAGMENT {
            let place = half(extension, 2)?;
            // The offset is in units of 8 bytes, so its lower 3 bits are free for the flag.
            let (offset, has_more) = (usize::from(place & 0xfff8), place & 1 != 0);
            let id = u32::from(half(extension, 4)?) << 16 | u32::from(half(extension, 6)?);
            fragment = (offset > 0 || has_more).then_some((id, offset, has_more));
        }
        number = extension[0];
        if fragment.is_some() {
            break;
        }
    }
    let address = |at: usize| head[at..].first_chunk().map(|address: &[u8; 16]| IpAddr::from(*address));
    Some(IpPacket { from: address(8)?, to: address(24)?, number, payload, is_cut, fragment })
}

/// Returns the datagram or segment in the payload of an IP packet.
fn transport(
    number: u8,
    from: IpAddr,
    to: IpAddr,
    bytes: &[u8],
    is_cut: bool,
) -> Option<(Flow, Content<'_>)> {
    let (from, to) = (SocketAddr::new(from, half(bytes, 0)?), SocketAddr::new(to, half(bytes, 2)?));
    let flow = Flow { is_tcp: number == TCP, from, to };
    let content = match number {
        _ if is_cut => None,
        TCP => segment(bytes).map(Content::Segment),
        _ => datagram(bytes).map(Content::Datagram),
    };
    Some((flow, content.unwrap_or(Content::Unusable)))
}

/// Reads the header of a TCP segment (RFC 9293); `None` if it is cut short.
fn segment(bytes: &[u8]) -> Option<Segment<'_>> {
    let head: &[u8; 20] = bytes.first_chunk()?;
    let (header, flags) = (usize::from(head[12] >> 4) * 4, head[13]);
    let sequence = u32::from(half(head, 4)?) << 16 | u32::from(half(head, 6)?);
    let payload = bytes.get(header.max(head.len())..)?;
    // The flags SYN, FIN and RST.
    let (begins, ends, resets) = (flags & 2 != 0, flags & 1 != 0, flags & 4 != 0);
    (header >= head.len()).then_some(Segment { sequence, begins, ends, resets, payload })
}

fn datagram(bytes: &[u8]) -> Option<&[u8]> {
    match half(bytes, 4)? {
        // A datagram that the network card splits has no length.
        0 => bytes.get(8..),
        length => bytes.get(8..length.into()),
    }
}
