//! Fuzz target for the fragments that front-end processes send to a source.

use evb::input::fuzzing::front_end;
use evb_core::{fragment::Checksum, units::Bytes};

use crate::script::{Slowly, block_on};

const MAX_FRAGMENT: Bytes = Bytes::new(1000);
/// First bytes of what is no fragment in protocol 2.
const MARK: [u8; 4] = [0xff; 4];

/// Reads fragments from a stream of the bytes; the first byte is the number of bytes that arrive at
/// once.
///
/// # Panics
/// Panics if a received fragment has bytes that were not sent, or is stated to be of a run. (No run
/// has begun here.)
pub fn check(data: &[u8]) {
    let Some((step, bytes)) = data.split_first() else { return };
    let (fragments, ended) = block_on(front_end(Slowly::new(bytes, *step), MAX_FRAGMENT));
    let mut again = Vec::new();
    for fragment in &fragments {
        assert!(fragment.size() <= MAX_FRAGMENT);
        assert_eq!(fragment.checksum, Checksum::of(&fragment.payload));
        again.extend_from_slice(&record(
            fragment.event.number(),
            fragment.timestamp.ticks(),
            &fragment.payload,
        ));
    }
    let sent = Sent::of(bytes);
    assert_eq!(again, sent.unstated);
    match ended {
        Ok(count) => assert!(count == sent.fragments && sent.is_whole),
        Err(reason) => assert!(!reason.is_empty() && !sent.is_whole),
    }
}

/// The fragments in a front end's bytes, up to the first mistake.
#[derive(Default)]
struct Sent {
    /// The bytes of the fragments whose run is not stated.
    unstated: Vec<u8>,
    fragments: u64,
    /// True if the bytes have no mistake.
    is_whole: bool,
}

impl Sent {
    fn of(mut bytes: &[u8]) -> Self {
        let mut sent = Self::default();
        let (mut is_second, mut is_stated) = (false, false);
        if let Some(head) = bytes.first_chunk::<20>()
            && head[..4] == MARK
        {
            let end = 20 + usize::from(head[5]);
            let name = bytes.get(20..end).and_then(|name| core::str::from_utf8(name).ok());
            let is_name = name.is_some_and(|name| name.len() <= 64 && !name.chars().any(char::is_control));
            if head[4] != 2 || !is_name {
                return sent;
            }
            (is_second, bytes) = (true, &bytes[end..]);
        }
        while let Some(head) = bytes.first_chunk::<20>() {
            if is_second && head[..4] == MARK {
                (is_stated, bytes) = (head[4..].iter().any(|byte| *byte != 0), &bytes[20..]);
                continue;
            }
            let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            if length > MAX_FRAGMENT.as_usize() || bytes.len() < 20 + length {
                return sent;
            }
            let (fragment, rest) = bytes.split_at(20 + length);
            if !is_stated {
                sent.unstated.extend_from_slice(fragment);
            }
            (sent.fragments, bytes) = (sent.fragments + 1, rest);
        }
        sent.is_whole = bytes.is_empty();
        sent
    }
}

fn record(event: u64, timestamp: u64, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    [&length.to_le_bytes()[..], &event.to_le_bytes(), &timestamp.to_le_bytes(), payload].concat()
}

/// Returns the seed corpus: three valid fragments that arrive in large or in small pieces, also
/// with protocol 2, a truncated fragment, and a fragment that is a byte too long.
pub fn seeds() -> Vec<Vec<u8>> {
    let whole = [record(1, 10, b"one"), record(3, 30, b""), record(2, 20, &[7; 1000])].concat();
    let preamble = [&MARK[..], &[2, 3, 1], &[0; 13], b"tpc"].concat();
    let states = |run: u8| [&MARK[..], &[run; 16]].concat();
    let second = [&preamble[..], &states(9), &whole, &states(0), &whole].concat();
    let with = |step: u8, bytes: &[u8]| [&[step][..], bytes].concat();
    vec![
        with(255, &whole),
        with(7, &whole),
        with(255, &whole[..30]),
        with(255, &record(1, 0, &[7; 1001])),
        with(255, &second),
        with(3, &second[..60]),
        with(255, &preamble[..21]),
    ]
}
