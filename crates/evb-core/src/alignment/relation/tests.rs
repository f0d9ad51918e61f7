//! A relation predicts readings exactly, and says how far they may be off.

use core::time::Duration;

use super::*;
use crate::{
    alignment::{
        clock::{ClockWrap, DetectorClock},
        scale::SECOND,
    },
    units::Frequency,
};

fn scale(hertz: f64, bits: u8) -> Scale {
    let rate = Frequency::from_hertz(hertz).unwrap();
    let clock = DetectorClock {
        tolerance: Duration::from_nanos(50),
        ..DetectorClock::new(rate, ClockWrap::Bits(bits))
    };
    Scale::new(&clock, 100.0)
}

#[test]
fn the_residual_of_a_reading_is_its_distance_from_the_line() {
    let scale = scale(1e8, 32);
    let relation = Relation::anchored(&scale, 1000, 0);
    // One second later, the clock has made 10⁸ ticks of 10 ns.
    assert_eq!(relation.residual(&scale, 100_001_000, SECOND), 0.0);
    assert_eq!(relation.residual(&scale, 100_001_003, SECOND), 30.0 * PER_NANOSECOND);
    assert_eq!(relation.residual(&scale, 900, -64_000), 0.0, "time before the anchor");
}

#[test]
fn the_limit_grows_with_time_up_to_the_accuracy() {
    let scale = scale(1e8, 32);
    let mut relation = Relation::anchored(&scale, 0, 0);
    assert_eq!(relation.limit(&scale, 0), 50.0 * PER_NANOSECOND);
    let second = relation.limit(&scale, SECOND) - relation.limit(&scale, 0);
    assert!((second / SECOND as f64 - 250e-6).abs() < 1e-12, "250 ppm at first");
    relation.set_rate(0.0, 1e-6);
    let second = relation.limit(&scale, SECOND) - relation.limit(&scale, 0);
    assert!((second / SECOND as f64 - 1.3e-6).abs() < 1e-9, "then the bound and the drift");
    let hour = relation.limit(&scale, 3600 * SECOND);
    assert!(hour / (3600.0 * SECOND as f64) < 251e-6, "never more than the accuracy");
}

#[test]
fn a_reading_gives_back_its_time_in_every_wrap() {
    for rate in [0.0, 80e-6] {
        let scale = scale(1e8, 24);
        let mut relation = Relation::anchored(&scale, 77, 0);
        relation.set_rate(rate, 0.0);
        for at in [0, SECOND / 1000, SECOND, 90 * SECOND] {
            let ticks = (at as f64 * (1.0 + rate) / scale.tick).round() as u64 + 77;
            // The host is wrong by 20 ms, less than a quarter of the wrap of 168 ms.
            let (time, rounded) = relation.time(&scale, ticks, at + SECOND / 50);
            assert!((time - at).unsigned_abs() as f64 <= scale.tick, "{time} for {at}");
            assert!(rounded.abs() <= 1.0 + 1e-3, "{rounded}");
        }
    }
}
