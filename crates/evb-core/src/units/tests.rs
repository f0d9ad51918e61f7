use core::time::Duration;

use proptest::prelude::*;

use super::{Bytes, Frequency, Rate, UnitError, parse_duration};

#[test]
fn reads_what_people_write() {
    assert_eq!("128 KiB".parse(), Ok(Bytes::kib(128)));
    assert_eq!("1kB".parse(), Ok(Bytes::new(1000)));
    assert_eq!("1.5 MB".parse(), Ok(Bytes::new(1_500_000)));
    assert_eq!("1 Gbit/s".parse(), Ok(Rate::from_bits_per_second(1_000_000_000)));
    assert_eq!("600 MB/s".parse(), Ok(Rate::from_bytes_per_second(600_000_000)));
    assert_eq!("2 kHz".parse::<Frequency>().map(Frequency::hertz), Ok(2000.0));
    assert_eq!("1.25 GHz".parse::<Frequency>().map(Frequency::hertz), Ok(1.25e9));
    assert_eq!(parse_duration("50 ms"), Ok(Duration::from_millis(50)));
    assert_eq!(parse_duration("1_000 us"), Ok(Duration::from_millis(1)));
}

#[test]
fn frequencies_have_the_largest_unit_that_leaves_one_or_more() {
    for (hertz, text) in [(0.5, "0.5 Hz"), (999e6, "999 MHz"), (1e9, "1 GHz"), (1.25e9, "1.25 GHz")] {
        assert_eq!(Frequency::from_hertz(hertz).map(|rate| rate.to_string()).as_deref(), Some(text));
        assert_eq!(text.parse::<Frequency>().map(Frequency::hertz), Ok(hertz));
    }
}

#[test]
fn refuses_bare_numbers_and_foreign_units() {
    assert!(matches!("1000".parse::<Bytes>(), Err(UnitError::Bare { .. })));
    assert!(matches!("1 Gbit".parse::<Rate>(), Err(UnitError::UnknownUnit { .. })));
    assert!(matches!("-1 s".parse::<Bytes>(), Err(UnitError::UnknownUnit { .. })));
    assert!(matches!(parse_duration("-1 s"), Err(UnitError::NotANumber { .. })));
    assert!(matches!("0 Hz".parse::<Frequency>(), Err(UnitError::NotANumber { .. })));
    assert!(matches!("fast".parse::<Rate>(), Err(UnitError::NotANumber { .. })));
    for part in ["0.3 B", "1.5 B", "1000.5B", "0.0001 kB"] {
        assert!(matches!(part.parse::<Bytes>(), Err(UnitError::NotANumber { .. })), "{part}");
    }
    for (text, bytes) in [("0.1 MiB", 104_858), ("0.9 KiB", 922), ("0.0015 kB", 2), ("2.0 B", 2)] {
        assert_eq!(text.parse(), Ok(Bytes::new(bytes)), "{text}");
    }
    assert!(matches!("99999999 TiB".parse::<Bytes>(), Err(UnitError::NotANumber { .. })));
}

#[test]
fn bytes_over_rate_is_time() {
    let gigabit = Rate::from_bits_per_second(1_000_000_000);
    assert_eq!(Bytes::new(1538) / gigabit, Duration::from_nanos(12_304));
    assert_eq!(gigabit * Duration::from_micros(100), Bytes::new(12_500));
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(bytes in 0u64..10_000) {
        prop_assert_eq!(Bytes::new(bytes).to_string().parse(), Ok(Bytes::new(bytes)));
    }

    #[test]
    fn no_text_panics(text in ".*") {
        let _ = text.parse::<Bytes>();
        let _ = text.parse::<Rate>();
        let _ = text.parse::<Frequency>();
        let _ = parse_duration(&text);
    }
}
