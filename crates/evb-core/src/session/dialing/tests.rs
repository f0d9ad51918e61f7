use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
}

fn lane() -> LaneDialing {
    LaneDialing::new(Incarnation::new(1), "here:1".to_owned(), at(0))
}

#[test]
fn waiting_doubles_up_to_a_second_and_begins_anew_after_a_connection_that_lasted() {
    let mut lane = lane();
    let mut now = 0;
    for wait in [50, 100, 200, 400, 800, 1000, 1000] {
        assert!(lane.take_due(at(now)) && !lane.take_due(at(now)), "one attempt at a time");
        assert_eq!(lane.next_timeout(), None);
        assert!(lane.handle_failed(at(now)));
        assert_eq!(lane.next_timeout(), Some(at(now + wait)));
        assert!(!lane.take_due(at(now + wait - 1)));
        now += wait;
    }
    assert!(lane.take_due(at(now)) && lane.handle_connected(at(now)));
    assert!(lane.handle_failed(at(now + 999)));
    assert_eq!(lane.next_timeout(), Some(at(now + 1999)), "the connection did not last");
    assert!(lane.take_due(at(now + 1999)) && lane.handle_connected(at(now + 1999)) && lane.is_up());
    assert!(lane.handle_failed(at(now + 2999)));
    assert_eq!(lane.next_timeout(), Some(at(now + 3049)));
}

#[test]
fn another_life_or_address_is_another_connection() {
    let mut lane = lane();
    assert!(lane.take_due(at(0)) && lane.handle_connected(at(0)));
    assert!(!lane.aim(Incarnation::new(1), "here:1", at(5)) && lane.is_up());
    assert!(lane.aim(Incarnation::new(1), "there:1", at(5)) && lane.take_due(at(5)));
    assert!(lane.aim(Incarnation::new(2), "there:1", at(1005)));
    assert!(!lane.handle_connected(at(1006)), "the connection was dropped");
    assert!(!lane.handle_failed(at(1006)), "the failure of the dropped connection");
    assert!(lane.take_due(at(1006)));
    assert_eq!((lane.incarnation(), lane.address()), (Incarnation::new(2), "there:1"));
}

#[test]
fn a_lane_that_is_over_waits_for_its_builder_to_be_listed_again() {
    let mut lane = lane();
    lane.end();
    assert!(!lane.begin_anew(at(0)) && !lane.take_due(at(9000)) && lane.next_timeout().is_none());
    assert!(!lane.handle_failed(at(9000)));
    assert!(lane.aim(Incarnation::new(1), "here:1", at(9000)) && lane.take_due(at(9000)));
    assert!(lane.is_under_way() && lane.begin_anew(at(9001)) && lane.take_due(at(9001)));
}

/// A supervisor that lists new incarnations a thousand times a second causes no more attempts than
/// a builder that does not answer.
#[test]
fn rosters_that_change_all_the_time_cause_one_attempt_a_second() {
    let mut lane = lane();
    let mut attempts = 0;
    for now in 0..10_000 {
        lane.aim(Incarnation::new(now as u32 + 2), "nowhere:1", at(now));
        if lane.take_due(at(now)) {
            attempts += 1;
        }
    }
    assert_eq!(attempts, 10);
}
