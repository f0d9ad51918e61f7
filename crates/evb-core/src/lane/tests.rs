#![expect(clippy::single_range_in_vec_init, reason = "the tests need commits of one range")]

use core::ops::Range;
use std::{collections::BTreeMap, io::IoSlice};

use bytes::BytesMut;
use proptest::prelude::*;

use super::{IncomingLane, LaneError, OutgoingLane, Taken};
use crate::{
    fragment::{Fragment, Timestamp},
    id::EventId,
    index::SlotIndex,
    wire::record::Announcement,
};

fn range_of(taken: Option<Taken>) -> Option<Range<u64>> {
    taken.map(|taken| taken.range)
}

fn fragment(event: u64, length: usize) -> Fragment {
    Fragment::new(EventId::new(event), Timestamp::new(event), vec![event as u8; length])
}

fn announcement(event: u64, length: u32) -> Announcement {
    Announcement { event: EventId::new(event), timestamp: Timestamp::default(), length, lost_packets: 0 }
}

/// Returns a lane on which fragments of events 1, 2, … are announced and granted, and no bytes have
/// arrived. Each fragment has 84 bytes and takes 100 bytes of the lane.
fn incoming(slots: &[Option<usize>]) -> IncomingLane {
    let mut lane = IncomingLane::new(1000);
    lane.handle_connected();
    for (event, slot) in (1..).zip(slots) {
        let announcement = announcement(event, 84);
        assert_eq!(lane.check_announcement(lane.ready(), &announcement), Ok(true));
        lane.push(announcement, slot.map(SlotIndex::new));
    }
    if !slots.is_empty() {
        lane.grant(lane.ready());
    }
    lane
}

fn receive(lane: &mut IncomingLane, mut count: u64) {
    while count > 0 {
        let step = lane.arrival().unwrap().remaining.min(count);
        lane.check_data(lane.received(), step as u32).unwrap();
        lane.advance(step);
        count -= step;
    }
}

fn commit(lane: &mut IncomingLane) -> Option<(u64, Vec<Range<u64>>)> {
    let mut ranges = Vec::new();
    lane.is_commit_due().then(|| (lane.take_commit(&mut ranges), ranges))
}

#[test]
fn what_came_after_all_is_not_sent_again() {
    let mut lane = OutgoingLane::default();
    (1..=3).for_each(|event| lane.append(fragment(event, 84)));
    lane.announce(&mut BytesMut::new());
    lane.handle_grant(300).unwrap();
    assert_eq!(range_of(lane.take(300)), Some(0..300));
    lane.handle_resend(0..300, u64::MAX, 1).unwrap();
    lane.handle_commit(100, &[200..300]).unwrap();
    assert_eq!(lane.sendable(), 100);
    assert_eq!(lane.take(300), Some(Taken { range: 100..200, request: 1 }));
    assert_eq!(lane.take(300), None);
}

#[test]
fn commits_are_an_offset_and_the_ranges_above_it() {
    let mut lane = incoming(&[Some(0), Some(1), Some(2), Some(3)]);
    assert_eq!(commit(&mut lane), Some((0, vec![])), "a new connection begins with a commit");
    receive(&mut lane, 350);
    assert_eq!(commit(&mut lane), None, "the sink has accepted nothing");
    lane.settle(100);
    assert_eq!(commit(&mut lane), Some((0, vec![100..200])));
    assert_eq!(commit(&mut lane), None, "a commit is sent once");
    lane.settle(200);
    assert_eq!(commit(&mut lane), Some((0, vec![100..300])));
    lane.settle(0);
    assert_eq!(commit(&mut lane), Some((300, vec![])));
    lane.settle(300);
    assert_eq!(commit(&mut lane).unwrap().0, 350, "discarded bytes are committed as they arrive");
    receive(&mut lane, 50);
    assert_eq!(commit(&mut lane), Some((400, vec![])));
    assert_eq!((lane.committed(), lane.received()), (400, 400));
}

#[test]
fn an_event_that_stays_open_holds_up_nobody() {
    let mut lane = incoming(&[Some(0)]);
    receive(&mut lane, 100);
    for event in 2..10_000 {
        let announcement = announcement(event, 84);
        let start = lane.ready();
        assert_eq!(lane.check_announcement(start, &announcement), Ok(true), "event {event}");
        lane.push(announcement, Some(SlotIndex::new(1)));
        lane.grant(lane.ready());
        receive(&mut lane, 100);
        lane.settle(start);
        assert!(lane.held.len() <= 2, "settled neighbours are one entry");
    }
    assert_eq!(lane.committed(), 0);
    lane.settle(0);
    assert_eq!(lane.committed(), lane.ready());
}

