//! Tests of a builder with supervisors that restart, builders that take over events, and sources
//! that restart.

use core::time::Duration;

use super::bench::{Bench, DEADLINE, at, on_the_lane};
use crate::{
    builder::{Output, RosterError, Standing},
    event::{Cause, MissingSource},
    id::{Epoch, EventId, Incarnation, SourceId},
    index::LaneIndex,
    set::SourceSet,
    wire::control::{Accounted, Assignments, Completions, Control, Heartbeat, Load, Message},
};

fn set(indices: &[usize]) -> SourceSet {
    indices.iter().copied().collect()
}

/// Returns an assignment that names the sources that the event expects.
fn named(event: u64, expected: &[u32], epoch: u64, answer: u32) -> Assignments {
    let expected = expected.to_vec();
    let mut named = Assignments { expected, epoch, answer, ..Assignments::default() };
    named.add(&mut (EventId::default(), 0), EventId::new(event), at(0).as_nanos());
    named
}

/// Returns the messages that the builder now sends to the supervisor.
fn said(bench: &mut Bench, millis: u64) -> Vec<Message> {
    let mut said = Vec::new();
    while let Some(output) = bench.core.poll(at(millis)) {
        match output {
            Output::Event(event) => bench.events.push(event),
            Output::Lane(lane) => bench.core.write_records(lane, &mut bytes::BytesMut::new()),
            Output::Supervisor(Control { message }) => said.extend(message),
        }
    }
    said
}

fn completions(said: &[Message]) -> Vec<Completions> {
    let completions = said.iter().filter_map(|message| match message {
        Message::Completions(completions) => Some(completions.clone()),
        _ => None,
    });
    completions.collect()
}

fn committed(bench: &Bench, lane: LaneIndex) -> u64 {
    bench.core.lanes.lane(lane).incoming().committed()
}

/// A source may forget fragments when the ledger has their event, but not when the event is only
/// written (docs/reference/protocol.md RUN-20).
#[test]
fn lanes_settle_when_the_ledger_has_the_event() {
    let mut bench = Bench::new(1, 2);
    bench.accounts = false;
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(0), 1, b"kept", at(1));
    bench.write_all(at(2));
    assert_eq!((bench.core.slots_used(), bench.core.unaccounted()), (0, 1), "the slot is free now");
    assert_eq!(committed(&bench, LaneIndex::new(0)), 0);
    assert!(!bench.core.is_idle());
    bench.core.handle_accounted(&Accounted { completions: 1 }).unwrap();
    assert_eq!((committed(&bench, LaneIndex::new(0)), bench.core.unaccounted()), (bench.ready[0], 0));
    let fault = bench.core.handle_accounted(&Accounted { completions: 2 });
    assert!(matches!(fault, Err(RosterError::NeverCompleted(2))), "{fault:?}");
}

#[test]
fn what_the_ledger_may_not_have_is_said_again_on_another_connection() {
    let mut bench = Bench::new(1, 4);
    bench.accounts = false;
    bench.assign(&[1, 2, 3], at(0));
    for event in 1..=3 {
        bench.send(LaneIndex::new(0), event, b"x", at(1));
    }
    bench.write_all(at(2));
    bench.core.handle_accounted(&Accounted { completions: 1 }).unwrap();
    bench.core.handle_supervisor_lost();
    assert!(said(&mut bench, 5000).is_empty(), "there is no supervisor");
    bench.core.handle_registered(at(5000), at(5001));
    let again = completions(&said(&mut bench, 5001));
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].before, again[0].events().count()), (1, 2));
    // A repeated assignment of a completed event is skipped: the event opens no slot, and its
    // completion stays.
    bench.core.handle_assignments(&named(2, &[1], 1, 0), at(5002)).unwrap();
    assert_eq!(bench.core.slots_used(), 0);
    // An event whose first assignment never arrived is built.
    bench.core.handle_assignments(&named(4, &[1], 1, 0), at(5002)).unwrap();
    assert_eq!(bench.core.slots_used(), 1);
}

