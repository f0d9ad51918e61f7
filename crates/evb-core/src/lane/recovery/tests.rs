#![expect(clippy::single_range_in_vec_init, reason = "the tests need lists of one range")]

use super::*;
use crate::{
    id::{BuilderId, Epoch, SourceId},
    wire::datagram::Association,
};

const MILLISECOND: Duration = Duration::from_millis(1);

fn at(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + micros * 1000)
}

/// Returns the recovery state of a lane with 10 permitted segments of 100 bytes and a measured
/// round trip time of 1 ms.
fn lane() -> LossRecovery {
    let mut recovery = LossRecovery::new(None, at(0));
    (0..20).for_each(|_| recovery.sample(MILLISECOND));
    recovery.permit(0..1000, 1, at(0));
    recovery
}

/// Returns the header of a datagram with lane bytes from `offset` on, or with records if there is
/// no offset.
fn header(heard: u32, request: Request, offset: Option<u64>) -> DatagramHeader {
    let kind = if offset.is_some() { DatagramKind::Data } else { DatagramKind::Records };
    let association = Association {
        epoch: Epoch::new(1),
        source: SourceId::new(1),
        builder: BuilderId::new(1),
        connection: 1,
    };
    DatagramHeader { kind, request, association, sequence: 1, heard, offset: offset.unwrap_or(0) }
}

fn arrive(recovery: &mut LossRecovery, range: Range<u64>, request: Request, now: Instant) -> Vec<Range<u64>> {
    arrive_hearing(recovery, range, request, request.into(), now)
}

fn arrive_hearing(
    recovery: &mut LossRecovery,
    range: Range<u64>,
    request: Request,
    heard: u32,
    now: Instant,
) -> Vec<Range<u64>> {
    let mut parts = Vec::new();
    let header = header(heard, request, Some(range.start));
    recovery.handle_heard(&header, now);
    recovery.handle_arrival(&range, &header, true, now, |part, _| parts.push(part));
    parts
}

fn expire(recovery: &mut LossRecovery, now: Instant) -> Vec<(Range<u64>, Request)> {
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
    // The bytes are requested again, and arrive.
    recovery.ask(100..200, 5, at(271));
    assert_eq!(recovery.lost(), 0..0);
    assert_eq!(arrive(&mut recovery, 100..200, 5, at(900)), [100..200]);
    assert_eq!(recovery.counters().resends, 1);
}

/// The permission of the first bytes was lost, and the next datagram repeats it and permits more
/// bytes. All these bytes arrive in one segment.
#[test]
fn one_segment_may_answer_a_request_and_bring_more() {
    let mut recovery = lane();
    assert_eq!(expire(&mut recovery, at(1_000_000)), [(0..1000, 0)]);
    recovery.ask(0..1000, 5, at(1_000_000));
    recovery.permit(1000..3000, 1, at(1_000_000));
    let parts = arrive_hearing(&mut recovery, 0..3000, 0, 5, at(1_001_000));
    assert_eq!(parts, [1000..3000, 0..1000], "both transmissions are accounted for");
    assert_eq!(recovery.next_timeout(), None, "nothing is awaited");
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
    // The timer of the repeated bytes is twice as long.
    recovery.ask(900..1000, 1, due);
    assert_eq!(recovery.next_timeout(), Some(due + RoundTrip::FLOOR * 2));
}

#[test]
fn a_lost_repetition_is_known_from_what_was_sent_after_it() {
    let mut recovery = lane();
    arrive(&mut recovery, 100..1000, 0, at(20));
    expire(&mut recovery, at(300));
    recovery.ask(0..100, 9, at(300));
    recovery.handle_heard(&header(8, 0, None), at(400));
    assert_eq!(expire(&mut recovery, at(1000)), []);
    recovery.handle_heard(&header(9, 0, None), at(1000));
    assert_eq!(expire(&mut recovery, at(1250)), [(0..100, 9)]);
    assert_eq!(recovery.lost(), 0..100);
}

/// All segments of an answer acknowledge the request, and packets of other lanes arrive between
/// them.
#[test]
fn an_answer_of_several_segments_is_not_overtaken_by_its_own_first() {
    let mut recovery = lane();
    arrive(&mut recovery, 500..1000, 0, at(20));
    expire(&mut recovery, at(300));
    recovery.ask(0..300, 9, at(300));
    recovery.ask(400..500, 9, at(300));
    assert_eq!(arrive(&mut recovery, 0..100, 9, at(400)), [0..100]);
    assert_eq!(expire(&mut recovery, at(800)), []);
    // Parts of a request that were sent before the arrived part count as overtaken. Earlier
    // requests count as overtaken when an answer to a later request arrives.
    assert_eq!(arrive(&mut recovery, 200..300, 9, at(800)), [200..300]);
    assert_eq!(expire(&mut recovery, at(1050)), [(100..200, 9)]);
    recovery.handle_heard(&header(10, 10, Some(0)), at(1100));
    assert_eq!(expire(&mut recovery, at(1350)), [(400..500, 9)]);
}

