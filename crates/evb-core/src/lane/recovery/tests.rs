#![expect(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + micros * 1000)
}

/// A lane with 10 segments of 100 bytes permitted, and a round trip of 1 ms known.
fn lane() -> Recovery {
    let mut recovery = Recovery::new(None, at(0));
    (0..20).for_each(|_| recovery.sample(MILLISECOND));
    recovery.permit(0..1000, at(0));
    recovery
}

fn arrive(recovery: &mut Recovery, range: Range<u64>, request: Request, now: Instant) -> Vec<Range<u64>> {
    let mut parts = Vec::new();
    recovery.handle_arrival(&range, request, true, now, |part| parts.push(part));
    parts
}

fn expire(recovery: &mut Recovery, now: Instant) -> Vec<(Range<u64>, Request)> {
    let mut parts = Vec::new();
    recovery.expire(0, &RangeSet::default(), now, |range, request| parts.push((range, request)));
    parts
}

#[test]
fn what_comes_in_order_is_never_lost() {
    let mut recovery = lane();
    for start in (0..1000).step_by(100) {
        assert_eq!(arrive(&mut recovery, start..start + 100, 0, at(start)), [start..start + 100]);
    }
    assert_eq!(recovery.next_timeout(), None);
    assert_eq!(recovery.counters(), RecoveryCounters::default());
}

#[test]
fn a_gap_is_lost_after_the_reordering_window() {
    let mut recovery = lane();
    arrive(&mut recovery, 0..100, 0, at(10));
    assert_eq!(arrive(&mut recovery, 200..300, 0, at(20)), [200..300]);
    assert_eq!(recovery.next_timeout(), Some(at(20) + MILLISECOND / 4));
    assert_eq!(expire(&mut recovery, at(269)), []);
    assert_eq!(expire(&mut recovery, at(270)), [(100..200, 0)]);
    assert_eq!(recovery.lost(), 100..200);
    // It is asked for, and comes.
    recovery.ask(100..200, 5, at(271));
    assert_eq!(recovery.lost(), 0..0);
    assert_eq!(arrive(&mut recovery, 100..200, 5, at(900)), [100..200]);
    assert_eq!(recovery.counters().resends, 1);
}

#[test]
fn what_comes_within_the_window_was_only_reordered() {
    let mut recovery = lane();
    arrive(&mut recovery, 200..300, 0, at(20));
    assert_eq!(arrive(&mut recovery, 0..100, 0, at(100)), [0..100]);
    assert_eq!(arrive(&mut recovery, 100..200, 0, at(200)), [100..200]);
    assert_eq!(expire(&mut recovery, at(400)), []);
}

#[test]
fn the_tail_is_lost_when_nothing_comes_for_the_timer() {
    let mut recovery = lane();
    arrive(&mut recovery, 0..900, 0, at(500));
    let due = at(500) + recovery.timeout();
    assert_eq!(recovery.next_timeout(), Some(due));
    assert_eq!(recovery.timeout(), RoundTrip::FLOOR);
    assert_eq!(expire(&mut recovery, due), [(900..1000, 0)]);
    assert_eq!((recovery.counters().timeouts, recovery.failures), (1, 1));
    // Its repetition waits twice as long.
    recovery.ask(900..1000, 1, due);
    assert_eq!(recovery.next_timeout(), Some(due + RoundTrip::FLOOR * 2));
}

#[test]
fn a_lost_repetition_is_known_from_what_was_sent_after_it() {
    let mut recovery = lane();
    arrive(&mut recovery, 100..1000, 0, at(20));
    expire(&mut recovery, at(300));
    recovery.ask(0..100, 9, at(300));
    recovery.handle_heard(8, 0, at(400));
    assert_eq!(expire(&mut recovery, at(1000)), []);
    recovery.handle_heard(9, 0, at(1000));
    assert_eq!(expire(&mut recovery, at(1250)), [(0..100, 9)]);
    assert_eq!(recovery.lost(), 0..100);
}

/// The segments of an answer say themselves that the request was heard, and others' packets come between them.
#[test]
fn an_answer_of_several_segments_is_not_overtaken_by_its_own_first() {
    let mut recovery = lane();
    arrive(&mut recovery, 500..1000, 0, at(20));
    expire(&mut recovery, at(300));
    recovery.ask(0..300, 9, at(300));
    recovery.ask(400..500, 9, at(300));
    recovery.handle_heard(9, 9, at(400));
    assert_eq!(arrive(&mut recovery, 0..100, 9, at(400)), [0..100]);
    assert_eq!(expire(&mut recovery, at(800)), []);
    // What was sent before it and is not here is overtaken, as by a datagram that answers something else.
    recovery.handle_heard(9, 9, at(800));
    assert_eq!(arrive(&mut recovery, 200..300, 9, at(800)), [200..300]);
    assert_eq!(expire(&mut recovery, at(1050)), [(100..200, 9)]);
    recovery.handle_heard(10, 10, at(1100));
    assert_eq!(expire(&mut recovery, at(1350)), [(400..500, 9)]);
}

#[test]
fn a_mistake_widens_the_window() {
    let mut recovery = lane();
    arrive(&mut recovery, 100..200, 0, at(0));
    expire(&mut recovery, at(250));
    assert_eq!(arrive(&mut recovery, 0..100, 0, at(260)), []);
    assert_eq!((recovery.counters().late_after_loss, recovery.lost()), (1, 0..0));
    assert_eq!(recovery.window(), MILLISECOND / 2);
    // A copy that the network made is no mistake.
    recovery.handle_arrival(&(100..200), 0, false, at(270), |_| panic!("accounted twice"));
    assert_eq!((recovery.counters().duplicates, recovery.window()), (1, MILLISECOND / 2));
}

#[test]
fn what_is_here_by_another_transmission_is_not_asked_for_again() {
    let mut recovery = lane();
    let mut here = RangeSet::default();
    here.insert(300..400);
    let mut lost = Vec::new();
    recovery.expire(200, &here, at(1_000_000), |range, request| lost.push((range, request)));
    assert_eq!(lost, [(0..1000, 0)]);
    assert_eq!(recovery.lost.iter().cloned().collect::<Vec<_>>(), [200..300, 400..1000]);
}

#[test]
fn a_paced_source_is_given_its_time() {
    let mut recovery = lane();
    let mut now = 0;
    for start in (0..500).step_by(100) {
        now += if start == 0 { 1500 } else { 1900 };
        arrive(&mut recovery, start..start + 100, 0, at(now));
    }
    assert!(recovery.timeout() >= Duration::from_micros(3800), "{:?}", recovery.timeout());
}
