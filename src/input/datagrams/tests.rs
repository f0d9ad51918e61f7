use std::time::Duration;

use evb_core::{
    framing::{Extent, FrameField, Kept, LastPacket, LengthCounts, Mark, PacketLayout},
    rng::Rng,
};

use super::*;
use crate::input::framing::tests::layouts::{field, one_of, write};

const LIMIT: Bytes = Bytes::new(300);

/// A counter of one byte, the number of the packet, and their number.
fn numbered() -> FrameLayout {
    let (number, count) = (FrameField::new(1, 1), FrameField::new(2, 1));
    let packets = PacketLayout::Numbered { number, first: 0, end: LastPacket::Count(count) };
    let mut layout = FrameLayout::new(3, Extent::Datagram);
    (layout.keep, layout.counter, layout.packets) =
        (Kept::Payload, Some(FrameField::new(0, 1)), Some(packets));
    layout
}

fn datagrams(layout: FrameLayout, on_loss: OnLoss) -> Datagrams {
    Datagrams::new(layout, LIMIT, on_loss).unwrap()
}

/// A time in milliseconds.
fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Takes datagrams at one time, and returns the fragments: counter, payload, lost packets.
fn taken(decoder: &mut Datagrams, all: &[&[u8]], ms: u64) -> Vec<(u64, Vec<u8>, u32)> {
    let mut out = Vec::new();
    all.iter().for_each(|datagram| decoder.take(datagram, at(ms), &mut out));
    listed(out)
}

fn expired(decoder: &mut Datagrams, ms: u64) -> Vec<(u64, Vec<u8>, u32)> {
    let mut out = Vec::new();
    decoder.expire(at(ms), &mut out);
    listed(out)
}

fn listed(fragments: Vec<Fragment>) -> Vec<(u64, Vec<u8>, u32)> {
    let of = |one: Fragment| (one.event.number(), one.payload.to_vec(), one.lost_packets);
    fragments.into_iter().map(of).collect()
}

/// The packets of a fragment, as the declaration has them, and its payload.
struct Sent {
    packets: Vec<Vec<u8>>,
    payload: Vec<u8>,
}

/// Returns a layout of packets in any form that can be.
fn any_layout(rng: &mut Rng) -> FrameLayout {
    let mut at = 0;
    let mut layout = FrameLayout::new(0, Extent::Datagram);
    if rng.below(2) == 0 {
        layout.magic = Some(Mark::new(0, [0xe1, 0xe2]));
        at = 2;
    }
    layout.counter = Some(field(rng, &mut at, 2));
    layout.clock = (rng.below(2) > 0).then(|| field(rng, &mut at, 1));
    layout.packets = Some(match rng.below(4) {
        0 => PacketLayout::Placed { offset: field(rng, &mut at, 2), total: field(rng, &mut at, 2) },
        kind => PacketLayout::Numbered {
            number: field(rng, &mut at, 1),
            first: rng.below(2),
            end: match kind {
                1 => LastPacket::Fixed(4),
                2 => LastPacket::Count(field(rng, &mut at, 1)),
                _ => LastPacket::Mark(FrameField { low: 7, ..FrameField::new(at, 1) }),
            },
        },
    });
    layout.header = at + 1;
    layout.trailer = rng.below(3) as u32;
    if rng.below(2) == 0 {
        let counted = one_of(rng, &[LengthCounts::Payload, LengthCounts::Tail]);
        let mut at = layout.header;
        layout.extent = Extent::Stated { length: field(rng, &mut at, 1), unit: 1, counted };
        layout.header = at;
    }
    layout.keep = Kept::Payload;
    layout
}

/// Encodes a fragment as the declaration says.
fn sent(rng: &mut Rng, layout: &FrameLayout, counter: u64) -> Sent {
    let size = 1 + rng.below(20) as usize;
    sent_of(rng, layout, counter, size)
}

