use core::time::Duration;

use super::{AssignmentPolicy, Slots};
use crate::time::Instant;

fn slots(policy: AssignmentPolicy, run_length: u32, free: &[u32]) -> Slots {
    let mut slots = Slots::new(free.len(), policy, run_length);
    for (builder, free) in free.iter().enumerate() {
        slots.set(builder as u16, *free, Instant::ZERO);
    }
    slots
}

fn drain(slots: &mut Slots) -> Vec<u16> {
    core::iter::from_fn(|| slots.take(Instant::ZERO)).collect()
}

#[test]
fn round_robin_skips_the_busy() {
    assert_eq!(drain(&mut slots(AssignmentPolicy::RoundRobin, 1, &[2, 1, 0, 3])), [0, 1, 3, 0, 3, 3]);
}

#[test]
fn least_loaded_evens_out() {
    assert_eq!(drain(&mut slots(AssignmentPolicy::LeastLoaded, 1, &[1, 3, 2])), [1, 2, 1, 2, 0, 1]);
}

#[test]
fn runs_stay_together_while_there_is_room() {
    assert_eq!(drain(&mut slots(AssignmentPolicy::RoundRobin, 3, &[4, 2, 3])), [0, 0, 0, 1, 1, 2, 2, 2, 0]);
}

#[test]
fn slots_in_batches_become_free_builder_by_builder() {
    let mut slots = slots(AssignmentPolicy::RoundRobin, 1, &[3, 3]).in_batches(3);
    assert_eq!(drain(&mut slots), [0, 1, 0, 1, 0, 1]);
    for builder in [0, 1, 0, 1] {
        slots.give(builder, Instant::ZERO);
    }
    assert_eq!((slots.total(), slots.take(Instant::ZERO)), (0, None));
    slots.give(1, Instant::ZERO);
    assert_eq!(drain(&mut slots), [1, 1, 1]);
    // What a builder has is told anew, and what it gave back before is part of it.
    slots.set(0, 2, Instant::ZERO);
    slots.give(0, Instant::ZERO);
    assert_eq!(drain(&mut slots), [0, 0]);
}

#[test]
fn busy_time_is_that_without_any_slot() {
    let at = Instant::from_nanos;
    let mut slots = Slots::new(2, AssignmentPolicy::RoundRobin, 1);
    slots.set(0, 1, at(0));
    slots.set(1, 1, at(0));
    slots.take(at(10));
    slots.take(at(30));
    slots.give(1, at(70));
    slots.close(at(100));
    assert_eq!(slots.all_busy(), Duration::from_nanos(40));
    assert_eq!((slots.busy(0), slots.busy(1)), (Duration::from_nanos(90), Duration::from_nanos(40)));
}
