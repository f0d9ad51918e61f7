//! The records that the two ends of the daemon's measurements exchange.

use evb_bench::regularity;
use evb_host::probe_buffer::fuzzing::{datagram, record};

/// Reads the bytes as records, as the head of a datagram, and as the label of a message.
///
/// # Panics
/// Panics if something that was decoded is encoded to bytes that cannot be decoded.
pub fn check(data: &[u8]) {
    for bytes in data.as_chunks().0 {
        if let Some(again) = record(bytes) {
            assert_eq!(record(&again), Some(again));
        }
    }
    if let Some(again) = datagram(data) {
        assert_eq!(datagram(&again), Some(again));
    }
    if let Some((_, number)) = regularity::read_label(data) {
        assert_eq!(data[12..16], number.to_le_bytes());
    }
}

/// Returns an order, a hello, the head of a datagram, and a label.
pub fn seeds() -> Vec<Vec<u8>> {
    let words = |words: [u32; 4], longs: [u64; 4]| {
        [words.map(u32::to_le_bytes).concat(), longs.map(u64::to_le_bytes).concat()].concat()
    };
    vec![
        words([5, 1, 4, 100], [0, 1_000_000, 5, 10_000]),
        words([1, 0, 0, 0], [u64::from_le_bytes(*b"EVBPROB1"), 0, 0, 0]),
        vec![1; 24],
        [&b"evbr"[..], &[3; 16]].concat(),
        [&b"rbve"[..], &[3; 16]].concat(),
    ]
}