/// Encodes a fragment in packets of `size` bytes, but for the last, which may be shorter.
fn sent_of(rng: &mut Rng, layout: &FrameLayout, counter: u64, size: usize) -> Sent {
    let all = layout.packets.as_ref().unwrap();
    let count = match all {
        PacketLayout::Numbered { end: LastPacket::Fixed(count), .. } => *count as usize,
        _ => 1 + rng.below(4) as usize,
    };
    let parts: Vec<Vec<u8>> = (0..count)
        .map(|part| {
            let length = if part + 1 == count { 1 + rng.below(size as u64) as usize } else { size };
            (0..length).map(|_| rng.below(256) as u8).collect()
        })
        .collect();
    let payload = parts.concat();
    let packet = |(place, part): (usize, &Vec<u8>)| {
        let mut bytes = vec![0; layout.header as usize];
        layout.magic.iter().for_each(|magic| bytes[..2].copy_from_slice(&magic.value));
        write(&mut bytes, layout.counter.as_ref().unwrap(), counter);
        match all {
            PacketLayout::Placed { offset, total } => {
                write(&mut bytes, offset, (place * size) as u64);
                write(&mut bytes, total, payload.len() as u64);
            }
            PacketLayout::Numbered { number, first, end } => {
                write(&mut bytes, number, place as u64 + first);
                match end {
                    LastPacket::Fixed(_) => {}
                    LastPacket::Count(field) => write(&mut bytes, field, count as u64),
                    LastPacket::Mark(field) => write(&mut bytes, field, u64::from(place + 1 == count)),
                }
            }
        }
        if let Extent::Stated { length, counted, .. } = &layout.extent {
            write(&mut bytes, length, part.len() as u64);
            if *counted == LengthCounts::Tail {
                bytes.extend([0x55; 8]);
            }
        }
        bytes.extend(part);
        bytes.resize(bytes.len() + layout.trailer as usize, 0);
        bytes
    };
    Sent { packets: parts.iter().enumerate().map(packet).collect(), payload }
}

/// Returns all orders of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let Some(last) = count.checked_sub(1) else { return vec![Vec::new()] };
    let shorter = orders(last);
    let places = shorter.iter().flat_map(|order| (0..count).map(move |place| (order, place)));
    let with = |(order, place): (&Vec<usize>, usize)| {
        let mut order = order.clone();
        order.insert(place, last);
        order
    };
    places.map(with).collect()
}

#[test]
fn an_encoder_written_from_the_declaration_agrees_in_every_order_and_with_every_double_packet() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let layout = any_layout(&mut rng);
        assert_eq!(layout.check(), Ok(()), "seed {seed}: {layout:?}");
        let Sent { packets, payload } = sent(&mut rng, &layout, 7);
        for order in orders(packets.len()) {
            for double in 0..packets.len() {
                let mut decoder = datagrams(layout.clone(), OnLoss::Drop);
                let mut all: Vec<&[u8]> = order.iter().map(|place| &packets[*place][..]).collect();
                all.insert(double, all[double]);
                let found = taken(&mut decoder, &all, 1);
                assert_eq!(found, [(7, payload.clone(), 0)], "seed {seed}, {order:?}: {layout:?}");
                let losses = Losses { unused_packets: 1, ..Losses::default() };
                assert_eq!(decoder.losses(), losses, "seed {seed}, {order:?}");
            }
        }
    }
}

#[test]
fn every_lost_packet_is_counted_and_filled_and_none_is_invented() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let layout = any_layout(&mut rng);
        let size = 1 + rng.below(20) as usize;
        let mut of = |counter| sent_of(&mut rng, &layout, counter, size);
        let (before, Sent { packets, payload }, next) = (of(6), of(7), of(8));
        // The size of packets is known from those that came.
        for lost in (0..packets.len()).filter(|_| packets.len() > 1 && before.packets.len() > 1) {
            for on_loss in [OnLoss::Drop, OnLoss::Fill, OnLoss::KeepShort] {
                let mut decoder = datagrams(layout.clone(), on_loss);
                let whole: Vec<&[u8]> = before.packets.iter().map(Vec::as_slice).collect();
                assert_eq!(taken(&mut decoder, &whole, 1).len(), 1);
                let rest = packets.iter().enumerate().filter(|(place, _)| *place != lost);
                let mut all: Vec<&[u8]> = rest.map(|(_, packet)| &packet[..]).collect();
                all.extend(next.packets.iter().map(Vec::as_slice));
                assert_eq!(taken(&mut decoder, &all, 1), [], "it waits");
                let found = expired(&mut decoder, 101);
                assert_eq!(found.len(), 2, "seed {seed}: {layout:?}");
                assert_eq!(found[1], (8, next.payload.clone(), 0), "seed {seed}");
                let (counter, bytes, count) = &found[0];
                assert_eq!((*counter, *count), (7, 1), "seed {seed}: {layout:?}");
                match on_loss {
                    OnLoss::Drop => assert!(bytes.is_empty()),
                    OnLoss::KeepShort => assert!(bytes.len() < payload.len()),
                    OnLoss::Fill if lost + 1 < packets.len() => {
                        assert_eq!(bytes.len(), payload.len(), "seed {seed}, {lost}: {layout:?}");
                        let differ = bytes.iter().zip(&payload).filter(|(one, other)| one != other).count();
                        assert!(differ <= size, "seed {seed}, {lost}: {layout:?}");
                    }
                    OnLoss::Fill => assert!(bytes.len() >= payload.len()),
                }
                assert_eq!(decoder.losses().lost_packets, 1);
            }
        }
    }
}

