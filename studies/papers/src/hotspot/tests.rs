use serde_json::json;

use super::*;

#[test]
fn ethernet_carries_a_little_more_than_atm() {
    // Of 1514 bytes on the port, 1448 are payload of TCP.
    let full = full(Transport::Tcp, u64::MAX, shape(8));
    assert!((full - 155.0 * 1448.0 / 1514.0).abs() < 1e-6, "{full}");
    let (eight, six) = (8.0 * ONE_OF_FOUR, 4.0 * ONE_OF_FOUR + 2.0 * ONE_OF_TWO);
    assert!(eight == 3.0 * ATM && six == 3.0 * ATM, "the three ports are full in both cases");
}

#[test]
fn streams_count_for_their_source() {
    let shape = Shape { sources: 2, ..shape(8) };
    assert_eq!(by_source(shape, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), [6.0, 15.0]);
}

#[test]
fn the_furthest_value_decides() {
    assert!((furthest(&[10.0, 9.0, 10.5], 10.0) - 0.1).abs() < 1e-9);
    assert!(furthest(&[], 10.0).is_nan() && furthest(&[10.0, f64::NAN], 10.0).is_nan());
}

#[test]
fn payload_is_divided_as_the_summary_says() {
    let summary = json!({
        "bytes": { "payload": 400 }, "rates": { "payload_bytes_per_s": 1e6 },
        "sources": [{ "payload_bytes": 100 }, { "payload_bytes": 300 }],
    });
    let outcome = Outcome::of_summary(summary);
    assert_eq!(rates(&outcome, "sources"), [2.0, 6.0]);
    assert!(rates(&outcome, "builders").is_empty());
}