#[test]
fn a_source_that_comes_late_with_thousands_is_heard_out() {
    let mut lane = incoming(&[]);
    for event in 1..10_000 {
        let announcement = announcement(event, 84);
        assert_eq!(lane.check_announcement(lane.ready(), &announcement), Ok(true));
        lane.push(announcement, None);
    }
    assert_eq!(lane.held.len(), 1);
    lane.grant(lane.ready());
    receive(&mut lane, 250);
    assert_eq!(commit(&mut lane), Some((250, vec![])), "discarded bytes are committed as they arrive");
}

#[test]
fn a_reconnect_voids_grants_and_repeats_announcements() {
    let mut outgoing = OutgoingLane::default();
    (1..=3).for_each(|event| outgoing.append(fragment(event, 84)));
    assert!(outgoing.handle_grant(1).is_err(), "nothing is announced");
    let mut records = BytesMut::new();
    assert_eq!(outgoing.announce(&mut records), 3);
    outgoing.handle_grant(250).unwrap();
    assert_eq!(range_of(outgoing.take(1000)), Some(0..250));
    assert_eq!(outgoing.take(1000), None);
    // The builder has received 120 bytes and knows the announcements of two fragments.
    outgoing.handle_reconnect(120, 200).unwrap();
    assert_eq!(outgoing.sendable(), 0);
    assert_eq!(outgoing.announce(&mut records), 1);
    outgoing.handle_grant(300).unwrap();
    assert_eq!(range_of(outgoing.take(100)), Some(120..220));
    outgoing.handle_commit(100, &[]).unwrap();
    assert!(outgoing.handle_reconnect(99, 300).is_err(), "byte 99 is committed");
    assert!(outgoing.handle_reconnect(120, 250).is_err(), "offset 250 is within a fragment");
    assert!(outgoing.handle_reconnect(220, 200).is_err(), "a builder cannot receive unannounced bytes");
}

#[test]
fn a_commit_lets_go_of_exactly_what_it_names() {
    let mut outgoing = OutgoingLane::default();
    (1..=4).for_each(|event| outgoing.append(fragment(event, 84)));
    outgoing.announce(&mut BytesMut::new());
    outgoing.handle_grant(400).unwrap();
    outgoing.take(400);
    let held = |lane: &OutgoingLane| lane.held_events().map(EventId::number).collect::<Vec<_>>();
    // The range covers only half of the third fragment, so the source keeps that fragment.
    outgoing.handle_commit(0, &[100..250]).unwrap();
    assert_eq!(held(&outgoing), [1, 3, 4]);
    assert_eq!((outgoing.held_fragments(), outgoing.held_bytes().count()), (3, 3 * 84));
    outgoing.handle_commit(0, &[100..300]).unwrap();
    assert_eq!(held(&outgoing), [1, 4]);
    outgoing.handle_commit(300, &[]).unwrap();
    outgoing.handle_commit(100, &[]).unwrap();
    assert_eq!(held(&outgoing), [4], "an old commit changes nothing");
    assert_eq!(outgoing.held_fragments(), 1);
    let beyond = outgoing.handle_commit(0, &[300..401]);
    assert!(matches!(beyond, Err(LaneError::Outside { what: "commit", offset: 401, .. })));
}

#[test]
fn a_builder_that_asks_again_for_what_it_committed_is_refused() {
    let mut outgoing = OutgoingLane::default();
    (1..=2).for_each(|event| outgoing.append(fragment(event, 84)));
    outgoing.announce(&mut BytesMut::new());
    outgoing.handle_grant(200).unwrap();
    let range = outgoing.take(200).unwrap().range;
    outgoing.handle_commit(0, &[100..200]).unwrap();
    assert!(outgoing.handle_reconnect(50, 200).is_err());
    // The bytes are committed between `take` and `gather`: the result is shorter than the range,
    // without a panic.
    outgoing.handle_commit(100, &[]).unwrap();
    let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(8);
    assert_eq!(outgoing.gather(range, &mut slices), 0);
}