#[test]
fn a_fragment_waits_for_earlier_ones_until_sixteen_later_ones_have_come() {
    let mut decoder = datagrams(numbered(), OnLoss::Drop);
    assert_eq!(taken(&mut decoder, &[&[1, 0, 2, b'a']], 1), []);
    let later: Vec<[u8; 4]> = (2..=16).map(|counter| [counter, 0, 1, counter]).collect();
    let later: Vec<&[u8]> = later.iter().map(<[u8; 4]>::as_slice).collect();
    assert_eq!(taken(&mut decoder, &later, 1), []);
    let found = taken(&mut decoder, &[&[17, 0, 1, 17]], 1);
    assert_eq!(found[0], (1, vec![], 1));
    let counters: Vec<u64> = found.iter().map(|(counter, ..)| *counter).collect();
    assert_eq!(counters, (1..=17).collect::<Vec<_>>());
    // What comes too late is known to be.
    assert_eq!(taken(&mut decoder, &[&[1, 1, 2, b'b']], 2), []);
    assert_eq!((decoder.losses().lost_packets, decoder.losses().unused_packets), (1, 1));
}

#[test]
fn a_packet_that_is_thousands_of_fragments_late_loses_none() {
    let (counter, number, count) = (FrameField::new(0, 2), FrameField::new(2, 1), FrameField::new(3, 1));
    let packets = PacketLayout::Numbered { number, first: 0, end: LastPacket::Count(count) };
    let mut layout = FrameLayout::new(4, Extent::Datagram);
    (layout.counter, layout.packets) = (Some(counter), Some(packets));
    let mut decoder = datagrams(layout, OnLoss::Drop);
    let packet = |event: u16, place: u8| [&event.to_be_bytes()[..], &[place, 2, 7]].concat();
    for event in 0..5000 {
        let found = taken(&mut decoder, &[&packet(event, 0), &packet(event, 1)], 1);
        assert_eq!(found.len(), 1);
        let late = packet(event.saturating_sub(4000), 1);
        assert_eq!(taken(&mut decoder, &[&late], 1), [], "event {event}");
    }
    assert_eq!(expired(&mut decoder, 1000), []);
    assert_eq!(decoder.losses(), Losses { unused_packets: 5000, ..Losses::default() });
}

#[test]
fn packets_of_fragments_that_overtake_each_other_come_out_in_order_also_at_a_wrap() {
    let mut decoder = datagrams(numbered(), OnLoss::Drop);
    let all: [&[u8]; 6] =
        [&[0, 0, 2, 3], &[255, 1, 2, 2], &[1, 0, 1, 5], &[255, 0, 2, 1], &[0, 1, 2, 4], &[2, 0, 1, 6]];
    let found = taken(&mut decoder, &all, 1);
    let counters: Vec<u64> = found.iter().map(|(counter, ..)| *counter).collect();
    assert_eq!(counters, [255, 0, 1, 2]);
    assert!(decoder.losses().is_none());
}

#[test]
fn a_board_may_begin_its_counters_again_after_a_tenth_of_a_second() {
    let mut decoder = datagrams(numbered(), OnLoss::Drop);
    let all: [&[u8]; 2] = [&[1, 0, 1, b'a'], &[2, 0, 1, b'b']];
    assert_eq!(taken(&mut decoder, &all, 1).len(), 2);
    assert_eq!(taken(&mut decoder, &all, 50).len(), 0);
    assert_eq!(decoder.losses().unused_packets, 2);
    assert_eq!(taken(&mut decoder, &all, 102).len(), 2);
    // A start of the run allows it at once.
    assert_eq!(taken(&mut decoder, &[&[3, 0, 2, b'x']], 103), []);
    assert_eq!(decoder.begin(), 1);
    assert_eq!(taken(&mut decoder, &all, 104).len(), 2);
}

