use evb_core::units::Frequency;

use super::*;

fn clock(hertz: f64, wrap: ClockWrap) -> DetectorClock {
    DetectorClock::new(Frequency::from_hertz(hertz).unwrap(), wrap)
}

fn reading(clock: &BoardClock, event: u64) -> u64 {
    clock.reading(EventId::new(event)).ticks()
}

#[test]
fn times_are_common_and_phases_are_not() {
    let clock = clock(125e6, ClockWrap::Bits(48));
    let (one, other) = (BoardClock::new(&clock, 1), BoardClock::new(&clock, 2));
    assert_ne!(one.phase, other.phase);
    let since_first = |clock: &BoardClock, event| reading(clock, event).wrapping_sub(reading(clock, 1));
    for event in 1..5000 {
        let apart = since_first(&one, event).abs_diff(since_first(&other, event));
        // Both jitters are below 10 ns, and each of four readings loses up to a tick of 8 ns.
        assert!(apart <= 5, "event {event}: {apart} ticks");
    }
}

#[test]
fn events_are_a_millisecond_apart_on_average_and_not_periodic() {
    let clock = BoardClock::new(&clock(1e9, ClockWrap::Bits(64)), 3);
    let times: Vec<u64> = (1..=100_001).map(|event| reading(&clock, event)).collect();
    let intervals: Vec<u64> = times.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    assert!(intervals.iter().all(|interval| (499_000..1_501_000).contains(interval)));
    let mean = times[100_000].wrapping_sub(times[0]) / 100_000;
    assert!(mean.abs_diff(1_000_000) < 10, "{mean}");
    let far = intervals.iter().filter(|interval| interval.abs_diff(1_000_000) > 100_000).count();
    assert!(far > 50_000, "{far} of 100000 intervals");
}

#[test]
fn readings_stay_exact_and_below_the_wrap() {
    let orbit = BoardClock::new(&clock(40.079e6, ClockWrap::Ticks(3564)), 1);
    assert!((1..10_000).all(|event| reading(&orbit, event) < 3564));
    // After 10^12 ms, the product of time and rate has 57 bits, more than a double.
    let (mut exact, event) = (BoardClock::new(&clock(125e6, ClockWrap::Bits(64)), 1), 1_000_000_000_000);
    (exact.phase, exact.jitter) = (0, 0);
    let late = Rng::new(event).below(INTERVAL / 2);
    assert_eq!(reading(&exact, event), event * 125_000 + late / 8);
}

#[test]
fn any_clock_and_event_has_a_reading() {
    for wrap in [ClockWrap::Bits(0), ClockWrap::Bits(255), ClockWrap::Ticks(0), ClockWrap::Ticks(u64::MAX)] {
        for hertz in [1e-12, 1e300] {
            let mut clock = clock(hertz, wrap);
            clock.tolerance = Duration::MAX;
            reading(&BoardClock::new(&clock, u64::MAX), u64::MAX);
        }
    }
}