/// Without a valid lease, no event is given to the sink (docs/reference/protocol.md RUN-31).
#[test]
fn nothing_is_written_without_a_lease() {
    let mut bench = Bench::with_lease(1, 4, Duration::from_secs(1));
    bench.core.handle_registered(at(0), at(3));
    bench.assign(&[1], at(500));
    bench.send(LaneIndex::new(0), 1, b"x", at(999));
    assert_eq!(bench.events.len(), 1);
    bench.write_all(at(999));
    bench.assign(&[2], at(999));
    bench.send(LaneIndex::new(0), 2, b"x", at(1000));
    assert!(bench.events.is_empty(), "the lease counts from the greeting, not from its answer");
    assert_eq!(bench.core.slots_used(), 1);
    let heartbeat =
        |echo: u64| Heartbeat { sent_ns: 1, echo_ns: at(echo).as_nanos(), ..Heartbeat::default() };
    // These heartbeats do not renew the lease: one echoes an old heartbeat, and one echoes none.
    bench.core.handle_heartbeat(&heartbeat(0), at(1500));
    bench.core.handle_heartbeat(&Heartbeat { sent_ns: 1, ..Heartbeat::default() }, at(1500));
    bench.poll(at(1500));
    assert!(bench.events.is_empty());
    bench.core.handle_heartbeat(&heartbeat(1400), at(1600));
    bench.poll(at(1600));
    assert_eq!(bench.events.len(), 1);
    bench.write_all(at(1600));
    bench.assign(&[3], at(1600));
    bench.core.handle_heartbeat(&heartbeat(9_999_999), at(1700));
    bench.send(LaneIndex::new(0), 3, b"x", at(2800));
    assert!(bench.events.is_empty(), "an echo from the future renews the lease only from now");
}

/// A builder takes over another builder's event although it has had later events
/// (docs/reference/protocol.md RUN-33).
#[test]
fn an_event_of_another_builder_is_taken_over_though_its_time_is_past() {
    let mut bench = Bench::new(2, 4);
    bench.assign(&[100], at(0));
    bench.core.handle_assignments(&named(7, &[1, 2], 9, 3), at(1)).unwrap();
    let answers = said(&mut bench, 1);
    assert!(answers.iter().any(|said| matches!(said, Message::Accepted(accepted) if accepted.answer == 3)));
    bench.send(LaneIndex::new(0), 7, b"a", at(2));
    bench.send(LaneIndex::new(1), 7, b"b", at(2));
    let [event] = &bench.events[..] else { panic!("{:?}", bench.events) };
    assert_eq!((event.id, event.epoch, event.is_complete()), (EventId::new(7), Epoch::new(9), true));
    assert_eq!(bench.report().lanes.iter().map(|lane| lane.late).sum::<u64>(), 0);
    let fault = bench.core.handle_assignments(&named(8, &[3], 9, 0), at(3));
    assert!(matches!(fault, Err(RosterError::UnknownSource(3))), "{fault:?}");
}

#[test]
fn an_assignment_that_is_said_again_in_a_later_epoch_is_of_that() {
    let mut bench = Bench::new(1, 4);
    bench.assign(&[1], at(0));
    bench.core.handle_assignments(&named(1, &[1], 5, 0), at(1)).unwrap();
    assert_eq!(bench.core.slots_used(), 1);
    bench.send(LaneIndex::new(0), 1, b"x", at(2));
    assert_eq!(bench.events[0].epoch, Epoch::new(5));
}

