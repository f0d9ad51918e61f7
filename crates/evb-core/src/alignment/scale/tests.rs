//! Differences of readings are right for every wrap.

use super::*;
use crate::units::Frequency;

fn scale(wrap: ClockWrap) -> Scale {
    Scale::new(&DetectorClock::new(Frequency::from_hertz(1e8).unwrap(), wrap), 100.0)
}

#[test]
fn readings_wrap_at_powers_of_two_and_at_other_numbers() {
    let wraps = [12, 16, 24, 32, 48, 63].map(ClockWrap::Bits).into_iter();
    for wrap in wraps.chain([ClockWrap::Ticks(3564), ClockWrap::Ticks(1 << 61)]) {
        let scale = scale(wrap);
        let modulus = match wrap {
            ClockWrap::Bits(bits) => 1u64 << bits,
            ClockWrap::Ticks(ticks) => ticks,
        };
        for expected in [0, 1, -1, 5000, -5000, i64::MAX, i64::MIN] {
            for off in [0i64, 1, -1, 700, -700] {
                for earlier in [0, 1, modulus - 1] {
                    let sum = i128::from(earlier) + i128::from(expected) + i128::from(off);
                    let reading = sum.rem_euclid(i128::from(modulus)) as u64;
                    assert_eq!(scale.ahead(reading, earlier, expected), off, "{wrap:?} {expected} {earlier}");
                }
            }
        }
    }
}

#[test]
fn all_64_bits_count() {
    let scale = scale(ClockWrap::Bits(64));
    assert_eq!(scale.ahead(3, u64::MAX - 1, 0), 5);
    assert_eq!(scale.ahead(0, 1 << 62, 0), -(1 << 62));
    assert_eq!(scale.bits(), Some(64));
}

#[test]
fn bits_above_the_clock_are_ignored() {
    assert_eq!(scale(ClockWrap::Bits(16)).ahead(0xffff_0005, 3, 0), 2);
    assert_eq!(scale(ClockWrap::Ticks(3564)).ahead(3564 * 7 + 5, 3, 0), 2);
}
