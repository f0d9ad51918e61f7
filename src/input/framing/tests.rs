pub(in crate::input) mod layouts;

use evb_core::framing::LengthCounts;

use super::*;

const LIMIT: Bytes = Bytes::new(300);

/// A layout like that of many boards: magic, length of the payload, counter, clock.
fn usual() -> FrameLayout {
    let length = FrameField::new(2, 2);
    let mut layout = FrameLayout::new(12, Extent::Stated { length, unit: 1, counted: LengthCounts::Payload });
    layout.magic = Some(Mark::new(0, [0xeb, 0x90]));
    layout.counter = Some(FrameField::new(4, 2));
    layout.clock = Some(FrameField::new(6, 6));
    layout.resync = Bytes::new(1000);
    layout
}

fn frame(counter: u16, payload: &[u8]) -> Vec<u8> {
    let clock = &(u64::from(counter) * 1000).to_be_bytes()[2..];
    let length = payload.len() as u16;
    [&[0xeb, 0x90][..], &length.to_be_bytes(), &counter.to_be_bytes(), clock, payload].concat()
}

/// Decodes a stream that arrives in pieces of `step` bytes. Returns the fragments, and true if the
/// decoder was lost.
fn decode(framing: &mut Framing, stream: &[u8], step: usize) -> (Vec<Fragment>, bool) {
    let (mut found, mut bytes, mut rest) = (Vec::new(), BytesMut::new(), stream);
    let mut follows = Follows::Bytes;
    loop {
        match framing.decode(&mut bytes, follows) {
            Decoded::Fragment(fragment) => found.push(fragment),
            Decoded::Skipped => {}
            Decoded::Lost => return (found, true),
            Decoded::Needs(needs) | Decoded::Holds(needs) => {
                assert!(needs > bytes.len(), "it would wait for ever");
                assert!(needs <= framing.largest(), "{needs}");
                if follows == Follows::End {
                    assert!(bytes.is_empty());
                    return (found, false);
                }
                let piece = rest.split_off(..step.min(rest.len())).unwrap();
                bytes.extend_from_slice(piece);
                follows = if piece.is_empty() { Follows::End } else { Follows::Bytes };
            }
        }
    }
}

fn counters(found: &[Fragment]) -> Vec<u64> {
    found.iter().map(|fragment| fragment.event.number()).collect()
}

fn framing(layout: FrameLayout) -> Framing {
    Framing::new(layout, LIMIT).unwrap()
}

#[test]
fn frames_are_decoded_however_the_stream_is_split() {
    let stream = [frame(7, b"one"), frame(8, b""), frame(9, &[3; 200])].concat();
    for step in 1..=stream.len() {
        let (found, is_lost) = decode(&mut framing(usual()), &stream, step);
        assert!(!is_lost);
        assert_eq!(counters(&found), [7, 8, 9]);
        assert_eq!(found[0].timestamp, Timestamp::new(7000));
        assert_eq!(found.iter().flat_map(|fragment| fragment.payload.to_vec()).collect::<Vec<_>>(), stream);
    }
    let layout = FrameLayout { keep: Kept::Payload, ..usual() };
    let (found, _) = decode(&mut framing(layout), &stream, stream.len());
    assert_eq!(
        (&found[0].payload[..], found[1].payload.len(), found[2].payload.len()),
        (&b"one"[..], 0, 200)
    );
}

/// Pieces in which bytes arrive, the events whose frames are found, and what is lost.
type Case<'a> = (Vec<Vec<u8>>, &'a [u64], Losses);

/// Garbage before, between and behind frames; half a frame; a wrong length. No fragment has a
/// foreign byte, and each byte is in a fragment or counted.
#[test]
fn what_is_no_frame_is_skipped_and_counted() {
    let whole = |counter: u16| frame(counter, &[counter as u8; 50]);
    let half = |counter: u16| whole(counter)[..30].to_vec();
    let mut wrong = whole(5);
    wrong[2] = 0xff;
    let none = Losses::default();
    let cases: [Case<'_>; 6] = [
        (vec![b"noise".to_vec(), whole(1), whole(2)], &[1, 2], Losses { bad_magics: 1, ..none }),
        (vec![whole(1), half(2), whole(3), whole(4)], &[1, 3, 4], Losses { cut_short: 1, ..none }),
        (vec![whole(1), half(2), whole(3)], &[1, 3], Losses { cut_short: 1, ..none }),
        (vec![whole(4), wrong, whole(6), whole(7)], &[4, 6, 7], Losses { bad_lengths: 1, ..none }),
        (vec![whole(1), half(2)], &[1], Losses { cut_short: 1, ..none }),
        (vec![half(1), half(2), half(3), whole(4)], &[4], Losses { cut_short: 1, ..none }),
    ];
    for (pieces, expected, losses) in cases {
        let stream = pieces.concat();
        for step in 1..=stream.len() {
            let mut framing = framing(usual());
            let (found, is_lost) = decode(&mut framing, &stream, step);
            assert!(!is_lost);
            assert_eq!(counters(&found), expected, "in steps of {step}");
            for fragment in &found {
                assert_eq!(fragment.payload, whole(fragment.event.number() as u16));
            }
            let used: usize = found.iter().map(|fragment| fragment.payload.len()).sum();
            let garbage_bytes = (stream.len() - used) as u64;
            assert_eq!(
                framing.losses(),
                Losses { garbage_bytes, resyncs: 1, ..losses },
                "in steps of {step}"
            );
        }
    }
}

