use super::*;

#[test]
fn one_of_a_kind_has_no_s() {
    assert_eq!([0, 1, 2].map(|count| counted(count, "event")), ["0 events", "1 event", "2 events"]);
}

#[test]
fn measured_quantities_have_three_digits() {
    let sizes = [0, 999, 1000, 9_999, 31_249, 999_949, 999_950, 320_000_000, 5_000_000_000_000];
    let words = sizes.map(|bytes| size(Bytes::new(bytes)));
    let expected =
        ["0 B", "999 B", "1.00 kB", "10.0 kB", "31.2 kB", "1.00 MB", "1.00 MB", "320 MB", "5.00 TB"];
    assert_eq!(words, expected);
    assert_eq!(rate(Rate::from_bits_per_second(436_887_200)), "437 Mbit/s");
    let times = [0, 63_400, 999_499, 999_500, 1_599_000, 5_860_000_000, 131_071_000_000];
    let words = times.map(|nanos| time(Duration::from_nanos(nanos)));
    assert_eq!(words, ["0 µs", "63 µs", "999 µs", "1.00 ms", "1.60 ms", "5.86 s", "131 s"]);
}
