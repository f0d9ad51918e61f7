//! Fuzz target for the records that sender and receiver exchange in evbd's network measurements.

use evb_bench::regularity;
use evb_host::probe_buffer::fuzzing::{datagram, record};

/// Decodes the bytes as records, as the header of a datagram, and as the label of a message.
///
/// # Panics
/// Panics if a decoded value changes when it is encoded and decoded again.
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

/// Returns the seed corpus: an order, a hello, the header of a datagram, and labels of messages.
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
