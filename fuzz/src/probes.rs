//! Fuzz target for the records that sender and receiver of `evbd probe-buffer` exchange.

use evb_host::probe_buffer::fuzzing::{datagram, record};

/// Decodes the bytes as records, and as the header of a datagram.
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
}

/// Returns the seed corpus: an order, a hello, and the header of a datagram.
pub fn seeds() -> Vec<Vec<u8>> {
    // A record has 256 bytes; blanks follow the JSON.
    let record = |json: &str| format!("{json:<256}").into_bytes();
    vec![
        record(
            r#"{"order":{"burst":1,"ahead":4,"count":100,"start":0,"ahead_spacing":1000000,"phase":5,"spacing":10000}}"#,
        ),
        record(r#""evb_probe_buffer_hello""#),
        vec![1; 24],
    ]
}