/// A fragment of a quiet source is used if it comes in time (docs/reference/protocol.md RUN-45).
#[test]
fn events_do_not_wait_for_a_quiet_source_but_use_its_fragment() {
    let mut bench = Bench::new(2, 4);
    let assign = |bench: &mut Bench, roster_version, event| {
        let mut assignments = Assignments { roster_version, ..Assignments::default() };
        assignments.add(&mut (EventId::default(), 0), EventId::new(event), 0);
        bench.core.handle_assignments(&assignments, at(event)).unwrap();
    };
    assign(&mut bench, 1, 1);
    bench.core.set_standing(Standing { quiet: set(&[1]), ..Standing::default() });
    bench.core.handle_roster(2, set(&[0, 1]), set(&[]), at(1));
    bench.send(LaneIndex::new(0), 1, b"here", at(1));
    assert!(bench.events.is_empty(), "the fragment of an earlier event may be on its way");
    bench.send(LaneIndex::new(1), 1, b"on its way", at(1));
    assert!(bench.events[0].is_complete());
    assign(&mut bench, 2, 2);
    bench.send(LaneIndex::new(0), 2, b"here", at(2));
    assert_eq!(bench.events[1].missing, [MissingSource::new(SourceId::new(2), Cause::NoReadout)]);
    assign(&mut bench, 2, 3);
    bench.send(LaneIndex::new(1), 3, b"in time", at(3));
    bench.send(LaneIndex::new(0), 3, b"here", at(3));
    assert!(bench.events[2].is_complete());
    bench.core.set_standing(Standing { quiet: set(&[]), ..Standing::default() });
    bench.core.handle_roster(3, set(&[0, 1]), set(&[]), at(3));
    assign(&mut bench, 3, 4);
    bench.send(LaneIndex::new(0), 4, b"here", at(4));
    assert_eq!(bench.events.len(), 3, "the source is expected again");
}

/// The deadline of an event does not run while the event waits for an awaited source, and begins
/// again when the source is up (docs/reference/protocol.md RUN-36).
#[test]
fn events_wait_for_an_awaited_source_and_their_deadline_begins_anew() {
    let mut bench = Bench::new(2, 4);
    let deadline = DEADLINE.as_millis() as u64;
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(0), 1, b"here", at(1));
    bench.core.handle_roster(2, set(&[0]), set(&[1]), at(2));
    let mut assignments = Assignments { roster_version: 2, ..Assignments::default() };
    assignments.add(&mut (EventId::default(), 0), EventId::new(2), 0);
    bench.core.handle_assignments(&assignments, at(3)).unwrap();
    bench.send(LaneIndex::new(0), 2, b"here", at(3));
    bench.core.handle_timeout(at(100 * deadline));
    bench.poll(at(100 * deadline));
    assert!(bench.events.is_empty(), "both events wait");
    let back = 100 * deadline + 1;
    bench.core.handle_roster(3, set(&[0, 1]), set(&[]), at(back));
    bench.send(LaneIndex::new(1), 1, b"late, and in time", at(back + deadline - 1));
    assert!(bench.events[0].is_complete());
    bench.core.handle_timeout(at(back + deadline - 1));
    assert_eq!(bench.core.slots_used(), 2);
    bench.core.handle_timeout(at(back + deadline));
    bench.poll(at(back + deadline));
    assert!(bench.events[1].missing_sources().eq([SourceId::new(2)]));
}

