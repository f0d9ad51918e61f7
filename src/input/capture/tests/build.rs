//! Builds captures and packets byte by byte.

pub(in super::super) const TCP: u8 = 6;
pub(in super::super) const UDP: u8 = 17;
pub(in super::super) const FIN: u8 = 1;
pub(in super::super) const SYN: u8 = 2;
pub(in super::super) const RST: u8 = 4;
pub(in super::super) const BOARD: [u8; 4] = [10, 0, 0, 1];
pub(in super::super) const CLIENT: [u8; 4] = [10, 0, 0, 2];
/// Second of the first packet of a capture.
pub(in super::super) const SECOND: u32 = 1_700_000_000;

#[derive(Clone, Copy)]
pub(in super::super) enum Order {
    Big,
    Little,
}

impl Order {
    fn word(self, word: u32) -> [u8; 4] {
        match self {
            Self::Big => word.to_be_bytes(),
            Self::Little => word.to_le_bytes(),
        }
    }

    fn half(self, half: u16) -> [u8; 2] {
        match self {
            Self::Big => half.to_be_bytes(),
            Self::Little => half.to_le_bytes(),
        }
    }
}

/// Returns a pcap file with packets a microsecond or nanosecond apart.
pub(in super::super) fn pcap(order: Order, magic: u32, link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let timed: Vec<(u32, Vec<u8>)> = (0..).zip(packets.iter().cloned()).collect();
    pcap_at(order, magic, link, &timed)
}

/// Returns a pcap file with packets at these fractions of a second.
pub(in super::super) fn pcap_at(order: Order, magic: u32, link: u32, packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let whole: Vec<_> = packets.iter().map(|(time, packet)| (*time, packet.clone(), packet.len())).collect();
    pcap_cut(order, magic, link, &whole)
}

/// Returns a pcap file with packets that were longer on the wire.
pub(in super::super) fn pcap_cut(
    order: Order,
    magic: u32,
    link: u32,
    packets: &[(u32, Vec<u8>, usize)],
) -> Vec<u8> {
    let mut file = [order.word(magic).to_vec(), order.half(2).to_vec(), order.half(4).to_vec()].concat();
    for word in [0, 0, 65_535, link] {
        file.extend(order.word(word));
    }
    for (time, packet, length) in packets {
        for word in [SECOND, *time, packet.len() as u32, *length as u32] {
            file.extend(order.word(word));
        }
        file.extend(packet);
    }
    file
}

fn block(order: Order, kind: u32, content: &[u8]) -> Vec<u8> {
    let padding = vec![0; content.len().next_multiple_of(4) - content.len()];
    let length = order.word((12 + content.len() + padding.len()) as u32).to_vec();
    [&order.word(kind)[..], &length, content, &padding, &length].concat()
}

pub(in super::super) fn section(order: Order) -> Vec<u8> {
    let content = [&order.word(0x1a2b_3c4d)[..], &order.half(1), &order.half(0), &[0xff; 8]].concat();
    block(order, 0x0a0d_0d0a, &content)
}

/// Returns an interface whose times have this resolution.
pub(in super::super) fn interface(order: Order, link: u16, resolution: u8) -> Vec<u8> {
    let option = [&order.half(9)[..], &order.half(1), &[resolution, 0, 0, 0], &[0; 4]].concat();
    block(order, 1, &[&order.half(link)[..], &[0, 0], &order.word(0), &option].concat())
}

pub(in super::super) fn enhanced(order: Order, interface: u32, time: u64, packet: &[u8]) -> Vec<u8> {
    let words = [interface, (time >> 32) as u32, time as u32, packet.len() as u32, packet.len() as u32];
    let head: Vec<u8> = words.iter().flat_map(|word| order.word(*word)).collect();
    block(order, 6, &[&head, packet].concat())
}

pub(in super::super) fn simple(order: Order, packet: &[u8]) -> Vec<u8> {
    block(order, 3, &[&order.word(packet.len() as u32)[..], packet].concat())
}

/// Returns a pcapng file with blocks of other kinds between the packets.
pub(in super::super) fn pcapng(order: Order, link: u16, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = [section(order), interface(order, link, 9)].concat();
    for (number, packet) in (0..).zip(packets) {
        file.extend(block(order, 0x0bad_cafe, b"unknown"));
        file.extend(enhanced(order, 0, u64::from(SECOND) * 1_000_000_000 + number, packet));
    }
    file
}

pub(in super::super) fn ethernet(ip: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if ip[0] >> 4 == 6 { [0x86, 0xdd] } else { [8, 0] };
    // A short frame is padded.
    let padding = vec![0x55; 46_usize.saturating_sub(ip.len())];
    [&[0; 12][..], &kind, ip, &padding].concat()
}

/// Returns a frame with two VLAN tags.
pub(in super::super) fn vlan(ip: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 8, 8, 0], ip].concat()
}

/// Returns a packet of a Linux cooked capture.
pub(in super::super) fn sll(ip: &[u8]) -> Vec<u8> {
    [&[0, 0, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0][..], ip].concat()
}

pub(in super::super) fn sll2(ip: &[u8]) -> Vec<u8> {
    [&[8, 0][..], &[0; 18], ip].concat()
}

pub(in super::super) fn ipv4(number: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_between([BOARD, CLIENT], number, payload)
}

pub(in super::super) fn ipv4_between(hosts: [[u8; 4]; 2], number: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_part(hosts, number, 0, 0, payload)
}

fn ipv4_part(hosts: [[u8; 4]; 2], number: u8, id: u16, offset: u16, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let head = [&[0x45, 0][..], &length.to_be_bytes(), &id.to_be_bytes(), &offset.to_be_bytes()].concat();
    [&head[..], &[64, number, 0, 0], &hosts[0], &hosts[1], payload].concat()
}

/// Returns the fragments of a datagram, with payloads of `size` bytes.
pub(in super::super) fn ipv4_fragments(id: u16, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(size);
    let part = |(number, piece): (usize, &[u8])| {
        let more = if number + 1 < count { 0x2000 } else { 0 };
        ipv4_part([BOARD, CLIENT], UDP, id, more | (number * size / 8) as u16, piece)
    };
    payload.chunks(size).enumerate().map(part).collect()
}

pub(in super::super) fn ipv6(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[number, 64], &[1; 16], &[2; 16], payload].concat()
}

/// Returns the fragments of an IPv6 datagram, with payloads of `size` bytes.
pub(in super::super) fn ipv6_fragments(id: u32, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
    let count = payload.len().div_ceil(size);
    let part = |(number, piece): (usize, &[u8])| {
        let offset = (number * size) as u16 | u16::from(number + 1 < count);
        ipv6(44, &[&[UDP, 0][..], &offset.to_be_bytes(), &id.to_be_bytes(), piece].concat())
    };
    payload.chunks(size).enumerate().map(part).collect()
}

pub(in super::super) fn udp(payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&[0, 24, 0x13, 0x88][..], &length.to_be_bytes(), &[0, 0], payload].concat()
}

pub(in super::super) fn tcp(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    tcp_ports([24, 5000], sequence, flags, payload)
}

/// Returns a segment with an option.
pub(in super::super) fn tcp_ports(ports: [u16; 2], sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [from, to] = ports.map(u16::to_be_bytes);
    let head = [&from[..], &to, &sequence.to_be_bytes(), &[0; 4], &[0x60, flags, 0, 0, 0, 0, 0, 0]].concat();
    [&head[..], &[1, 1, 1, 1], payload].concat()
}
