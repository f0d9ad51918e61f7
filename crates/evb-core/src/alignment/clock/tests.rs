//! Clocks out of range are refused; the lead is the clock with the longest wrap.

use super::*;

fn clock(hertz: f64, wrap: ClockWrap) -> DetectorClock {
    DetectorClock::new(Frequency::from_hertz(hertz).unwrap(), wrap)
}

#[test]
fn quantities_out_of_range_are_refused() {
    let good = clock(125e6, ClockWrap::Bits(48));
    assert_eq!(good.check(), Ok(()));
    let bad = |clock: DetectorClock| clock.check().unwrap_err();
    assert_eq!(bad(clock(1e13, ClockWrap::Bits(48))), ClockError::Rate);
    for wrap in [ClockWrap::Bits(0), ClockWrap::Bits(65), ClockWrap::Ticks(1), ClockWrap::Ticks(u64::MAX)] {
        assert_eq!(bad(clock(1e8, wrap)), ClockError::Wrap, "{wrap:?}");
    }
    assert_eq!(bad(DetectorClock { tolerance: Duration::ZERO, ..good }), ClockError::Tolerance);
    for accuracy in [-1.0, 2e4, f64::NAN, f64::INFINITY] {
        assert_eq!(bad(DetectorClock { accuracy, ..good }), ClockError::Accuracy, "{accuracy}");
    }
    assert!(ClockError::Wrap.to_string().contains("1 to 64 bits"));
}

#[test]
fn the_longest_wrap_leads_then_the_finest_tick_then_the_first() {
    let short = clock(1e6, ClockWrap::Bits(16));
    let long = clock(1e6, ClockWrap::Bits(48));
    let fine = clock(2e6, ClockWrap::Bits(49));
    assert_eq!(choose_lead(&[]), None);
    assert_eq!(choose_lead(&[short, long, long]), Some(1));
    assert_eq!(choose_lead(&[short, long, fine]), Some(2));
    assert_eq!(clock(40e6, ClockWrap::Ticks(3564)).wrap_seconds(), 3564.0 / 40e6);
}
