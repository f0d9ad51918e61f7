//! Fuzz target for the frames that boards send, in layouts that the input chooses.

use evb::input::{
    ByteOrder, Extent, FrameField, FrameLayout, Framing, Kept, LengthCounts, Mark, fuzzing::stream_frames,
};
use evb_core::{fragment::Checksum, units::Bytes};

use crate::script::{Slowly, block_on};

const MAX_FRAGMENT: Bytes = Bytes::new(1000);
/// Number of bytes of the input that choose the layout.
pub(crate) const LAYOUT: usize = 8;

/// Returns the layout that some bytes choose.
pub(crate) fn layout(bytes: &[u8; LAYOUT]) -> FrameLayout {
    let [kind, magic, place, length, counter, trailer, end, keep] = *bytes;
    let order = if kind & 0x80 == 0 { ByteOrder::Big } else { ByteOrder::Little };
    let field = |byte: u8| FrameField { order, ..FrameField::new(u32::from(byte >> 4), 1 + (byte & 7)) };
    let extent = match kind & 7 {
        0 => Extent::Fixed(u32::from(length)),
        1 => Extent::Delimited(vec![length, 10]),
        2 => Extent::Delimited(vec![length]),
        _ => {
            let counted = [LengthCounts::Payload, LengthCounts::Frame, LengthCounts::Rest]
                [usize::from(kind >> 3 & 3).min(2)];
            Extent::Stated { length: field(length), unit: 1 + u32::from(kind >> 5 & 3), counted }
        }
    };
    let mut layout = FrameLayout::new(u32::from(place >> 2), extent);
    layout.magic = (magic != 0).then(|| Mark::new(u32::from(place & 3), vec![magic]));
    layout.counter = (counter != 0).then(|| field(counter));
    layout.trailer = u32::from(trailer & 7);
    layout.end = vec![end; usize::from(trailer >> 6)];
    layout.align = 1 + u32::from(trailer >> 3 & 7);
    layout.keep = if keep & 1 == 0 { Kept::Frame } else { Kept::Payload };
    layout.resync = Bytes::new(u64::from(keep) * 8);
    layout
}

/// Decodes a stream of the bytes; the first bytes choose the layout, and the number of bytes that
/// arrive at once.
///
/// # Panics
/// Panics if a fragment is too large, has bytes that were not sent in this order, or if frames and
/// skipped bytes are more than what was sent.
pub fn check(data: &[u8]) {
    let Some((chosen, rest)) = data.split_first_chunk::<LAYOUT>() else { return };
    let Some((step, bytes)) = rest.split_first() else { return };
    let Ok(framing) = Framing::new(layout(chosen), MAX_FRAGMENT) else { return };
    let (fragments, losses, ended) = block_on(stream_frames(Slowly::new(bytes, *step), framing));
    let (mut used, mut rest) = (0, bytes);
    for fragment in &fragments {
        assert!(fragment.size() <= MAX_FRAGMENT);
        assert_eq!(fragment.checksum, Checksum::of(&fragment.payload));
        let payload = &fragment.payload[..];
        used += payload.len() as u64;
        let place =
            (0..=rest.len().saturating_sub(payload.len())).find(|at| rest[*at..].starts_with(payload));
        let place = place.expect("the bytes were sent behind those of the last fragment");
        rest = &rest[place + payload.len()..];
    }
    assert!(used + losses <= bytes.len() as u64);
    assert_eq!(ended.is_err(), ended.is_err_and(|reason| !reason.is_empty()));
}

/// Returns the seed corpus: frames of a usual layout, whole, split, with garbage, and delimited
/// ones.
pub fn seeds() -> Vec<Vec<u8>> {
    let frame =
        |counter: u8, payload: &[u8]| [&[0xeb, payload.len() as u8, 0, counter][..], payload].concat();
    let usual = [3, 0xeb, 4 << 2, 0x10, 0x21, 0, 0, 16];
    let whole = [frame(1, b"one"), frame(2, b""), frame(3, &[7; 200])].concat();
    let garbage =
        [b"noise".to_vec(), frame(1, b"one"), frame(2, b"cut")[..5].to_vec(), frame(3, b"three")].concat();
    let with = |layout: [u8; LAYOUT], step: u8, bytes: &[u8]| [&layout[..], &[step], bytes].concat();
    vec![
        with(usual, 255, &whole),
        with(usual, 7, &whole),
        with(usual, 255, &garbage),
        with([1, 0, 0, 13, 0, 0, 0, 255], 5, b"line\r\nanother\r\n\r\n"),
        with([0, 0, 4, 16, 0, 0x49, 0x55, 1], 255, &[0x55; 100]),
    ]
}