#[test]
fn what_is_no_packet_is_counted_and_opens_no_fragment() {
    let mut layout = numbered();
    layout.header = 5;
    layout.magic = Some(Mark::new(3, *b"EV"));
    let mut decoder = datagrams(layout, OnLoss::Drop);
    let large = [&[1, 0, 1, b'E', b'V'][..], &[0; 301]].concat();
    let all: [&[u8]; 5] = [b"", &[1, 0], &[1, 0, 1, b'X', b'V', 9], &[1, 3, 2, b'E', b'V', 9], &large];
    assert_eq!(taken(&mut decoder, &all, 1), []);
    let losses = decoder.losses();
    assert_eq!((losses.bad_magics, losses.cut_short, losses.bad_lengths), (1, 2, 2));
    assert_eq!(losses.garbage_bytes, 2 + 6 + 6 + 306);
    assert_eq!(decoder.next_timeout(), None);
    // No fragment has as many packets as the largest number says.
    let mut layout = FrameLayout::new(10, Extent::Datagram);
    let (number, last) = (FrameField::new(1, 8), FrameField::new(9, 1));
    layout.counter = Some(FrameField::new(0, 1));
    layout.packets = Some(PacketLayout::Numbered { number, first: 0, end: LastPacket::Mark(last) });
    let mut large_number = datagrams(layout, OnLoss::Drop);
    assert_eq!(taken(&mut large_number, &[&[255; 11]], 1), []);
    assert_eq!((large_number.losses().bad_lengths, large_number.next_timeout()), (1, None));
    // A packet that contradicts the others of its fragment changes nothing.
    let all: [&[u8]; 3] = [&[1, 0, 2, b'E', b'V', 7], &[1, 1, 3, b'E', b'V', 9], &[1, 1, 2, b'E', b'V', 8]];
    assert_eq!(taken(&mut decoder, &all, 2), [(1, vec![7, 8], 0)]);
    assert_eq!(decoder.losses().bad_lengths, 3);
}

#[test]
fn declared_limits_bound_the_memory_whatever_arrives() {
    let mut decoder = datagrams(numbered(), OnLoss::KeepShort);
    let (mut rng, mut out, mut given) = (Rng::new(1), Vec::new(), 0);
    for _ in 0..20_000 {
        let datagram: Vec<u8> = (0..rng.below(64)).map(|_| rng.below(256) as u8).collect();
        decoder.take(&datagram, at(1), &mut out);
        given += datagram.len();
        for fragment in out.drain(..) {
            assert!(fragment.size() <= LIMIT);
            given -= fragment.payload.len();
        }
        let DatagramContent::Packets(packets) = &decoder.0 else { unreachable!() };
        assert!(packets.held() <= 16 * LIMIT.count() as usize);
    }
    assert!(given > 0);
}

#[test]
fn a_datagram_has_one_frame_or_several() {
    let mut layout = FrameLayout::new(2, Extent::Datagram);
    layout.counter = Some(FrameField::new(0, 2));
    let mut decoder = datagrams(layout, OnLoss::Drop);
    assert_eq!(taken(&mut decoder, &[&[0, 1, 7, 7]], 1), [(1, vec![0, 1, 7, 7], 0)]);
    // A datagram that is shorter than header and trailer has no frame.
    let mut short = FrameLayout::new(2, Extent::Datagram);
    (short.counter, short.trailer, short.keep) = (Some(FrameField::new(0, 2)), 3, Kept::Payload);
    let mut short = datagrams(short, OnLoss::Drop);
    assert_eq!(taken(&mut short, &[&[0, 1, 9, 9], &[0, 2, 8, 9, 9, 9]], 1), [(2, vec![8], 0)]);
    assert_eq!((short.losses().bad_lengths, short.losses().garbage_bytes), (1, 4));
    // A datagram that is no frame does no harm to the next one.
    assert_eq!(taken(&mut decoder, &[&[9]], 1), []);
    assert_eq!(taken(&mut decoder, &[&[0, 2]], 1), [(2, vec![0, 2], 0)]);

    let length = FrameField::new(2, 1);
    let mut layout = FrameLayout::new(3, Extent::Stated { length, unit: 1, counted: LengthCounts::Payload });
    layout.counter = Some(FrameField::new(0, 2));
    let mut decoder = datagrams(layout, OnLoss::Drop);
    let found = taken(&mut decoder, &[&[0, 1, 1, 7, 0, 2, 0], &[0, 3, 2, 1]], 1);
    assert_eq!(found, [(1, vec![0, 1, 1, 7], 0), (2, vec![0, 2, 0], 0)]);
    assert_eq!((decoder.losses().cut_short, decoder.losses().garbage_bytes), (1, 4));
}