/// Before the roster says that an awaited source is up, its fragment may arrive, arrive damaged, or
/// be given up. In each case, the deadline for the other silent source begins again
/// (docs/reference/protocol.md RUN-36).
#[test]
fn who_keeps_silent_beside_an_awaited_source_has_a_deadline_when_it_is_there() {
    let late = DEADLINE.as_millis() as u64 * 100;
    for comes in ["early", "damaged", "never"] {
        let mut bench = Bench::new(3, 4);
        bench.assign(&[1], at(0));
        bench.send(LaneIndex::new(0), 1, b"here", at(1));
        bench.core.handle_roster(2, set(&[0, 1]), set(&[2]), at(2));
        bench.core.handle_timeout(at(late));
        bench.poll(at(late));
        assert!(bench.events.is_empty(), "source 3 is awaited, and source 2 is silent");
        match comes {
            "early" => bench.send(LaneIndex::new(2), 1, b"early", at(late)),
            "damaged" => {
                let mut bytes = on_the_lane(1, b"early");
                *bytes.last_mut().unwrap() ^= 1;
                bench.announce(LaneIndex::new(2), 1, 5, at(late));
                bench.data(LaneIndex::new(2), &bytes, at(late)).unwrap();
            }
            _ => drop(bench.core.handle_roster(3, set(&[0, 1]), set(&[]), at(late))),
        }
        let over = late + DEADLINE.as_millis() as u64;
        bench.core.handle_timeout(at(over - 1));
        bench.poll(at(over - 1));
        assert!(bench.events.is_empty(), "{comes}: the deadline begins again");
        bench.core.handle_timeout(at(over));
        bench.poll(at(over));
        let missing: Vec<u16> = bench.events[0].missing_sources().map(SourceId::number).collect();
        assert_eq!(missing, if comes == "early" { vec![2] } else { vec![2, 3] }, "{comes}");
    }
}

#[test]
fn who_is_waited_for_no_more_is_given_up() {
    let mut bench = Bench::new(2, 4);
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(0), 1, b"here", at(1));
    bench.core.handle_roster(2, set(&[0]), set(&[1]), at(2));
    bench.core.handle_roster(3, set(&[0]), set(&[]), at(3));
    bench.poll(at(3));
    assert_eq!(bench.events[0].missing, [MissingSource::new(SourceId::new(2), Cause::GivenUp)]);
}

/// The lane of a source's new process begins at 0, and brings the fragments that the old process
/// did not deliver (docs/reference/protocol.md LANE-24).
#[test]
fn the_lane_of_another_process_begins_at_0_and_brings_what_the_old_one_did_not() {
    let mut bench = Bench::new(2, 4);
    bench.accounts = false;
    assert!(bench.core.meet(LaneIndex::new(1), Incarnation::new(1), at(0)));
    bench.core.handle_lane_connected(LaneIndex::new(1), at(0));
    bench.assign(&[1, 2, 3], at(0));
    bench.send(LaneIndex::new(1), 1, b"whole", at(1));
    bench.send(LaneIndex::new(0), 1, b"whole", at(1));
    bench.write_all(at(1));
    // Half of a fragment of event 2 arrives, and only an announcement for event 3.
    bench.announce(LaneIndex::new(1), 2, 6, at(2));
    bench.data(LaneIndex::new(1), &on_the_lane(2, b"halves")[..20], at(2)).unwrap();
    bench.announce(LaneIndex::new(1), 3, 3, at(2));
    assert!(bench.core.meet(LaneIndex::new(1), Incarnation::new(2), at(3)));
    assert!(!bench.core.meet(LaneIndex::new(1), Incarnation::new(1), at(3)), "it was replaced");
    let held = bench.core.handle_lane_connected(LaneIndex::new(1), at(3));
    assert_eq!((held.received, held.announced, held.committed), (0, 0, 0));
    bench.ready[1] = 0;
    // The ledger's answer concerns a fragment of the old lane, so it commits nothing on the new
    // one.
    bench.core.handle_accounted(&Accounted { completions: 1 }).unwrap();
    assert_eq!(committed(&bench, LaneIndex::new(1)), 0);
    for (event, payload) in [(2, b"anew 2"), (3, b"anew 3")] {
        bench.send(LaneIndex::new(1), event, payload, at(4));
        bench.send(LaneIndex::new(0), event, b"zero", at(4));
    }
    let payloads: Vec<_> =
        bench.events.iter().flat_map(|event| event.fragments().map(|f| f.payload.to_vec())).collect();
    assert_eq!(payloads, [b"zero".to_vec(), b"anew 2".to_vec(), b"zero".to_vec(), b"anew 3".to_vec()]);
    assert!(bench.events.iter().all(|event| event.is_complete()));
    let report = bench.report();
    assert_eq!((report.lanes[1].late, report.lanes[1].duplicate, report.lanes[1].unexpected), (0, 0, 0));
}

