use core::time::Duration;

use super::DelayedLanes;
use crate::{index::LaneIndex, set::LaneSet, time::Instant};

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn due(later: &mut DelayedLanes, millis: u64) -> Vec<usize> {
    let mut due = LaneSet::default();
    later.take_due(at(millis), &mut due);
    due.iter().map(LaneIndex::get).collect()
}

#[test]
fn nobody_waits_longer_than_that_nor_less_than_half_of_it() {
    let mut later = DelayedLanes::new(Duration::from_millis(20));
    assert_eq!((later.next(), due(&mut later, 0)), (None, vec![]));
    later.insert(LaneIndex::new(3));
    assert_eq!((due(&mut later, 100), later.next()), (vec![], Some(at(110))));
    later.insert(LaneIndex::new(5));
    assert_eq!((due(&mut later, 109), due(&mut later, 110)), (vec![], vec![]));
    // A second insertion of a waiting lane does not restart its wait.
    later.insert(LaneIndex::new(3));
    later.insert(LaneIndex::new(7));
    assert_eq!(
        (due(&mut later, 119), due(&mut later, 120), later.next()),
        (vec![], vec![3, 5], Some(at(130)))
    );
    assert_eq!((due(&mut later, 130), later.next()), (vec![7], None));
    assert!(later.is_empty());
}

#[test]
fn who_has_said_it_does_not_wait() {
    let mut later = DelayedLanes::new(Duration::from_millis(20));
    [1, 2].into_iter().for_each(|lane| later.insert(LaneIndex::new(lane)));
    assert_eq!((due(&mut later, 0), due(&mut later, 10)), (vec![], vec![]));
    later.remove(LaneIndex::new(1));
    later.insert(LaneIndex::new(4));
    later.remove(LaneIndex::new(4));
    assert_eq!((due(&mut later, 20), later.next()), (vec![2], None));
    // A tick from before the insertion does not shorten the wait.
    later.insert(LaneIndex::new(1));
    assert_eq!((due(&mut later, 25), later.next()), (vec![], Some(at(35))));
}