/// The datagram with the permission was lost, and the one with the request arrived. The source
/// sends the bytes for the first time and acknowledges the request.
#[test]
fn a_first_transmission_may_answer_a_request() {
    let mut recovery = lane();
    let due = recovery.next_timeout().unwrap();
    assert_eq!(expire(&mut recovery, due), [(0..1000, 0)]);
    recovery.ask(0..1000, 9, due);
    let now = due + MILLISECOND;
    assert_eq!(arrive_hearing(&mut recovery, 0..100, 0, 9, now), [0..100]);
    assert_eq!(expire(&mut recovery, now + MILLISECOND), []);
    let now = now + MILLISECOND;
    assert_eq!(arrive_hearing(&mut recovery, 200..1000, 0, 9, now), [200..1000]);
    assert_eq!(expire(&mut recovery, now + MILLISECOND), [(100..200, 9)]);
    assert_eq!((recovery.counters().late_after_loss, recovery.patience), (0, 0));
    // A segment that does not acknowledge the request was sent before the request arrived, and is
    // late.
    let mut recovery = lane();
    expire(&mut recovery, due);
    recovery.ask(0..1000, 9, due);
    assert_eq!(arrive_hearing(&mut recovery, 0..100, 0, 8, now), []);
    assert_eq!((recovery.counters().late_after_loss, recovery.caution), (1, 1));
}

/// The datagram with the permission was lost, and a later datagram repeats the permission, so the
/// timer restarts.
#[test]
fn a_permission_that_is_said_again_is_answered_later() {
    let mut recovery = lane();
    let due = recovery.next_timeout().unwrap();
    let again = at(1000);
    recovery.say_again(2, 0, again);
    assert_eq!(expire(&mut recovery, due), []);
    assert_eq!(recovery.next_timeout(), Some(again + recovery.timeout()));
    // If the source has acknowledged the first permission, the timer does not restart.
    let mut recovery = lane();
    recovery.say_again(2, 1, again);
    assert_eq!(recovery.next_timeout(), Some(due));
}

/// The datagram with the permission was lost. If the builder declared the bytes lost, a later
/// datagram would still permit them, and more bytes than the budget could be under way.
#[test]
fn what_the_source_cannot_know_of_is_asked_for_and_stays_outstanding() {
    let mut recovery = lane();
    let due = recovery.next_timeout().unwrap();
    let mut asked = Vec::new();
    assert!(!recovery.ask_unheard(2, 1, &mut asked, due), "the permission was acknowledged");
    assert!(recovery.ask_unheard(2, 0, &mut asked, due));
    assert_eq!((&asked[..], expire(&mut recovery, due)), (&[0..1000][..], vec![]));
    assert_eq!((recovery.counters().resends, recovery.counters().timeouts), (1, 1));
    // The datagram with the request is lost as well.
    let due = recovery.next_timeout().unwrap();
    assert!(recovery.ask_unheard(3, 0, &mut asked, due));
    assert_eq!(expire(&mut recovery, due), []);
    // The grant policy still counts the bytes under the first permission.
    let mut parts = Vec::new();
    let first = header(3, 0, Some(0));
    recovery.handle_arrival(&(0..400), &first, true, due, |part, request| parts.push((part, request)));
    let answer = header(3, 3, Some(400));
    recovery.handle_arrival(&(400..900), &answer, true, due, |part, request| parts.push((part, request)));
    assert_eq!(parts, [(0..400, 0), (400..900, 0)]);
    // Once the request is acknowledged, missing bytes are declared lost as usual.
    let due = recovery.next_timeout().unwrap();
    assert!(!recovery.ask_unheard(4, 3, &mut asked, due));
    assert_eq!(expire(&mut recovery, due), [(900..1000, 0)]);
    assert_eq!((recovery.counters().late_after_loss, recovery.counters().lost_bytes), (0, 100));
}

/// First transmissions are sent in the order of the lane, not of the requests.
#[test]
fn an_earlier_request_for_later_bytes_is_not_overtaken_by_first_transmissions() {
    let mut recovery = lane();
    let due = recovery.next_timeout().unwrap();
    assert_eq!(expire(&mut recovery, due), [(0..1000, 0)]);
    recovery.ask(500..1000, 8, due);
    recovery.ask(0..500, 9, due);
    assert_eq!(arrive_hearing(&mut recovery, 0..100, 0, 9, due), [0..100]);
    assert_eq!(arrive_hearing(&mut recovery, 100..500, 0, 9, due), [100..500]);
    assert_eq!(expire(&mut recovery, due + MILLISECOND), []);
    assert_eq!(arrive_hearing(&mut recovery, 600..1000, 0, 9, due + MILLISECOND), [600..1000]);
    assert_eq!(expire(&mut recovery, due + MILLISECOND * 2), [(500..600, 8)]);
}

