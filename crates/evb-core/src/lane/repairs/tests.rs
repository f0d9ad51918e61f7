use core::time::Duration;

use super::*;

fn at(micros: u64) -> Instant {
    Instant::from_nanos(0) + Duration::from_micros(micros)
}

#[test]
fn each_segment_that_repairs_counts_once() {
    let mut repairs = Repairs::default();
    repairs.begin(100..400, at(10));
    repairs.begin(600..700, at(20));
    // The segments come from the middle, the end and the front of a lost range, and some include
    // bytes that were not lost.
    repairs.handle_arrival(&(200..300), true, at(15));
    repairs.handle_arrival(&(300..600), true, at(17));
    repairs.handle_arrival(&(0..200), true, at(19));
    assert_eq!(repairs.times().pairs(), [5, 1, 7, 1, 9, 1]);
    repairs.handle_arrival(&(100..600), true, at(25));
    repairs.handle_arrival(&(600..700), true, at(40));
    repairs.handle_arrival(&(600..700), true, at(50));
    assert_eq!(repairs.times().pairs(), [5, 1, 7, 1, 9, 1, 20, 1]);
}

#[test]
fn what_was_not_lost_is_not_repaired() {
    let mut repairs = Repairs::default();
    repairs.begin(100..200, at(10));
    repairs.handle_arrival(&(100..200), false, at(15));
    repairs.handle_arrival(&(100..200), true, at(20));
    assert_eq!(repairs.times().pairs(), Vec::<u64>::new());
}

#[test]
fn a_segment_that_repairs_two_losses_took_the_longer_time() {
    let mut repairs = Repairs::default();
    repairs.begin(100..200, at(10));
    repairs.begin(200..300, at(30));
    repairs.handle_arrival(&(100..300), true, at(40));
    assert_eq!(repairs.times().pairs(), [30, 1]);
}

#[test]
fn more_losses_than_are_followed_cost_no_memory() {
    let mut repairs = Repairs::default();
    for offset in 0..2 * FOLLOWED as u64 {
        repairs.begin(offset * 10..offset * 10 + 5, at(0));
    }
    assert_eq!(repairs.waiting.len(), FOLLOWED);
}