#[test]
fn fragments_that_arrived_from_an_earlier_process_stay_and_are_not_taken_twice() {
    let mut bench = Bench::new(2, 4);
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(1), 1, b"first", at(1));
    assert!(bench.core.meet(LaneIndex::new(1), Incarnation::new(2), at(2)));
    bench.core.handle_lane_connected(LaneIndex::new(1), at(2));
    bench.ready[1] = 0;
    bench.send(LaneIndex::new(1), 1, b"other", at(3));
    bench.send(LaneIndex::new(0), 1, b"zero", at(3));
    let payloads: Vec<_> = bench.events[0].fragments().map(|fragment| fragment.payload).collect();
    assert_eq!(payloads, [b"zero".as_slice(), b"first"]);
    assert_eq!(bench.report().lanes[1].duplicate, 1);
}

/// The memory of an event does not grow when a source restarts many times.
#[test]
fn half_fragments_of_many_lives_take_room_once() {
    let mut bench = Bench::new(2, 1);
    bench.assign(&[1], at(0));
    let room = bench.core.slots.arenas();
    for life in 1..2000 {
        assert!(bench.core.meet(LaneIndex::new(1), Incarnation::new(life), at(1)));
        bench.core.handle_lane_connected(LaneIndex::new(1), at(1));
        bench.ready[1] = 0;
        bench.announce(LaneIndex::new(1), 1, 1000, at(1));
        bench.data(LaneIndex::new(1), &on_the_lane(1, &[7; 1000])[..300], at(1)).unwrap();
        if life % 100 == 0 {
            bench.send(LaneIndex::new(0), 1, b"", at(1));
        }
    }
    assert_eq!(bench.core.slots.arenas(), room);
    let life = Incarnation::new(2000);
    assert!(bench.core.meet(LaneIndex::new(1), life, at(2)));
    bench.core.handle_lane_connected(LaneIndex::new(1), at(2));
    bench.ready[1] = 0;
    bench.send(LaneIndex::new(1), 1, &[9; 900], at(2));
    let payloads: Vec<_> = bench.events[0].fragments().map(|fragment| fragment.payload).collect();
    assert_eq!(payloads, [b"".as_slice(), &[9; 900]]);
}

#[test]
fn with_many_sources_heartbeats_of_all_builders_are_at_the_same_times() {
    let next = |sources, now| {
        let mut bench = Bench::new(sources, 4);
        while bench.core.poll(now).is_some() {}
        bench.core.next_timeout().unwrap()
    };
    // The builder's heartbeats are a second apart.
    for millis in [0, 1, 249, 250, 777] {
        assert_eq!(next(64, at(millis)), at(millis + 1000));
        assert_eq!(next(65, at(millis)), at(1000 + millis / 250 * 250));
    }
}

#[test]
fn heartbeats_say_what_the_slots_are_taken_by() {
    let mut bench = Bench::new(2, 4);
    bench.assign(&[1, 2, 3], at(0));
    bench.send(LaneIndex::new(0), 1, b"x", at(1));
    bench.send(LaneIndex::new(0), 2, b"x", at(1));
    bench.send(LaneIndex::new(1), 2, b"x", at(1));
    let load = bench.core.load();
    // Event 1 waits for source 2, and event 3 for both sources.
    assert_eq!(load, Load { building: 2, at_sink: 1, slowest: 2, slowest_events: 2, others_events: 1 });
}

