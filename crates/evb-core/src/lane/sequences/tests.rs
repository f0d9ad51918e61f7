use std::collections::BTreeSet;

use super::*;
use crate::rng::Rng;

fn absent_of(sequences: impl IntoIterator<Item = u32>) -> u64 {
    let mut noted = Sequences::default();
    sequences.into_iter().for_each(|sequence| noted.note(sequence));
    noted.absent()
}

#[test]
fn gaps_are_absent_until_they_are_filled() {
    assert_eq!(absent_of([1, 2, 3]), 0);
    assert_eq!(absent_of([1, 5]), 3);
    assert_eq!(absent_of([1, 5, 3, 3, 5, 1]), 2, "duplicates fill no gap");
    assert_eq!(absent_of([1, 5, 2, 3, 4]), 0);
    assert_eq!(absent_of((1..=3000).rev()), 0, "the order does not matter");
}

/// A sequence number that is too old to be remembered still counts as absent, because it may be a
/// duplicate, which must not hide a loss.
#[test]
fn what_comes_much_later_stays_absent() {
    assert_eq!(absent_of([1, 1 + REMEMBERED, 2]), u64::from(REMEMBERED) - 2);
    assert_eq!(absent_of([1, 2 + REMEMBERED, 2]), u64::from(REMEMBERED));
    assert_eq!(absent_of([1, u32::MAX / 2, 1]), u64::from(u32::MAX / 2) - 2);
}

#[test]
fn losses_copies_and_disorder_around_the_wrap_are_told_apart() {
    let mut rng = Rng::new(7);
    let mut noted = Sequences { newest: u32::MAX - 10_000, ..Sequences::default() };
    let first = noted.newest().wrapping_add(1);
    let mut order: Vec<(u64, u32)> = Vec::new();
    let mut lost = BTreeSet::new();
    for step in 0..20_000 {
        let sequence = first.wrapping_add(step);
        if rng.next_u64().is_multiple_of(50) && step < 19_999 {
            lost.insert(sequence);
            continue;
        }
        for _copy in 0..1 + u64::from(rng.next_u64().is_multiple_of(20)) {
            order.push((u64::from(step) + rng.next_u64() % 2000, sequence));
        }
    }
    order.sort_unstable();
    order.iter().for_each(|(_, sequence)| noted.note(*sequence));
    let behind = (0..).take_while(|behind| noted.newest() != first.wrapping_add(19_999 - behind)).count();
    assert_eq!((noted.absent(), behind), (lost.len() as u64, 0));
}
