mod faults;

use core::time::Duration;

use bytes::BytesMut;
use proptest::prelude::*;

use super::{LAST_COMMITS, MAX_AHEAD, Output, PushError, SourceCore, SourceCoreConfig};
use crate::{
    fragment::{Fragment, Timestamp},
    id::{BuilderId, EventId, SourceId},
    index::LaneIndex,
    lane::Taken,
    time::Instant,
    units::Bytes,
    wire::control::{
        ContradictionReport, Control, Decisions, Heartbeat, Message, ReadingsWanted, ReadoutState,
        RoleReport, SourceReport, Verdict,
    },
};

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
}

pub(super) fn source(on_demand: bool) -> SourceCore {
    let config = SourceCoreConfig {
        id: SourceId::new(3),
        max_fragment: Bytes::new(100),
        orphan_timeout: PATIENCE,
        heartbeat: Duration::from_millis(100),
        builders: vec![BuilderId::new(4), BuilderId::new(9)],
        on_demand,
        decided: EventId::default(),
        deadline: Duration::MAX,
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    SourceCore::new(config, at(0))
}

fn fragment(event: u64) -> Fragment {
    Fragment::new(EventId::new(event), Timestamp::default(), vec![7; 50])
}

pub(super) fn decisions(first: u64, verdicts: &[Verdict]) -> Decisions {
    let mut decisions = Decisions::starting(EventId::new(first));
    verdicts.iter().for_each(|verdict| decisions.extend(1, *verdict));
    decisions
}

pub(super) fn report(source: &SourceCore) -> SourceReport {
    match source.report(0, None).message {
        Some(Message::Report(report)) => match report.report {
            Some(RoleReport::Source(report)) => report,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Returns the outputs of `poll`: lanes with announcements to send, and wanted events.
fn wishes(source: &mut SourceCore, now: Instant) -> (Vec<usize>, Vec<u64>) {
    let (mut lanes, mut wanted) = (Vec::new(), Vec::new());
    while let Some(output) = source.poll(now) {
        match output {
            Output::Announce(lane) => lanes.push(lane.get()),
            Output::Wanted(event) => wanted.push(event.number()),
            Output::Supervisor(_) => {}
        }
    }
    (lanes, wanted)
}

pub(super) const FOUR: Verdict = Verdict::Assigned(BuilderId::new(4));
const NINE: Verdict = Verdict::Assigned(BuilderId::new(9));

#[test]
fn fragment_and_decision_meet_in_either_order() {
    let mut source = source(false);
    source.push(fragment(1), at(0)).unwrap();
    source.handle_decisions(&decisions(1, &[NINE, FOUR])).unwrap();
    source.push(fragment(2), at(0)).unwrap();
    assert!(wishes(&mut source, at(0)).0.is_empty(), "no lane is connected");
    source.handle_lane_connected(LaneIndex::new(0), 0, 0).unwrap();
    source.handle_lane_connected(LaneIndex::new(1), 0, 0).unwrap();
    assert!(source.is_connected());
    assert_eq!(wishes(&mut source, at(0)).0, [0, 1]);
    assert_eq!((source.backlog(), source.uncommitted()), (Bytes::ZERO, 2));
    assert_eq!(source.undecided(), EventId::new(3));
}

#[test]
fn what_nobody_wants_is_dropped_by_its_cause() {
    let mut source = source(false);
    for event in [1, 2, 3, 3] {
        source.push(fragment(event), at(0)).unwrap();
    }
    let verdicts = [Verdict::Inhibited, Verdict::Closed, FOUR, Verdict::Inhibited, Verdict::Closed];
    source.handle_decisions(&decisions(1, &verdicts)).unwrap();
    for event in [3, 4, 5, 6] {
        source.push(fragment(event), at(0)).unwrap();
    }
    source.handle_timeout(at(5000));
    let counted = report(&source);
    assert_eq!((counted.inhibited, counted.unexpected, counted.repeats), (2, 1, 2));
    assert_eq!(counted.closed, 2, "events 2 and 5");
    assert_eq!(
        counted.pushed,
        counted.inhibited + counted.closed + counted.unexpected + counted.repeats + counted.uncommitted
    );
}

#[test]
fn what_is_refused_is_counted() {
    let mut source = source(true);
    for event in [0, 1 + MAX_AHEAD] {
        source.push(fragment(event), at(0)).unwrap_err();
    }
    let large = Fragment { payload: vec![7; 101].into(), ..fragment(1) };
    source.push(large, at(0)).unwrap_err();
    assert_eq!((report(&source).refused, report(&source).pushed), (3, 0));
}

#[test]
fn the_last_report_waits_for_commits_but_not_for_ever() {
    let mut source = source(false);
    assert!(!source.finish(at(0)) && source.next_finish().is_none(), "no report was requested");
    source.handle_finish(at(0));
    assert!(source.finish(at(0)), "everything is committed");
    assert!(!source.finish(at(0)) && source.next_finish().is_none(), "one report per request");
    source.push(fragment(1), at(0)).unwrap();
    source.handle_decisions(&decisions(1, &[FOUR])).unwrap();
    source.handle_finish(at(0));
    assert_eq!((source.uncommitted(), source.next_finish()), (1, Some(at(0) + LAST_COMMITS)));
    assert!(!source.finish(at(1999)));
    assert!(source.finish(at(2000)) && !source.finish(at(2000)));
}

#[test]
fn a_fragment_without_decision_waits_its_time() {
    let mut source = source(false);
    source.push(fragment(1), at(0)).unwrap();
    assert_eq!(source.backlog(), Bytes::new(50));
    source.handle_timeout(at(4999));
    assert_eq!(report(&source).unexpected, 0);
    source.handle_timeout(at(5000));
    assert_eq!((report(&source).unexpected, source.backlog()), (1, Bytes::ZERO));
    // The decision is too late, and the fragment is not requested again.
    source.handle_decisions(&decisions(1, &[FOUR])).unwrap();
    assert_eq!(source.uncommitted(), 0);
}

#[test]
fn a_generator_is_asked_once_per_assigned_event() {
    let mut source = source(true);
    let told = decisions(1, &[FOUR, Verdict::Inhibited, NINE]);
    source.handle_decisions(&told).unwrap();
    source.handle_decisions(&told).unwrap();
    assert_eq!(wishes(&mut source, at(0)).1, [1, 3]);
    source.push(fragment(1), at(0)).unwrap();
    source.push(fragment(3), at(0)).unwrap();
    source.handle_decisions(&told).unwrap();
    assert!(wishes(&mut source, at(0)).1.is_empty(), "repeated decisions change nothing");
    assert_eq!(report(&source).repeats, 0);
}

#[test]
fn wrong_fragments_are_refused_with_the_remedy() {
    let mut source = source(false);
    assert_eq!(source.push(fragment(0), at(0)), Err(PushError::EventZero));
    assert!(matches!(source.push(fragment(MAX_AHEAD + 1), at(0)), Err(PushError::TooFarAhead { .. })));
    let huge = Fragment::new(EventId::new(1), Timestamp::default(), vec![0; 101]);
    let refusal = source.push(huge, at(0)).unwrap_err().to_string();
    assert!(refusal.contains("raise max_fragment"), "{refusal}");
    assert_eq!(report(&source).pushed, 0);
    assert!(source.handle_decisions(&decisions(1, &[Verdict::Assigned(BuilderId::new(5))])).is_err());
}

#[test]
fn nothing_is_taken_from_a_lane_that_is_not_connected() {
    let mut source = source(false);
    source.push(fragment(1), at(0)).unwrap();
    source.handle_decisions(&decisions(1, &[FOUR])).unwrap();
    source.handle_lane_connected(LaneIndex::new(0), 0, 0).unwrap();
    source.announce(LaneIndex::new(0), at(0), &mut BytesMut::new());
    source.handle_grant(LaneIndex::new(0), 66).unwrap();
    assert_eq!(source.sendable(LaneIndex::new(0)), 66);
    source.handle_lane_disconnected(LaneIndex::new(0));
    assert_eq!((source.sendable(LaneIndex::new(0)), source.take(LaneIndex::new(0), 100)), (0, None));
    source.handle_lane_connected(LaneIndex::new(0), 30, 66).unwrap();
    source.handle_grant(LaneIndex::new(0), 66).unwrap();
    assert_eq!(source.take(LaneIndex::new(0), 100).map(|taken| taken.range), Some(30..66));
    assert_eq!(report(&source).reconnects, 1);
}

#[test]
fn heartbeats_echo_the_supervisors() {
    let mut source = source(false);
    let beat = |source: &mut SourceCore, now| match source.poll(now) {
        Some(Output::Supervisor(control)) => match control.message {
            Some(Message::Heartbeat(heartbeat)) => Some(heartbeat),
            other => panic!("{other:?}"),
        },
        None => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(beat(&mut source, at(0)).unwrap().echo_ns, 0);
    assert_eq!(source.next_timeout(), Some(at(100)));
    source.handle_heartbeat(&Heartbeat { sent_ns: 77, ..Heartbeat::default() }, at(40));
    assert!(beat(&mut source, at(99)).is_none());
    let second = beat(&mut source, at(100)).unwrap();
    assert_eq!((second.echo_ns, second.echo_delay_ns), (77, 60_000_000));
}

/// Returns true if the source tells the supervisor that its readout is silent, after 3 s.
fn falls_silent(is_paused: bool) -> bool {
    let deadline = Duration::from_millis(100);
    let mut source = SourceCore::new(SourceCoreConfig { deadline, ..source(false).config }, at(0));
    source.handle_decisions(&decisions(1, &[FOUR])).unwrap();
    source.handle_heartbeat(&Heartbeat { is_paused, ..Heartbeat::default() }, at(0));
    (1..300).map(|tick| at(10 * tick)).any(|now| {
        source.handle_timeout(now);
        core::iter::from_fn(|| source.poll(now)).any(|output| {
            let Output::Supervisor(Control { message: Some(Message::Readout(status)) }) = output else {
                return false;
            };
            status.state == ReadoutState::Silent
        })
    })
}

#[test]
fn readout_need_not_deliver_while_triggers_are_paused() {
    assert!(falls_silent(false));
    assert!(!falls_silent(true));
}

#[test]
fn rare_heartbeats_of_all_sources_are_at_the_same_times() {
    let next = |interval, now| {
        let heartbeat = Duration::from_millis(interval);
        let mut source = SourceCore::new(SourceCoreConfig { heartbeat, ..source(false).config }, now);
        assert!(matches!(source.poll(now), Some(Output::Supervisor(_))));
        source.next_timeout().unwrap()
    };
    for millis in [0, 1, 249, 250, 777] {
        assert_eq!(next(4000, at(millis)), at(4000 + millis / 250 * 250));
        assert_eq!(next(750, at(millis)), at(millis + 750));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    /// Invalid records cause an error at most, and the source's counts stay consistent.
    #[test]
    fn hostile_records_do_no_harm(
        steps in proptest::collection::vec((0u8..8, 0u64..1200, 0u64..1200, any::<u64>(), any::<u32>()), 1..60),
    ) {
        let mut source = source(false);
        let mut accepted = 0;
        for (kind, a, b, wild, number) in steps {
            let offset = if wild.is_multiple_of(4) { wild } else { a };
            match kind {
                0 | 1 => accepted += u64::from(source.push(fragment(1 + a % 20), at(b)).is_ok()),
                2 => {
                    let first = if wild.is_multiple_of(8) { wild } else { 1 + a % 20 };
                    let runs = vec![1 + number % 4, 2 + 4 + 5 * (number % 2), b as u32 % 3, number % 12];
                    let _ = source.handle_decisions(&Decisions { first, runs });
                }
                3 => drop(source.handle_lane_connected(LaneIndex::new((number % 2) as usize), offset, b)),
                4 => drop(source.handle_grant(LaneIndex::new((number % 2) as usize), offset)),
                5 => {
                    let ranges = [b..offset, offset..offset.saturating_add(b)];
                    let _ = source.handle_commit(LaneIndex::new((number % 2) as usize), a, &ranges);
                }
                6 => {
                    let lane = (number % 2) as usize;
                    if let Some(Taken { range, .. }) = source.take(LaneIndex::new(lane), 1 + b) {
                        let length = range.end - range.start;
                        let mut slices = Vec::with_capacity(64);
                        prop_assert!(source.gather(LaneIndex::new(lane), range, &mut slices) <= length);
                    }
                }
                _ => {
                    let mut records = BytesMut::new();
                    (0..2).for_each(|lane| source.announce(LaneIndex::new(lane), at(0), &mut records));
                    prop_assert!(records.len() <= 60 * 24 + 32);
                }
            }
        }
        let counted = report(&source);
        prop_assert_eq!(counted.pushed, accepted);
        let repeated = counted.repeats + counted.repeats_not_compared + counted.contradictions;
        let dropped = counted.inhibited + counted.closed + counted.unexpected + repeated;
        prop_assert_eq!(accepted, dropped + counted.committed + counted.uncommitted);
    }
}

#[test]
fn a_fragment_counts_as_committed_once() {
    let mut source = source(true);
    source.handle_decisions(&decisions(1, &[FOUR, FOUR, FOUR])).unwrap();
    for event in 1..=3 {
        source.push(fragment(event), at(0)).unwrap();
    }
    source.handle_lane_connected(LaneIndex::new(0), 0, 0).unwrap();
    source.announce(LaneIndex::new(0), at(0), &mut BytesMut::new());
    let whole = 50 + 16;
    source.handle_grant(LaneIndex::new(0), 3 * whole).unwrap();
    source.take(LaneIndex::new(0), 2 * whole).unwrap();
    assert_eq!(source.uncommitted(), 3);
    // The commits cover fragments in order, out of order, and repeatedly.
    source.handle_commit(LaneIndex::new(0), whole, &[]).unwrap();
    let second = whole..2 * whole;
    source.handle_commit(LaneIndex::new(0), whole, core::slice::from_ref(&second)).unwrap();
    source.handle_commit(LaneIndex::new(0), 2 * whole, &[]).unwrap();
    let counted = report(&source);
    assert_eq!((counted.pushed, counted.committed, counted.uncommitted), (3, 2, 1));
    assert!(source.handle_commit(LaneIndex::new(0), 3 * whole, &[]).is_err(), "it was not sent");
    assert_eq!(report(&source).committed, 2);
}

/// A burst of triggers is inhibited, except for its first triggers, before any fragment is pushed.
#[test]
fn an_assignment_is_kept_however_many_triggers_are_inhibited_behind_it() {
    for on_demand in [true, false] {
        let mut source = source(on_demand);
        let mut assigned = Decisions::starting(EventId::FIRST);
        assigned.extend(100, FOUR);
        source.handle_decisions(&assigned).unwrap();
        for batch in 0..20 {
            let mut inhibited = Decisions::starting(EventId::new(101 + batch * 50_000));
            inhibited.extend(50_000, Verdict::Inhibited);
            source.handle_decisions(&inhibited).unwrap();
        }
        assert!(source.backlog.places() <= 1 << 16);
        assert_eq!(wishes(&mut source, at(0)).1.len(), if on_demand { 100 } else { 0 });
        for event in 1..=100 {
            source.push(fragment(event), at(0)).unwrap();
        }
        assert_eq!((source.uncommitted(), report(&source).closed), (100, 0));
        source.push(fragment(1), at(0)).unwrap();
        source.push(fragment(200), at(0)).unwrap();
        let counted = report(&source);
        assert_eq!(
            (source.uncommitted(), counted.repeats, counted.closed),
            (100, 1, 1),
            "event 1 is a repetition, event 200 was inhibited"
        );
    }
}

#[test]
fn on_demand_nothing_is_remembered_of_events_that_want_no_fragment() {
    for on_demand in [true, false] {
        let mut source = source(on_demand);
        let mut decisions = Decisions::starting(EventId::FIRST);
        decisions.extend(1000, Verdict::Inhibited);
        source.handle_decisions(&decisions).unwrap();
        assert_eq!(source.backlog.places(), if on_demand { 0 } else { 1000 });
        assert_eq!(source.undecided(), EventId::new(1001));
        // A fragment that arrives later is dropped in both cases.
        source.push(fragment(7), at(0)).unwrap();
        assert_eq!(source.backlog_fragments(), 0);
    }
}

#[test]
fn the_report_has_what_the_driver_sampled() {
    let mut source = source(false);
    let stages = report(&source).stages.expect("the report has stages");
    assert_eq!((stages.wake_us.len(), stages.write_us.len()), (0, 0), "no sample was taken");
    source.record_grant_wake(Duration::from_micros(7));
    source.record_grant_wake(Duration::from_micros(7));
    source.record_grant_answer(Duration::from_micros(30));
    let stages = report(&source).stages.expect("the report has stages");
    assert_eq!((&stages.wake_us[..], &stages.write_us[..]), (&[7, 2][..], &[30, 1][..]));
}

#[test]
fn a_repeated_fragment_is_compared_with_the_first_one() {
    let mut source = source(false);
    source.handle_decisions(&decisions(1, &[FOUR, FOUR, FOUR])).unwrap();
    let other = |event, timestamp| Fragment { timestamp: Timestamp::new(timestamp), ..fragment(event) };
    for pushed in [other(1, 10), fragment(2), other(1, 10), other(1, 40), other(1, 50), fragment(2)] {
        source.push(pushed, at(0)).unwrap();
    }
    let counted = report(&source);
    assert_eq!((counted.repeats, counted.contradictions, counted.closed), (2, 2, 0));
    let first = ContradictionReport { event: 1, first_timestamp: 10, second_timestamp: 40 };
    assert_eq!(counted.contradiction, Some(first));
    assert_eq!(source.uncommitted(), 2, "the first fragments stay");
}

/// Returns the number of timestamps that the source remembers.
fn remembered(source: &mut SourceCore) -> usize {
    source.handle_readings_wanted(ReadingsWanted { question: 1, event: 0 }, at(0));
    while let Some(output) = source.poll(at(0)) {
        if let Output::Supervisor(Control { message: Some(Message::Readings(readings)) }) = output {
            return readings.events.len();
        }
    }
    panic!("the question is not answered");
}

#[test]
fn timestamps_from_before_the_start_are_remembered_if_their_fragments_are_kept() {
    let mut source = source(false);
    for event in 1..=5 {
        source.push(fragment(event), at(0)).unwrap();
    }
    source.remember_readings(true);
    assert_eq!(remembered(&mut source), 5);
    source.discard();
    assert_eq!(remembered(&mut source), 0);
}
