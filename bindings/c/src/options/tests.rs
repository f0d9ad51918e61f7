use super::*;

const NONE: evb_clock =
    evb_clock { rate_hz: 0.0, wrap: 0, tolerance_ns: 0, accuracy_ppm: 0.0, bits: 0, reserved: 0 };

#[test]
fn zero_is_no_clock_and_the_defaults() {
    assert_eq!(NONE.clock().unwrap(), None);
    let given = evb_clock { rate_hz: 125e6, bits: 48, ..NONE };
    let rate = Frequency::from_hertz(125e6).unwrap();
    assert_eq!(given.clock().unwrap(), Some(DetectorClock::new(rate, ClockWrap::Bits(48))));
    let given = evb_clock { rate_hz: 125e6, wrap: 3564, tolerance_ns: 50, accuracy_ppm: -1.0, ..NONE };
    let clock = given.clock().unwrap().unwrap();
    assert_eq!(clock.wrap, ClockWrap::Ticks(3564));
    assert_eq!((clock.tolerance, clock.accuracy), (Duration::from_nanos(50), 0.0));
}

#[test]
fn a_clock_that_cannot_be_is_refused_with_its_field() {
    let fine = evb_clock { rate_hz: 125e6, bits: 48, ..NONE };
    let wrong = [
        (evb_clock { rate_hz: 0.0, ..fine }, "rate_hz"),
        (evb_clock { rate_hz: f64::NAN, ..fine }, "rate_hz"),
        (evb_clock { bits: 0, ..fine }, "neither `bits`"),
        (evb_clock { wrap: 9, ..fine }, "both `bits`"),
        (evb_clock { bits: 300, ..fine }, "1 to 64 bits"),
        (evb_clock { accuracy_ppm: f64::INFINITY, ..fine }, "accuracy"),
        (evb_clock { reserved: 1, ..fine }, "reserved"),
    ];
    for (clock, says) in wrong {
        let failure = clock.clock().expect_err(says);
        assert!(failure.reason.contains(says), "{says} is not in {}", failure.reason);
    }
}