#[test]
fn contradictions_are_named() {
    let mut lane = incoming(&[Some(0)]);
    let check = |start, event, length| lane.check_announcement(start, &announcement(event, length));
    assert_eq!(check(101, 2, 1), Err(LaneError::AnnouncementGap { offset: 101, announced: 100 }));
    assert_eq!(check(0, 1, 84), Ok(false), "a repetition is skipped");
    assert_eq!(check(0, 1, 85), Err(LaneError::AnnouncementMismatch { offset: 0 }));
    assert_eq!(check(100, 0, 1), Err(LaneError::EventZero));
    assert!(matches!(check(100, 2, 1001), Err(LaneError::Oversize { length: 1001, limit: 1000, .. })));
    assert!(check(u64::MAX, 2, u32::MAX).is_err());
    assert_eq!(lane.check_data(1, 10), Err(LaneError::DataOffset { offset: 1, expected: 0 }));
    assert_eq!(lane.check_data(0, 101), Err(LaneError::NotGranted { end: 101, granted: 100 }));
    receive(&mut lane, 100);
    assert!(lane.arrival().is_none());
    lane.handle_disconnected();
    assert!(!lane.demand().connected);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    /// The pieces that `gather` returns are the lane's bytes, however the ranges are split.
    #[test]
    fn gathered_bytes_are_the_lane(
        lengths in proptest::collection::vec(0usize..50, 1..12),
        cuts in proptest::collection::vec((1u64..70, 2usize..9), 40),
    ) {
        let mut outgoing = OutgoingLane::default();
        let mut expected = Vec::new();
        for (event, length) in (1..).zip(&lengths) {
            let fragment = fragment(event, *length);
            expected.extend_from_slice(&event.to_le_bytes());
            expected.extend_from_slice(&fragment.checksum.number().to_le_bytes());
            expected.extend_from_slice(&fragment.payload);
            outgoing.append(fragment);
        }
        outgoing.announce(&mut BytesMut::new());
        outgoing.handle_grant(expected.len() as u64).unwrap();
        let mut found = Vec::new();
        for (limit, capacity) in cuts.into_iter().cycle() {
            let Some(Taken { mut range, .. }) = outgoing.take(limit) else { break };
            while !range.is_empty() {
                let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(capacity);
                let count = outgoing.gather(range.clone(), &mut slices);
                prop_assert!(count > 0 && slices.len() <= capacity);
                slices.iter().for_each(|slice| found.extend_from_slice(slice));
                range.start += count;
            }
        }
        prop_assert_eq!(found, expected);
    }

    /// The builder's end of a lane agrees with a model that keeps one entry per fragment.
    #[test]
    fn commits_are_what_is_settled_and_here(
        steps in proptest::collection::vec((0u8..5, 0usize..12, 1u64..120), 1..120),
    ) {
        let mut lane = incoming(&[]);
        let mut model: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        for (kind, which, count) in steps {
            match kind {
                0 => {
                    let announcement = announcement(1, count as u32);
                    let slot = (which > 2).then_some(which);
                    model.insert(lane.ready(), (announcement.lane_length(), slot.is_none()));
                    lane.push(announcement, slot.map(SlotIndex::new));
                }
                1 if lane.granted() < lane.ready() => lane.grant(lane.ready().min(lane.granted() + count)),
                2 => {
                    let open = lane.granted() - lane.received();
                    receive(&mut lane, count.min(open));
                }
                _ => {
                    if let Some((start, (_, settled))) = model.iter_mut().nth(which) {
                        *settled = true;
                        lane.settle(*start);
                    }
                }
            }
            let received = lane.received();
            let is_gone = |at: u64| {
                let (start, (length, settled)) = model.range(..=at).next_back().unwrap();
                at < start + length && *settled && at < received
            };
            let until = (0..received).find(|at| !is_gone(*at)).unwrap_or(received);
            prop_assert_eq!(lane.committed(), until);
            let next = lane.arrival().map(|arrival| arrival.fragment.start..arrival.fragment.end());
            prop_assert_eq!(next.is_some(), received < lane.ready());
            prop_assert!(next.is_none_or(|next| next.contains(&received)));
            let open = model.values().filter(|(_, settled)| !settled).count();
            prop_assert!(lane.held.len() <= 2 * open + 1);
            if let Some((offset, ranges)) = commit(&mut lane) {
                prop_assert_eq!(offset, until);
                for range in ranges {
                    prop_assert!(range.clone().all(is_gone) && range.start > offset && !range.is_empty());
                }
            }
        }
    }
}

/// Sends about 500 bytes at a time, and ends with a fragment if possible.
#[test]
fn lanes_take_turns_where_fragments_end() {
    let of = |length: usize, granted: u64, sent: u64| {
        let mut lane = OutgoingLane::default();
        (1..=30).for_each(|event| lane.append(fragment(event, length - 16)));
        lane.announce(&mut BytesMut::new());
        lane.handle_grant(granted).unwrap();
        lane.take(sent);
        lane.sendable_whole(500)
    };
    assert_eq!(of(100, 3000, 0), 500, "as many fragments as fit");
    assert_eq!(of(100, 3000, 70), 500 - 70);
    assert_eq!(of(100, 449, 0), 400, "only fragments that are granted whole");
    assert_eq!(of(700, 3000, 0), 700, "a slightly larger fragment is sent whole");
    assert_eq!(of(700, 3000, 600), 800, "the rest of a fragment, and the next one");
    assert_eq!(of(700, 3000, 400), 300);
    assert_eq!(of(1001, 3000, 0), 500, "a huge fragment is split");
    assert_eq!(of(700, 650, 0), 500, "a fragment that is not granted whole");
    assert_eq!(of(100, 249, 0), 249);
    assert_eq!(of(100, 100, 100), 0);
}
