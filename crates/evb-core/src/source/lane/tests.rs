use super::*;
use crate::fragment::Timestamp;

const TIMES: fn() -> LaneTimes =
    || LaneTimes::new(SourceId::new(3), Duration::from_secs(16), Duration::from_millis(1));

fn lane(fragments: u64) -> SourceLane {
    let mut lane = SourceLane::new(&TIMES());
    for event in 1..=fragments {
        lane.append(Fragment::new(EventId::new(event), Timestamp::new(event), vec![0; 84]));
    }
    lane
}

#[test]
fn a_lane_without_a_connection_sends_nothing() {
    let mut lane = lane(2);
    assert!(!lane.is_announcement_due(Instant::ZERO));
    lane.handle_connected(0, 0).unwrap();
    assert!(lane.is_announcement_due(Instant::ZERO));
    lane.announce(Instant::ZERO, &mut BytesMut::new());
    assert!(!lane.handle_grant(200).unwrap(), "no announcement waits");
    assert_eq!(lane.sendable(), 200);
    lane.handle_disconnected();
    assert_eq!((lane.sendable(), lane.sendable_whole(100), lane.take(200)), (0, 0, None));
    lane.invariants();
}

#[test]
fn counters_outlive_connections_and_lives() {
    let mut lane = lane(3);
    lane.handle_connected(0, 0).unwrap();
    lane.announce(Instant::ZERO, &mut BytesMut::new());
    lane.handle_grant(300).unwrap();
    lane.take(300).unwrap();
    lane.handle_commit(100, &[]).unwrap();
    lane.handle_disconnected();
    lane.handle_connected(200, 300).unwrap();
    let left: Vec<EventId> = lane.restart().map(|fragment| fragment.event).collect();
    assert_eq!(left, [2, 3].map(EventId::new), "uncommitted fragments are left");
    let LaneCounters { announced, committed, reconnects, resends, sent_bytes } = lane.counters();
    assert_eq!((announced, committed, reconnects, resends, sent_bytes), (3, 1, 1, 0, 300));
    assert_eq!((lane.outgoing().ready(), lane.is_connected()), (0, false));
    lane.invariants();
}
