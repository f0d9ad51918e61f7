//! Fuzz target for the texts of quantities in configurations, such as `10 Gbit/s`.

use evb_core::{
    id::EventId,
    units::{Bytes, Frequency, Rate, parse_duration},
};

/// Parses the bytes as each type of quantity. Parsing the displayed text of a quantity must give
/// about the same value.
///
/// # Panics
/// Panics if the displayed text cannot be parsed, or gives another value.
pub fn check(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Ok(size) = text.parse::<Bytes>() {
        let again = size.to_string().parse::<Bytes>();
        assert!(again.is_ok_and(|again| near(size.count() as f64, again.count() as f64)), "{size}");
    }
    if let Ok(rate) = text.parse::<Rate>() {
        assert!(rate.bits_per_second() > 0);
        let again = rate.to_string().parse::<Rate>();
        let bits = |rate: Rate| rate.bits_per_second() as f64;
        assert!(again.is_ok_and(|again| near(bits(rate), bits(again))), "{rate}");
    }
    if let Ok(frequency) = text.parse::<Frequency>() {
        assert!(
            frequency.hertz() > 0.0 && frequency.hertz().is_finite() && !frequency.to_string().is_empty()
        );
    }
    match parse_duration(text) {
        Ok(duration) => assert!(duration.as_nanos() <= u64::MAX.into()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(event) = text.parse::<EventId>() {
        assert_eq!(event.to_string().parse(), Ok(event));
    }
}

/// Returns true if two numbers differ by no more than the rounding in a displayed text, which has
/// at least three digits.
fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 0.005 * one.max(other) + 0.5
}

/// Returns the seed corpus: texts of each type of quantity, and invalid texts.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "128 KiB",
        "1.5 MB",
        "0 B",
        "18446744073709551615 B",
        "1 Gbit/s",
        "937.5 Mbit/s",
        "12.5 GB/s",
        "1 kHz",
        "0.5 Hz",
        "50 ms",
        "2 s",
        "1.5 µs",
        "3 h",
        "1e3 B",
        "-1 B",
        "inf s",
        "12",
        "1 parsec",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