#[test]
fn a_frame_whose_end_is_declared_waits_for_nothing() {
    let mut layout = usual();
    (layout.trailer, layout.end) = (3, vec![0x55, 0xaa]);
    let mut framing = framing(layout);
    let whole = |counter| [frame(counter, b"data"), vec![0, 0x55, 0xaa]].concat();
    let mut bytes = BytesMut::from(&whole(1)[..]);
    assert!(matches!(framing.decode(&mut bytes, Follows::Bytes), Decoded::Fragment(_)));
    let stream = [whole(2), frame(3, b"data"), whole(4)].concat();
    assert_eq!(counters(&decode(&mut framing, &stream, 7).0), [2, 4]);
}

#[test]
fn a_frame_of_which_only_the_next_bytes_can_tell_is_held_until_they_come_or_a_pause() {
    let mut framing = framing(usual());
    let mut bytes = BytesMut::from(&frame(1, b"data")[..]);
    assert_eq!(framing.decode(&mut bytes, Follows::Bytes), Decoded::Holds(18));
    let Decoded::Fragment(first) = framing.decode(&mut bytes, Follows::Pause) else { panic!("held") };
    assert_eq!((first.event.number(), bytes.len()), (1, 0));
}

#[test]
fn the_search_for_a_frame_is_bounded() {
    let mut lost = framing(usual());
    assert!(decode(&mut lost, &[7; 2000], 100).1);
    assert!(lost.losses().garbage_bytes <= 1100);
    // Without anything to look for, it is not begun.
    let layout = FrameLayout { magic: None, ..usual() };
    let mut stream = frame(1, b"data");
    stream.extend([0xff; 20]);
    let mut framing = framing(layout);
    let (found, is_lost) = decode(&mut framing, &stream, 100);
    assert!(is_lost);
    assert_eq!(counters(&found), [1]);
}

#[test]
fn delimited_frames_are_found_behind_one_that_is_too_long() {
    let layout = FrameLayout::new(0, Extent::Delimited(b"\r\n".to_vec()));
    let long = vec![b'x'; 400];
    let stream = [b"one\r\n", &long[..], b"\r\ntwo\r\n\r\nthree"].concat();
    for step in 1..=stream.len() {
        let mut framing = framing(layout.clone());
        let (found, is_lost) = decode(&mut framing, &stream, step);
        let lines: Vec<_> = found.iter().map(|fragment| &fragment.payload[..]).collect();
        assert_eq!(
            (lines, is_lost),
            (vec![&b"one\r\n"[..], b"two\r\n", b"\r\n"], false),
            "in steps of {step}"
        );
        assert_eq!(counters(&found), [0, 1, 2], "frames without a counter are numbered");
        let losses = framing.losses();
        assert_eq!((losses.garbage_bytes, losses.resyncs), (402 + 5, 2));
    }
}

/// No statement of a board is believed: memory is bounded by the largest fragment.
#[test]
fn no_length_is_trusted() {
    let mut layout = usual();
    layout.header = 16;
    layout.extent = Extent::Stated { length: FrameField::new(8, 8), unit: 8, counted: LengthCounts::Payload };
    (layout.counter, layout.clock) = (None, None);
    let mut framing = framing(layout);
    for length in [0xff_u8, 0x80, 0x20, 0x10] {
        let mut bytes = BytesMut::from(&[0xeb, 0x90, 0, 0, 0, 0, 0, 0, length, 0, 0, 0, 0, 0, 0, 0][..]);
        assert_eq!(framing.decode(&mut bytes, Follows::Bytes), Decoded::Skipped);
    }
}
