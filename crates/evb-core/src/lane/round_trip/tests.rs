use super::*;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn before_any_measurement_it_waits_long_enough_for_a_slow_port() {
    assert_eq!(RoundTrip::new(None).timeout(0), RoundTrip::INITIAL);
    assert_eq!(RoundTrip::new(Some(millis(198))).timeout(0), millis(594));
}

#[test]
fn it_follows_the_measurements_and_never_falls_below_the_floor() {
    let mut round_trip = RoundTrip::new(None);
    round_trip.sample(millis(40));
    assert_eq!(round_trip.timeout(0), millis(120), "RFC 6298 (2.2): R + 4 R/2");
    for _ in 0..200 {
        round_trip.sample(Duration::from_micros(100));
    }
    assert_eq!(round_trip.timeout(0), RoundTrip::FLOOR);
    assert_eq!(round_trip.least(), Duration::from_micros(100));
}

#[test]
fn failures_double_it_up_to_the_ceiling() {
    let mut round_trip = RoundTrip::new(None);
    round_trip.sample(Duration::from_micros(500));
    assert_eq!(round_trip.timeout(3), millis(16));
    assert_eq!(round_trip.timeout(40), RoundTrip::CEILING);
}

#[test]
fn a_port_that_may_be_full_is_waited_for() {
    let mut round_trip = RoundTrip::new(None);
    round_trip.sample(Duration::from_micros(500));
    round_trip.expect_queue(millis(52));
    assert_eq!(round_trip.timeout(0), RoundTrip::FLOOR + millis(52));
    assert_eq!(round_trip.timeout(5), millis(64), "a longer timer does not change");
}

#[test]
fn a_queue_comes_on_top_of_a_long_path() {
    let mut round_trip = RoundTrip::new(None);
    (0..50).for_each(|_| round_trip.sample(millis(10)));
    round_trip.expect_queue(millis(5));
    assert_eq!(round_trip.timeout(0), millis(15));
}
