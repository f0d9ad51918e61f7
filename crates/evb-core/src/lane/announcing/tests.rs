use core::time::Duration;

use bytes::BytesMut;

use super::{Announcing, ENOUGH, FEW, PACKETFUL, WITHIN};
use crate::{
    fragment::{Fragment, Timestamp},
    id::{EventId, SourceId},
    lane::OutgoingLane,
    time::Instant,
};

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + micros * 1000)
}

fn announcing(id: u16) -> Announcing {
    Announcing::new(SourceId::new(id), Duration::MAX, Duration::ZERO)
}

/// Returns the schedule of a source behind a switch port that drains in a millisecond.
fn sparing(id: u16) -> Announcing {
    Announcing::new(SourceId::new(id), Duration::MAX, Duration::from_millis(1))
}

fn push(lane: &mut OutgoingLane, events: core::ops::RangeInclusive<u64>, size: usize) {
    for event in events {
        lane.append(Fragment::new(EventId::new(event), Timestamp::default(), vec![0; size]));
    }
}

#[test]
fn sources_do_not_announce_all_at_once() {
    let mut waits: Vec<_> = (1..=32).map(|id| announcing(id).within).collect();
    waits.sort();
    assert!(waits[0] >= WITHIN / 2 && waits[31] < WITHIN);
    // Evenly spread delays would be 312 µs apart.
    assert!(waits.array_windows().all(|[a, b]| *b - *a > Duration::from_micros(150)), "{waits:?}");
    let short = Announcing::new(SourceId::new(5), Duration::from_millis(1), Duration::ZERO);
    assert!((500..1000).contains(&short.within.as_micros()));
}

#[test]
fn many_wait_only_while_the_builder_has_enough() {
    let (mut lane, mut announcing) = (OutgoingLane::default(), announcing(3));
    assert!(!announcing.is_due(&lane, 4, at(0)), "no announcement waits");
    push(&mut lane, 1..=1, ENOUGH as usize);
    assert!(announcing.is_due(&lane, 0, at(0)), "the builder has nothing to grant");
    lane.announce(&mut BytesMut::new());
    announcing.note(&lane, at(0));
    push(&mut lane, 2..=5, 100);
    assert!(announcing.is_due(&lane, 4, at(0)) && !announcing.is_due(&lane, 3, at(0)));
    let over = at(0) + announcing.within;
    assert_eq!(announcing.next(), Some(over));
    let just_before = at(0) + (announcing.within - Duration::from_nanos(1));
    assert!(!announcing.is_due(&lane, 3, just_before) && announcing.is_due(&lane, 3, over));
    // A grant that leaves the builder too few announced bytes ends the delay.
    lane.handle_grant(100).unwrap();
    assert!(announcing.is_due(&lane, 3, at(1)));
    announcing.put_off(over + WITHIN);
    assert_eq!(announcing.next(), Some(over + WITHIN));
}

#[test]
fn at_once_goes_what_the_builder_needs_and_the_rest_by_packets() {
    let (mut lane, mut announcing) = (OutgoingLane::default(), sparing(3));
    push(&mut lane, 1..=200, 1008);
    assert!(announcing.is_due(&lane, 0, at(0)));
    assert_eq!(announcing.batch(&lane, at(0)), 4, "announcements for 3 KiB and a quarter more");
    lane.announce_at_most(4, &mut BytesMut::new());
    announcing.note(&lane, at(0));
    assert!(!announcing.is_due(&lane, 0, at(0)));
    let over = announcing.next().unwrap();
    // With grants of 4 KiB, 4 KiB of announced bytes are enough, and the source announces up to 5
    // KiB.
    lane.handle_grant(4096).unwrap();
    assert!(announcing.is_due(&lane, 0, at(1)));
    assert_eq!(announcing.batch(&lane, at(1)), 5);
    lane.announce_at_most(5, &mut BytesMut::new());
    announcing.note(&lane, at(1));
    assert_eq!((announcing.is_due(&lane, 0, at(1)), announcing.next()), (false, Some(over)), "same delay");
    // The delay began with 200 waiting announcements, of which 100 may stay unsent when it ends.
    assert_eq!((announcing.batch(&lane, at(1)), announcing.batch(&lane, over)), (FEW, 91));
    lane.announce_at_most(90, &mut BytesMut::new());
    announcing.note(&lane, over);
    assert!(announcing.is_due(&lane, 0, over), "one more is due");
    lane.announce_at_most(1, &mut BytesMut::new());
    announcing.note(&lane, over);
    assert!(!announcing.is_due(&lane, 0, over));
    let over = over + announcing.within;
    assert_eq!((announcing.next(), announcing.batch(&lane, over)), (Some(over), PACKETFUL));
}

/// The builder grants the same amount to each source, however long that takes.
#[test]
fn waits_end_one_after_the_other_as_the_builder_grants() {
    let at_granted = |id: u16| {
        let (mut lane, mut announcing) = (OutgoingLane::default(), sparing(id));
        push(&mut lane, 1..=100, 1008);
        lane.announce(&mut BytesMut::new());
        push(&mut lane, 101..=150, 1008);
        assert!(!announcing.is_due(&lane, 0, at(0)));
        let mut turns = (1..).map(|turn| turn * 1024);
        let mut ends_wait = |end: &u64| {
            lane.handle_grant(*end).unwrap();
            announcing.is_due(&lane, 0, at(1))
        };
        turns.find(&mut ends_wait).unwrap()
    };
    let mut ends: Vec<u64> = (1..=32).map(at_granted).collect();
    ends.sort();
    // 100 KiB are announced. The last source ends its delay when about 3 KiB are left, which are
    // granted while its next announcement travels.
    assert!(ends[0] < 8 << 10 && (90 << 10..100 << 10).contains(&ends[31]), "{ends:?}");
    assert!(ends.array_windows().all(|[a, b]| b - a < 8 << 10), "{ends:?}");
}

#[test]
fn the_slower_a_full_port_drains_the_longer_they_wait() {
    let waits = |queue, most| Announcing::new(SourceId::new(1), most, queue).within;
    let (fast, slow) = (Duration::from_millis(1), Duration::from_millis(10));
    assert_eq!(waits(fast, Duration::MAX), waits(Duration::ZERO, Duration::MAX));
    assert!((slow * 4..slow * 8).contains(&waits(slow, Duration::MAX)));
    assert!(waits(slow, Duration::from_millis(30)) < Duration::from_millis(30), "limit is `most`");
}

#[test]
fn however_many_wait_all_are_announced_soon() {
    let (mut lane, mut announcing) = (OutgoingLane::default(), announcing(3));
    push(&mut lane, 1..=10_000, 1008);
    let (mut now, mut waits) = (at(0), 0);
    while lane.has_announcements() {
        while announcing.is_due(&lane, 0, now) {
            lane.announce_at_most(announcing.batch(&lane, now), &mut BytesMut::new());
            announcing.note(&lane, now);
        }
        now = announcing.next().unwrap_or(now);
        waits += 1;
    }
    assert!(waits <= 10, "{waits} waits");
}
