use super::*;
use crate::{
    builder::{
        assembly::Assigned,
        tests::{GrantAll, announcement, at, config, on_the_lane},
    },
    id::{Epoch, EventId},
    index::LaneIndex,
    time::Utc,
};

fn lanes(sources: u16) -> (Lanes<GrantAll>, Slots) {
    let config = config(sources, 4);
    let mut lanes = Lanes::new(&config, GrantAll::default());
    for lane in 0..sources.into() {
        lanes.connect(LaneIndex::new(lane), at(0));
        assert_eq!(lanes.poll(at(0)), Some(LaneIndex::new(lane)));
        lanes.write_records(LaneIndex::new(lane), &mut BytesMut::new());
    }
    (lanes, Slots::new(&config))
}

fn announce(lanes: &mut Lanes<GrantAll>, slots: &mut Slots, lane: LaneIndex, event: u64) {
    let start = lanes.lane(lane).incoming().ready();
    lanes.handle_announcements(lane, start, [announcement(event, 1)].into_iter(), slots, at(1)).unwrap();
}

#[test]
fn what_is_announced_is_granted_and_said_once() {
    let (mut lanes, mut slots) = lanes(2);
    assert!(lanes.is_idle());
    announce(&mut lanes, &mut slots, LaneIndex::new(1), 1);
    assert_eq!(lanes.poll(at(1)), Some(LaneIndex::new(1)));
    assert_eq!(lanes.lane(LaneIndex::new(1)).incoming().granted(), 17);
    assert_eq!(lanes.poll(at(1)), None);
    assert_eq!(lanes.demands()[1].granted, 17, "the policy's view is up to date");
    lanes.invariants();
}

#[test]
fn the_last_to_arrive_is_counted_and_so_is_who_is_missing() {
    let (mut lanes, mut slots) = lanes(3);
    for (event, sources) in [(1, 0..3), (2, 0..1)] {
        for lane in sources {
            announce(&mut lanes, &mut slots, LaneIndex::new(lane), event);
        }
        let sources = crate::set::SourceSet::first(3);
        let expected = crate::builder::roster::Expected { sources, ..Default::default() };
        let assigned = Assigned { triggered: at(0), utc: Utc::UNKNOWN, epoch: Epoch::new(1) };
        assert!(slots.assign(EventId::new(event), assigned, &expected, at(1), |_| {}));
    }
    while lanes.poll(at(1)).is_some() {}
    for (lane, event, millis) in [(2, 1, 2), (0, 1, 3), (1, 1, 7), (0, 2, 8)] {
        lanes.handle_data(LaneIndex::new(lane), &on_the_lane(event, b"x"), &mut slots, at(millis)).unwrap();
    }
    slots.expire(at(60_000), |ended| lanes.note_end(ended));
    let counted: Vec<_> =
        lanes.reports().iter().map(|lane| (lane.last, lane.last_by_ns, lane.missing)).collect();
    assert_eq!(counted, [(0, 0, 0), (1, 4_000_000, 1), (0, 0, 1)]);
}

#[test]
fn the_bytes_of_an_evicted_event_are_discarded_and_committed_soon() {
    let (mut lanes, mut slots) = lanes(1);
    announce(&mut lanes, &mut slots, LaneIndex::new(0), 1);
    assert_eq!(lanes.poll(at(1)), Some(LaneIndex::new(0)));
    slots.evict_provisional(at(60_000), |evicted| lanes.note_eviction(evicted));
    lanes.handle_data(LaneIndex::new(0), &on_the_lane(1, b"x"), &mut slots, at(60_000)).unwrap();
    assert_eq!(lanes.lane(LaneIndex::new(0)).incoming().committed(), 17);
    assert_eq!((lanes.reports()[0].unexpected, lanes.reports()[0].fragments), (1, 0));
    assert!(!lanes.is_idle());
    assert_eq!(lanes.poll(at(60_000)), None, "the commit waits for a grant");
    assert_eq!(lanes.poll(at(60_010)), None);
    assert_eq!(lanes.poll(at(60_020)), Some(LaneIndex::new(0)));
    lanes.write_records(LaneIndex::new(0), &mut BytesMut::new());
    assert!(lanes.is_idle());
}