#[test]
fn a_mistake_widens_the_window() {
    let mut recovery = lane();
    arrive(&mut recovery, 100..200, 0, at(0));
    expire(&mut recovery, at(250));
    assert_eq!(arrive(&mut recovery, 0..100, 0, at(260)), []);
    assert_eq!((recovery.counters().late_after_loss, recovery.lost()), (1, 0..0));
    assert_eq!(recovery.window(), MILLISECOND / 2);
    // A duplicate made by the network does not count as wrongly declared loss.
    recovery.handle_arrival(&(100..200), &header(0, 0, Some(100)), false, at(270), |_, _| {
        panic!("accounted twice")
    });
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

#[test]
fn a_timer_that_was_mistaken_waits_longer_for_a_while() {
    let mut recovery = lane();
    arrive(&mut recovery, 0..900, 0, at(500));
    let due = at(500) + recovery.timeout();
    expire(&mut recovery, due);
    // Both pieces arrive late, which counts as one mistake of the timer.
    arrive(&mut recovery, 900..950, 0, due + MILLISECOND);
    arrive(&mut recovery, 950..1000, 0, due + MILLISECOND);
    assert_eq!((recovery.counters().late_after_loss, recovery.timeout()), (2, RoundTrip::FLOOR * 2));
    assert_eq!(recovery.window(), MILLISECOND / 4, "the reordering window stays");
    expire(&mut recovery, due + Duration::from_secs(2));
    assert_eq!(recovery.timeout(), RoundTrip::FLOOR);
}

/// Round trips through an empty port do not show how long a packet waits in a full port.
#[test]
fn no_timer_is_shorter_than_the_port_drains() {
    let mut recovery = lane();
    let usual = recovery.timeout();
    recovery.expect_queue(MILLISECOND * 47);
    assert!(usual < MILLISECOND * 4);
    assert_eq!(recovery.next_timeout(), Some(at(0) + MILLISECOND * 49));
    assert_eq!(expire(&mut recovery, at(48_999)), []);
    assert_eq!(expire(&mut recovery, at(49_000)), [(0..1000, 0)]);
    // A full port does not delay the detection of a loss by later bytes.
    let mut recovery = lane();
    recovery.expect_queue(MILLISECOND * 47);
    arrive(&mut recovery, 100..1000, 0, at(20));
    assert_eq!(expire(&mut recovery, at(270)), [(0..100, 0)]);
}

/// The time of a repair counts from the arrival of the bytes before the gap, not from the detection
/// of the loss.
#[test]
fn repairs_are_timed() {
    let mut recovery = lane();
    arrive(&mut recovery, 0..100, 0, at(10));
    arrive(&mut recovery, 200..1000, 0, at(20));
    expire(&mut recovery, at(270));
    recovery.ask(100..200, 9, at(270));
    arrive(&mut recovery, 100..200, 9, at(1300));
    let (repairs, round_trips) = recovery.times();
    assert_eq!((repairs.pairs()[1..].to_vec(), repairs.max()), (vec![1], 1290));
    assert_eq!(round_trips.pairs()[1..], [20]);
    // Bytes that arrive without a repetition do not count as a repair.
    recovery.permit(1000..1200, 1, at(1300));
    arrive(&mut recovery, 1100..1200, 0, at(1400));
    assert_eq!(expire(&mut recovery, at(1900)), [(1000..1100, 0)]);
    arrive(&mut recovery, 1000..1100, 0, at(1950));
    assert_eq!((recovery.times().0.max(), recovery.counters().late_after_loss), (1290, 1));
}

#[test]
fn it_knows_since_when_it_waits() {
    let mut recovery = lane();
    assert_eq!(recovery.waiting_since(), Some(at(0)));
    arrive(&mut recovery, 0..900, 0, at(10));
    expire(&mut recovery, at(900_000));
    recovery.ask(900..1000, 1, at(900_000));
    assert_eq!(recovery.waiting_since(), Some(at(10)), "a request is not an arrival");
    arrive(&mut recovery, 900..1000, 1, at(900_100));
    assert_eq!(recovery.waiting_since(), None);
}

#[test]
fn only_the_latest_losses_are_remembered() {
    let mut recovery = lane();
    let mut now = at(0);
    // Every second segment is lost, and the bytes of all losses arrive long after that.
    recovery.permit(1000..100_000, 1, now);
    for start in (0..100_000).step_by(200) {
        now += Duration::from_millis(2);
        arrive(&mut recovery, start + 100..start + 200, 0, now);
        expire(&mut recovery, now + MILLISECOND);
        recovery.invariants();
    }
    assert_eq!(recovery.written_off.len(), REMEMBERED);
    assert!(
        recovery.written_off.iter().all(|(range, ..)| range.start >= 100_000 - 200 * REMEMBERED as u64 - 200)
    );
    arrive(&mut recovery, 0..100, 0, now);
    assert_eq!(recovery.counters().late_after_loss, 0, "this loss is forgotten");
    arrive(&mut recovery, 99_600..99_700, 0, now);
    assert_eq!(recovery.counters().late_after_loss, 1);
}
