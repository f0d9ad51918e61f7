//! Random layouts: an encoder that follows the declaration, and the decoder, agree.

use evb_core::{
    framing::{ByteOrder, LengthCounts},
    rng::Rng,
};

use super::*;

/// A frame to encode.
struct Content {
    counter: u64,
    clock: u64,
    payload: Vec<u8>,
}

pub(in crate::input) fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len() as u64) as usize]
}

pub(in crate::input) fn field(rng: &mut Rng, at: &mut u32, least: u8) -> FrameField {
    *at += rng.below(3) as u32;
    let bytes = least.max(1 + rng.below(8) as u8);
    let mut field = FrameField::new(*at, bytes);
    field.order = one_of(rng, &[ByteOrder::Big, ByteOrder::Little]);
    if rng.below(2) == 0 {
        field.low = rng.below(u64::from(field.high) + 1 - u64::from(least) * 8 + 1) as u8;
        field.low = field.low.min(field.high + 1 - least * 8);
        field.high -= rng.below(u64::from(field.high - field.low + 2 - least * 8)) as u8;
    }
    *at += u32::from(bytes);
    field
}

/// Returns any layout that can be.
fn layout(rng: &mut Rng) -> FrameLayout {
    let mut at = 0;
    let mut layout = FrameLayout::new(0, Extent::Fixed(rng.below(100) as u32 + 1));
    if rng.below(4) > 0 {
        let value: Vec<u8> = (0..1 + rng.below(4)).map(|_| 0xe0 | rng.below(16) as u8).collect();
        at = rng.below(3) as u32;
        layout.magic = Some(Mark::new(at, value));
        at = layout.magic.as_ref().map_or(0, Mark::end) as u32;
    }
    match rng.below(4) {
        0 => {}
        1 => layout.extent = Extent::Delimited(vec![0xfd, 0xfe]),
        _ => {
            let counted = one_of(rng, &[LengthCounts::Payload, LengthCounts::Frame, LengthCounts::Rest]);
            let unit = one_of(rng, &[1, 1, 2, 4]);
            layout.extent = Extent::Stated { length: field(rng, &mut at, 1), unit, counted };
        }
    }
    layout.counter = (rng.below(3) > 0).then(|| field(rng, &mut at, 1));
    layout.clock = (rng.below(2) > 0).then(|| field(rng, &mut at, 1));
    layout.header = at + rng.below(4) as u32;
    if !matches!(layout.extent, Extent::Delimited(_)) {
        layout.trailer = rng.below(5) as u32;
        layout.end =
            (0..rng.below(u64::from(layout.trailer) + 1)).map(|_| 0xc0 | rng.below(16) as u8).collect();
        layout.align = one_of(rng, &[1, 1, 2, 4, 8]);
    }
    layout.keep = one_of(rng, &[Kept::Frame, Kept::Payload]);
    layout
}

/// Writes a number into the header, bit by bit.
pub(in crate::input) fn write(header: &mut [u8], field: &FrameField, number: u64) {
    for bit in 0..=field.high - field.low {
        let place = usize::from(field.low + bit);
        let byte = match field.order {
            ByteOrder::Big => usize::from(field.bytes) - 1 - place / 8,
            ByteOrder::Little => place / 8,
        };
        header[field.at as usize + byte] |= ((number >> bit & 1) as u8) << (place % 8);
    }
}

/// Returns any content that the layout can carry. Bytes of payloads are below 128, so that no mark
/// is in them.
fn content(rng: &mut Rng, layout: &FrameLayout, number: u64) -> Content {
    let mut length = rng.below(60) as u32;
    if let Extent::Fixed(fixed) = layout.extent {
        length = fixed;
    }
    if let Extent::Stated { length: field, unit, counted } = &layout.extent {
        let counted_beside = match counted {
            LengthCounts::Payload | LengthCounts::Tail => 0,
            LengthCounts::Frame => layout.header + layout.trailer,
            LengthCounts::Rest => layout.header + layout.trailer - field.end() as u32,
        };
        let whole = (counted_beside + length).next_multiple_of(*unit);
        length = whole - counted_beside;
        assert!(u128::from(whole / unit) < 1 << field.width());
    }
    let mask =
        |field: &Option<FrameField>| field.map_or(0, |field| u64::MAX >> (64 - u32::from(field.width())));
    Content {
        counter: if layout.counter.is_some() { rng.next_u64() & mask(&layout.counter) } else { number },
        clock: rng.next_u64() & mask(&layout.clock),
        payload: (0..length).map(|_| rng.below(128) as u8).collect(),
    }
}

fn encode(layout: &FrameLayout, content: &Content) -> (Vec<u8>, usize) {
    let mut frame = vec![0; layout.header as usize];
    if let Some(magic) = &layout.magic {
        frame[magic.at as usize..magic.end()].copy_from_slice(&magic.value);
    }
    for (field, number) in [(&layout.counter, content.counter), (&layout.clock, content.clock)] {
        field.iter().for_each(|field| write(&mut frame, field, number));
    }
    frame.extend(&content.payload);
    if let Extent::Delimited(delimiter) = &layout.extent {
        frame.extend(delimiter);
    }
    let (payload, trailer) = (frame.len() - layout.header as usize, layout.trailer as usize);
    frame.resize(frame.len() + trailer - layout.end.len(), 0);
    frame.extend(&layout.end);
    if let Extent::Stated { length, unit, counted } = &layout.extent {
        let stated = match counted {
            LengthCounts::Payload | LengthCounts::Tail => payload,
            LengthCounts::Frame => frame.len(),
            LengthCounts::Rest => frame.len() - length.end(),
        };
        write(&mut frame, length, stated as u64 / u64::from(*unit));
    }
    let length = frame.len();
    frame.resize(length.next_multiple_of(layout.align as usize), 0);
    (frame, length)
}

#[test]
fn an_encoder_written_from_the_declaration_agrees_with_the_decoder() {
    let (mut marked, mut delimited) = (0, 0);
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let layout = layout(&mut rng);
        assert_eq!(layout.check(), Ok(()), "seed {seed}");
        marked += usize::from(layout.magic.is_some());
        delimited += usize::from(matches!(layout.extent, Extent::Delimited(_)));
        let contents: Vec<_> = (0..5).map(|number| content(&mut rng, &layout, number)).collect();
        let frames: Vec<_> = contents.iter().map(|content| encode(&layout, content)).collect();
        let stream: Vec<u8> = frames.iter().flat_map(|(frame, _)| frame.clone()).collect();
        // In pieces of every size, so that the stream is split at every byte.
        for step in 1..=stream.len() {
            let mut framing = Framing::new(layout.clone(), Bytes::new(4096)).unwrap();
            let (found, is_lost) = decode(&mut framing, &stream, step);
            assert!(!is_lost && framing.losses().is_none(), "seed {seed}, steps of {step}: {layout:?}");
            assert_eq!(found.len(), contents.len(), "seed {seed}, steps of {step}: {layout:?}");
            for ((fragment, content), (frame, length)) in found.iter().zip(&contents).zip(&frames) {
                let kept = match layout.keep {
                    Kept::Frame => &frame[..*length],
                    Kept::Payload => &frame[layout.header as usize..*length - layout.trailer as usize],
                };
                let read = (fragment.event.number(), fragment.timestamp.ticks(), &fragment.payload[..]);
                assert_eq!(read, (content.counter, content.clock, kept), "seed {seed}: {layout:?}");
            }
        }
    }
    assert!(marked > 50 && delimited > 20, "{marked} with magic, {delimited} with a delimiter");
}