#[test]
fn heartbeats_say_how_long_the_slowest_source_is_waited_for_beside_the_others() {
    let others_events = |sources: u16, sent: &[(usize, &[u64])]| {
        let mut bench = Bench::new(sources, 4);
        bench.assign(&[1, 2, 3, 4], at(0));
        for (source, events) in sent {
            events.iter().for_each(|event| bench.send(LaneIndex::new(*source), *event, b"x", at(1)));
        }
        let load = bench.core.load();
        (load.slowest, load.slowest_events, load.others_events)
    };
    // A single source has no other sources, so there is no median.
    assert_eq!(others_events(1, &[]), (1, 4, 0));
    assert_eq!(others_events(3, &[(0, &[1, 2, 3, 4]), (2, &[1, 2, 3])]), (2, 4, 0));
    // The median of 0, 1 and 3 events is 1. Of 0 and 2 events, the lower number is used.
    let three: [(usize, &[u64]); 3] = [(0, &[1]), (1, &[1, 2, 3]), (3, &[1, 2, 3, 4])];
    assert_eq!(others_events(4, &three), (3, 4, 1));
    assert_eq!(others_events(3, &[(0, &[1]), (1, &[1, 2, 3])]), (3, 4, 1));
}

#[test]
fn a_builder_that_is_full_says_so_soon_and_not_too_often() {
    let mut bench = Bench::new(2, 3);
    let pass = |bench: &mut Bench, until: u64| {
        while let Some(next) = bench.core.next_timeout().filter(|next| *next <= at(until)) {
            bench.core.handle_timeout(next);
            bench.poll(next);
        }
    };
    bench.assign(&[1, 2], at(0));
    // A builder with a free slot sends one heartbeat per second.
    pass(&mut bench, 1050);
    bench.assign(&[3], at(1050));
    bench.send(LaneIndex::new(0), 1, b"x", at(1060));
    bench.send(LaneIndex::new(1), 1, b"x", at(1060));
    pass(&mut bench, 1199);
    assert_eq!(bench.loads.iter().map(|(when, _)| *when).collect::<Vec<_>>(), [at(0), at(1000)]);
    // While the last free slot is taken again and again, the builder sends five heartbeats per
    // second.
    let mut assigned = 3;
    for now in (1200..2000).step_by(10) {
        bench.write_all(at(now));
        pass(&mut bench, now);
        assigned += 1;
        bench.assign(&[assigned], at(now));
        bench.send(LaneIndex::new(0), assigned - 2, b"x", at(now));
        bench.send(LaneIndex::new(1), assigned - 2, b"x", at(now));
    }
    let spoke: Vec<_> = bench.loads[2..].iter().map(|(when, _)| *when).collect();
    assert_eq!(spoke, [at(1200), at(1400), at(1600), at(1800)]);
    // If no further slot is taken, heartbeats follow at the usual interval.
    pass(&mut bench, 3100);
    let later: Vec<_> = bench.loads[6..].iter().map(|(when, load)| (*when, load.building)).collect();
    assert_eq!(later, [(at(2000), 2), (at(3000), 2)]);
}

#[test]
fn events_of_an_earlier_life_at_the_sink_hold_new_ones_back() {
    let mut bench = Bench::new(1, 2);
    bench.core.open_sink(false);
    bench.assign(&[1], at(0));
    bench.send(LaneIndex::new(0), 1, b"x", at(1));
    assert!(bench.events.is_empty());
    bench.core.open_sink(true);
    bench.poll(at(2));
    assert_eq!(bench.events.len(), 1);
}

#[test]
fn a_ledger_that_does_not_keep_up_is_left() {
    let mut bench = Bench::new(1, 2);
    bench.accounts = false;
    for event in 1..=5 {
        bench.assign(&[event], at(0));
        bench.send(LaneIndex::new(0), event, b"x", at(1));
        bench.write_all(at(1));
    }
    let fault = bench.core.handle_assignments(&named(6, &[1], 1, 0), at(2));
    assert!(matches!(fault, Err(RosterError::Unaccounted { count: 5, slots: 2 })), "{fault:?}");
}

