//! Fuzz target for the datagrams and packets that boards send, in layouts that the input chooses.

use core::time::Duration;

use evb::input::{
    Datagrams, Extent, FrameField, FrameLayout, Kept, LastPacket, LengthCounts, Mark, OnLoss, PacketLayout,
};
use evb_core::{fragment::Checksum, time::Instant, units::Bytes};

const MAX_FRAGMENT: Bytes = Bytes::new(1000);
/// Number of bytes of the input that choose the layout.
const LAYOUT: usize = 6;

/// Returns the layout that some bytes choose.
fn layout(bytes: &[u8; LAYOUT]) -> FrameLayout {
    let [kind, header, counter, place, end, length] = *bytes;
    let field = |byte: u8| FrameField::new(u32::from(byte >> 4), 1 + (byte & 7));
    let extent = match kind & 3 {
        0 => Extent::Stated { length: field(length), unit: 1, counted: LengthCounts::Payload },
        1 => Extent::Stated { length: field(length), unit: 1, counted: LengthCounts::Tail },
        2 => Extent::Fixed(u32::from(length)),
        _ => Extent::Datagram,
    };
    let mut layout = FrameLayout::new(u32::from(header & 31), extent);
    layout.magic = (kind & 4 != 0).then(|| Mark::new(0, [0xe7]));
    layout.counter = (counter != 0).then(|| field(counter));
    layout.trailer = u32::from(header >> 6);
    layout.keep = Kept::Payload;
    let (number, first) = (field(place), u64::from(kind >> 7));
    layout.packets = match kind >> 3 & 7 {
        0 => None,
        1 | 2 => Some(PacketLayout::Placed { offset: field(place), total: field(end) }),
        3 | 4 => Some(PacketLayout::Numbered { number, first, end: LastPacket::Count(field(end)) }),
        5 => Some(PacketLayout::Numbered { number, first, end: LastPacket::Fixed(u32::from(end)) }),
        _ => Some(PacketLayout::Numbered { number, first, end: LastPacket::Mark(field(end)) }),
    };
    layout
}

/// Decodes datagrams; the first bytes choose the layout, and each datagram is preceded by its
/// length and the time before it.
///
/// # Panics
/// Panics if a fragment is too large, or if fragments that are not filled have more bytes than were
/// sent, or more packets were not used than were sent.
pub fn check(data: &[u8]) {
    let Some((chosen, rest)) = data.split_first_chunk::<LAYOUT>() else { return };
    let Some((on_loss, mut rest)) = rest.split_first() else { return };
    let on_loss = [OnLoss::Drop, OnLoss::Fill, OnLoss::KeepShort][usize::from(on_loss % 3)];
    let Ok(mut decoder) = Datagrams::new(layout(chosen), MAX_FRAGMENT, on_loss) else { return };
    let (mut now, mut out, mut sent, mut count) = (Instant::ZERO, Vec::new(), 0, 0);
    while let Some(([length, wait], after)) = rest.split_first_chunk() {
        let (datagram, after) = after.split_at(usize::from(*length).min(after.len()));
        now += Duration::from_millis(u64::from(*wait));
        decoder.expire(now, &mut out);
        decoder.take(datagram, now, &mut out);
        if *wait == 255 {
            decoder.begin();
        }
        (rest, sent, count) = (after, sent + datagram.len(), count + 1);
    }
    decoder.finish(&mut out);
    assert!(decoder.next_timeout().is_none());
    let (mut used, mut lost) = (0, 0);
    for fragment in &out {
        assert!(fragment.size() <= MAX_FRAGMENT);
        assert_eq!(fragment.checksum, Checksum::of(&fragment.payload));
        lost += u64::from(fragment.lost_packets);
        used += fragment.payload.len();
    }
    let losses = decoder.losses();
    assert_eq!(lost, losses.lost_packets);
    assert!(losses.unused_packets <= count && losses.garbage_bytes <= sent as u64);
    assert!(on_loss == OnLoss::Fill || used <= sent, "{used} of {sent}");
}

/// Returns the seed corpus: packets of usual layouts in any order, double, and some lost.
pub fn seeds() -> Vec<Vec<u8>> {
    // Counter, number of the packet, number of packets or its mark, and the payload.
    let packet = |counter: u8, number: u8, end: u8, wait: u8| {
        let bytes = [0xe7, counter, number, end, 0, 4, 1, 2, 3, 4];
        [&[bytes.len() as u8, wait][..], &bytes].concat()
    };
    let usual = |kind: u8| [kind, 6, 0x10, 0x20, 0x30, 0x50];
    let with = |kind: u8, on_loss: u8, packets: &[Vec<u8>]| {
        [&usual(kind)[..], &[on_loss], &packets.concat()].concat()
    };
    let all = [packet(1, 1, 2, 0), packet(1, 0, 2, 0), packet(2, 0, 2, 1), packet(2, 1, 2, 0)];
    let some = [packet(1, 1, 3, 0), packet(1, 1, 3, 0), packet(2, 0, 2, 120), packet(3, 0, 1, 255)];
    let placed = [packet(1, 4, 8, 0), packet(1, 0, 8, 0), packet(2, 4, 12, 0)];
    (0..3)
        .flat_map(|on_loss| {
            [with(0x1f, on_loss, &all), with(0x1c, on_loss, &some), with(0x0f, on_loss, &placed)]
        })
        .chain([with(0x07, 0, &all), with(0x2f, 1, &some), with(0x37, 2, &some)])
        .collect()
}
