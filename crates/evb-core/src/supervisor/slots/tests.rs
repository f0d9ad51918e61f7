use core::time::Duration;

use super::{AssignmentPolicy, BuilderIndex, Slots};
use crate::time::Instant;

fn at(builder: usize) -> BuilderIndex {
    BuilderIndex::new(builder)
}

fn slots(policy: AssignmentPolicy, run_length: u32, free: &[u32]) -> Slots {
    slots_in_batches(policy, run_length, free, 1)
}

fn slots_in_batches(policy: AssignmentPolicy, run_length: u32, free: &[u32], batch: u32) -> Slots {
    let mut slots = Slots::new(free.len(), policy, run_length, batch);
    for (builder, free) in free.iter().enumerate() {
        slots.set(at(builder), *free, Instant::ZERO);
    }
    slots
}

fn drain(slots: &mut Slots) -> Vec<usize> {
    core::iter::from_fn(|| slots.take(Instant::ZERO)).map(BuilderIndex::get).collect()
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
    let mut slots = slots_in_batches(AssignmentPolicy::RoundRobin, 1, &[3, 3], 3);
    assert_eq!(drain(&mut slots), [0, 1, 0, 1, 0, 1]);
    for builder in [0, 1, 0, 1] {
        slots.give(at(builder), Instant::ZERO);
    }
    assert_eq!((slots.total(), slots.take(Instant::ZERO)), (0, None));
    slots.give(at(1), Instant::ZERO);
    assert_eq!(drain(&mut slots), [1, 1, 1]);
    // `set` replaces the number of free slots, and drops returned slots that wait for their batch.
    slots.set(at(0), 2, Instant::ZERO);
    slots.give(at(0), Instant::ZERO);
    assert_eq!(drain(&mut slots), [0, 0]);
}

#[test]
fn busy_time_is_that_without_any_slot() {
    let then = Instant::from_nanos;
    let mut slots = slots(AssignmentPolicy::RoundRobin, 1, &[1, 1]);
    slots.take(then(10));
    slots.take(then(30));
    slots.give(at(1), then(70));
    slots.close(then(100));
    assert_eq!(slots.all_busy(), Duration::from_nanos(40));
    assert_eq!((slots.busy(at(0)), slots.busy(at(1))), (Duration::from_nanos(90), Duration::from_nanos(40)));
}