fn standing(excluded: &[usize], released: &[usize], expendable: &[usize]) -> Standing {
    let [excluded, released, expendable] = [excluded, released, expendable].map(set);
    Standing { excluded, released, expendable, ..Standing::default() }
}

fn under(roster_version: u32, event: u64) -> Assignments {
    let mut assignments = Assignments { roster_version, ..Assignments::default() };
    assignments.add(&mut (EventId::default(), 0), EventId::new(event), 0);
    assignments
}

#[test]
fn events_owe_nothing_of_an_excluded_source_by_their_ids() {
    let mut bench = Bench::new(2, 6);
    bench.core.handle_assignments(&under(1, 1), at(1)).unwrap();
    bench.core.set_standing(standing(&[1], &[1], &[]));
    bench.core.handle_roster(2, set(&[0, 1]), set(&[]), at(2));
    bench.send(LaneIndex::new(0), 1, b"here", at(2));
    let released = MissingSource::new(SourceId::new(2), Cause::Released);
    assert_eq!((&bench.events[0].missing, &bench.events[0].absent), (&vec![released], &vec![]));
    bench.core.handle_assignments(&under(2, 2), at(3)).unwrap();
    bench.send(LaneIndex::new(0), 2, b"here", at(3));
    let excluded = MissingSource::new(SourceId::new(2), Cause::Excluded);
    assert_eq!((bench.events[1].is_complete(), &bench.events[1].absent), (true, &vec![excluded]));
    // An event that another builder had before the exclusion, and one after it.
    bench.core.handle_assignments(&named(3, &[1, 2], 2, 0), at(4)).unwrap();
    let after = Assignments { excluded: vec![2], ..named(4, &[1], 2, 0) };
    bench.core.handle_assignments(&after, at(4)).unwrap();
    bench.send(LaneIndex::new(0), 3, b"here", at(4));
    bench.send(LaneIndex::new(0), 4, b"here", at(4));
    assert_eq!((&bench.events[2].missing, &bench.events[3].absent), (&vec![released], &vec![excluded]));
    bench.core.set_standing(standing(&[], &[], &[]));
    bench.core.handle_roster(3, set(&[0, 1]), set(&[]), at(5));
    bench.core.handle_assignments(&under(3, 5), at(5)).unwrap();
    bench.send(LaneIndex::new(0), 5, b"here", at(5));
    assert_eq!(bench.events.len(), 4, "the source owes a fragment again");
    bench.send(LaneIndex::new(1), 5, b"here", at(5));
    assert!(bench.events[4].is_whole());
    bench.write_all(at(6));
}

/// Without `released`, events that were assigned before the exclusion go on waiting.
#[test]
fn an_exclusion_from_a_later_event_on_releases_no_event() {
    let mut bench = Bench::new(2, 4);
    bench.core.handle_assignments(&under(1, 1), at(1)).unwrap();
    bench.send(LaneIndex::new(0), 1, b"here", at(1));
    bench.core.set_standing(standing(&[1], &[], &[]));
    bench.core.handle_roster(2, set(&[0, 1]), set(&[]), at(2));
    assert!(bench.events.is_empty());
    bench.send(LaneIndex::new(1), 1, b"here", at(3));
    assert!(bench.events[0].is_whole());
}

