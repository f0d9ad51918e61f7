//! Fuzz target for the fragments that front-end processes send to a source.

use evb::input::fuzzing::front_end;
use evb_core::{fragment::Checksum, units::Bytes};

use crate::script::{Slowly, block_on};

const MAX_FRAGMENT: Bytes = Bytes::new(1000);

/// Reads fragments from a stream of the bytes; the first byte is the number of bytes that arrive at
/// once.
///
/// # Panics
/// Panics if a received fragment has bytes that were not sent.
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
    assert!(bytes.starts_with(&again));
    match ended {
        Ok(count) => assert!(count == fragments.len() as u64 && again == bytes),
        Err(reason) => assert!(!reason.is_empty() && again.len() < bytes.len()),
    }
}

fn record(event: u64, timestamp: u64, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    [&length.to_le_bytes()[..], &event.to_le_bytes(), &timestamp.to_le_bytes(), payload].concat()
}

/// Returns the seed corpus: three valid fragments that arrive in large or in small pieces, a
/// truncated fragment, and a fragment that is a byte too long.
pub fn seeds() -> Vec<Vec<u8>> {
    let whole = [record(1, 10, b"one"), record(3, 30, b""), record(2, 20, &[7; 1000])].concat();
    let with = |step: u8, bytes: &[u8]| [&[step][..], bytes].concat();
    vec![with(255, &whole), with(7, &whole), with(255, &whole[..30]), with(255, &record(1, 0, &[7; 1001]))]
}