/// An event waits for an expendable source until its deadline at most, even for announced bytes.
#[test]
fn an_event_is_complete_without_an_expendable_source() {
    let mut bench = Bench::new(3, 4);
    bench.core.set_standing(standing(&[], &[], &[1, 2]));
    bench.core.handle_roster(2, set(&[0, 1, 2]), set(&[]), at(1));
    bench.core.handle_assignments(&under(2, 1), at(1)).unwrap();
    bench.announce(LaneIndex::new(2), 1, 4, at(1));
    bench.send(LaneIndex::new(0), 1, b"here", at(1));
    assert!(bench.events.is_empty(), "the others may come");
    bench.core.handle_timeout(at(1) + DEADLINE);
    bench.poll(at(1) + DEADLINE);
    let event = &bench.events[0];
    let absent = [2, 3].map(|id| MissingSource::new(SourceId::new(id), Cause::Expendable));
    assert_eq!((event.is_complete(), event.is_whole(), &event.absent[..]), (true, false, &absent[..]));
    // It waits for no expendable source that is away.
    bench.core.handle_roster(3, set(&[0]), set(&[]), at(1) + DEADLINE);
    bench.core.handle_assignments(&under(3, 2), at(1) + DEADLINE).unwrap();
    bench.send(LaneIndex::new(0), 2, b"here", at(1) + DEADLINE);
    assert_eq!((bench.events[1].is_complete(), bench.events[1].absent.len()), (true, 2));
    bench.write_all(at(1) + DEADLINE);
}

/// A sporadic source owes nothing, and is neither missing nor absent.
#[test]
fn a_fragment_of_a_sporadic_source_joins_if_it_is_there_in_time() {
    let wait = Duration::from_millis(5);
    for sporadic_wait in [Duration::ZERO, wait] {
        let mut bench = Bench::new(3, 6);
        bench.core.set_standing(Standing { sporadic: set(&[2]), sporadic_wait, ..Standing::default() });
        bench.core.handle_roster(2, set(&[0, 1, 2]), set(&[]), at(1));
        for event in 1..=3 {
            bench.core.handle_assignments(&under(2, event), at(1)).unwrap();
        }
        let send = |bench: &mut Bench, lane: usize, event: u64| {
            bench.send(LaneIndex::new(lane), event, b"here", at(1));
        };
        // It comes first.
        [2, 0, 1].into_iter().for_each(|lane| send(&mut bench, lane, 1));
        assert_eq!(bench.events[0].fragments.len(), 3);
        // It comes last.
        [0, 1].into_iter().for_each(|lane| send(&mut bench, lane, 2));
        assert_eq!(bench.events.len() == 2, sporadic_wait.is_zero());
        send(&mut bench, 2, 2);
        assert_eq!(bench.events[1].fragments.len(), if sporadic_wait.is_zero() { 2 } else { 3 });
        // It does not come.
        [0, 1].into_iter().for_each(|lane| send(&mut bench, lane, 3));
        if !sporadic_wait.is_zero() {
            assert_eq!(bench.events.len(), 2);
            assert!(bench.core.next_timeout().is_some_and(|time| time <= at(1) + wait));
            bench.core.handle_timeout(at(1) + wait);
            bench.poll(at(1) + wait);
        }
        assert_eq!(bench.events.len(), 3);
        assert!(bench.events.iter().all(|event| event.is_whole()), "{:?}", bench.events);
        bench.write_all(at(1) + wait);
    }
}

/// An event that lacks a fragment that is owed waits for it, and not for the sporadic source.
#[test]
fn an_event_without_an_owed_fragment_does_not_wait_for_a_sporadic_source_longer() {
    let mut bench = Bench::new(3, 4);
    let sporadic_wait = Duration::from_secs(100);
    bench.core.set_standing(Standing { sporadic: set(&[2]), sporadic_wait, ..Standing::default() });
    bench.core.handle_roster(2, set(&[0, 1, 2]), set(&[]), at(1));
    bench.core.handle_assignments(&under(2, 1), at(1)).unwrap();
    bench.send(LaneIndex::new(0), 1, b"here", at(1));
    bench.core.handle_timeout(at(1) + DEADLINE);
    bench.poll(at(1) + DEADLINE);
    let silent = MissingSource::new(SourceId::new(2), Cause::Silent);
    assert_eq!((&bench.events[0].missing, &bench.events[0].absent), (&vec![silent], &vec![]));
    bench.write_all(at(1) + DEADLINE);
}
