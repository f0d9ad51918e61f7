use bytes::BytesMut;
use evb_core::{
    fragment::Fragment,
    id::{EventId, Peer, RunId, SourceId},
    index::LaneIndex,
    quantities::SAME_RELEASE,
    wire::{
        control::{
            Assignments, BuilderReport, Changes, DatagramReport, Exclusion, Finish, Heartbeat, Hello,
            Message, Reason, RefusalReport, RoleReport, Stop,
        },
        record::{Announcement, encode_fragment_header},
    },
};

use super::*;
use crate::{
    cost::{CELL, PacketCost},
    policy::Shaping,
    role::{
        BuilderRoleConfig,
        tests::{
            BUILDER, OTHER, RUN, SOURCE, at, closed, roster, run_end, said, start, unreachable, welcome,
        },
    },
};

const UP: [u32; 2] = [3, 8];

fn config() -> BuilderRoleConfig {
    BuilderRoleConfig {
        id: BUILDER,
        shaping: Shaping::LOOPBACK,
        cost: PacketCost::tcp(1500, CELL),
        rotation: 0,
        queue_delay: Duration::ZERO,
        memory: None,
        datagrams: false,
    }
}

fn begin() -> Start {
    start(Peer::Builder(BUILDER), roster(1, &UP, &[(2, 1)]))
}

fn role() -> BuilderRole {
    let plan = BuilderPlan::new(config(), &begin()).unwrap();
    let mut role = BuilderRole::new(plan, &begin(), at(0)).unwrap();
    assert_eq!(told(&mut role, at(0)), "");
    role
}

fn outputs(role: &mut BuilderRole, now: Instant) -> Vec<BuilderOutput> {
    let outputs = core::iter::from_fn(|| role.poll(now)).collect();
    role.invariants();
    outputs
}

/// Returns the outputs of the role as a short text: `S` stands for the supervisor, a number for a
/// lane; heartbeats are left out. Records are written, and events are pushed to `events`.
fn told_with(role: &mut BuilderRole, now: Instant, events: &mut Vec<Event>) -> String {
    let target = |target: Target| match target {
        Target::Supervisor => "S".to_owned(),
        Target::Lane(lane) => lane.to_string(),
    };
    let mut words = Vec::new();
    while let Some(output) = role.poll(now) {
        words.push(match output {
            BuilderOutput::Dial(dial) => format!("dial {}", target(dial.target)),
            BuilderOutput::Close(closed) => format!("close {}", target(closed)),
            BuilderOutput::Send(message) => match message.message {
                Some(Message::Heartbeat(_)) => continue,
                Some(Message::Completions(completions)) => format!("{} done", completions.count()),
                Some(Message::Stop(_)) => "stop".to_owned(),
                Some(Message::Begun(begun)) => format!("begun {}{}", begun.refusal, begun.highest_run),
                Some(Message::Leaving(leaving)) => format!("leaving: {}", leaving.reason),
                other => panic!("{other:?}"),
            },
            BuilderOutput::Report(_) => "report".to_owned(),
            BuilderOutput::Event(event) => {
                let word = format!("event {}", event.id.number());
                events.push(event);
                word
            }
            BuilderOutput::Lane(lane) => {
                role.records().write_records(lane, &mut BytesMut::new());
                format!("lane {lane}")
            }
            BuilderOutput::Begin(begin) => format!("begin {}", begin.run),
            BuilderOutput::Episodes(told) => format!("{} episodes", told.len()),
            BuilderOutput::Changes(told) => format!("{} changes", told.len()),
            BuilderOutput::ExpectEnd => "expect end".to_owned(),
            BuilderOutput::Ended(_) => "ended".to_owned(),
        });
    }
    role.invariants();
    words.join(", ")
}

fn told(role: &mut BuilderRole, now: Instant) -> String {
    told_with(role, now, &mut Vec::new())
}

fn hello(source: SourceId, incarnation: u32, to_incarnation: u32) -> Hello {
    let hello = Hello::new(Peer::Source(source), Peer::Builder(BUILDER));
    Hello { run_id: RUN, incarnation, to_incarnation, ..hello }
}

fn admit(role: &mut BuilderRole, hello: &Hello, now: Instant) -> Admitted {
    role.handle_hello(hello, Greeting::default(), now).unwrap()
}

fn reason(role: &mut BuilderRole, hello: &Hello, now: Instant) -> Reason {
    role.handle_hello(hello, Greeting::default(), now).unwrap_err().reason
}

/// Returns a role whose two lanes are open.
fn open() -> BuilderRole {
    let mut role = role();
    for (lane, source) in [SOURCE, OTHER].into_iter().enumerate() {
        assert_eq!(admit(&mut role, &hello(source, 1, 1), at(1)).lane, LaneIndex::new(lane));
        role.handle_lane_up(LaneIndex::new(lane));
    }
    assert_eq!(told(&mut role, at(1)), "lane 0, lane 1");
    role
}

fn assign(role: &mut BuilderRole, event: u64, now: Instant) {
    let (events, triggered_ns) = (vec![event], vec![now.as_nanos()]);
    let assignments = Assignments { roster_version: 1, events, triggered_ns, ..Assignments::default() };
    role.handle_supervisor(said(Message::Assignments(assignments)), now);
}

/// Announces and sends an empty fragment on each of the two lanes, as the `nth` fragment of the
/// lane.
fn build(role: &mut BuilderRole, event: u64, nth: u64, now: Instant) {
    let announcement = Announcement {
        event: EventId::new(event),
        timestamp: Default::default(),
        length: 0,
        lost_packets: 0,
    };
    for lane in 0..2 {
        let start = nth * announcement.lane_length();
        role.records()
            .handle_announcements(LaneIndex::new(lane), start, [announcement].into_iter(), now)
            .unwrap();
    }
    assert_eq!(told(role, now), "lane 0, lane 1", "grants");
    let fragment = Fragment::new(EventId::new(event), Default::default(), bytes::Bytes::new());
    let header = encode_fragment_header(fragment.event, fragment.checksum);
    for lane in 0..2 {
        role.records().handle_data(LaneIndex::new(lane), &header, now).unwrap();
    }
}

#[test]
fn a_source_is_let_in_and_its_records_follow_the_answer() {
    let mut role = role();
    let Admitted { lane, welcome } = admit(&mut role, &hello(OTHER, 1, 1), at(1));
    assert_eq!((lane.get(), welcome.run_id, welcome.epoch, welcome.connection), (1, RUN, 4, 0));
    assert_eq!(told(&mut role, at(1)), "", "no records before the answer has been sent");
    role.handle_lane_up(LaneIndex::new(1));
    assert_eq!(told(&mut role, at(2)), "lane 1");
    assert!(role.core().is_lane_connected(LaneIndex::new(1)));
    role.handle_lane_down(LaneIndex::new(1), &"reset", at(3));
    assert!(!role.core().is_lane_connected(LaneIndex::new(1)));
    assert_eq!(told(&mut role, at(3)), "");
}

#[test]
fn a_new_connection_takes_the_place_of_the_old_one() {
    let mut role = open();
    assert_eq!(admit(&mut role, &hello(SOURCE, 1, 1), at(5)).lane, LaneIndex::new(0));
    assert_eq!(
        told(&mut role, at(5)),
        "",
        "the driver replaces the old connection without a request to close it"
    );
    assert_eq!(
        admit(&mut role, &hello(SOURCE, 2, 1), at(6)).lane,
        LaneIndex::new(0),
        "another process of the source"
    );
    assert_eq!(
        reason(&mut role, &hello(SOURCE, 1, 1), at(7)),
        Reason::DuplicateId,
        "that incarnation of the source is dead"
    );
    assert_eq!(
        reason(&mut role, &hello(SOURCE, 2, 2), at(7)),
        Reason::Incarnation,
        "the greeting is for another incarnation of this builder"
    );
    role.handle_lane_up(LaneIndex::new(0));
    assert_eq!(told(&mut role, at(8)), "lane 0");
}

#[test]
fn lanes_of_sources_that_are_down_are_dropped() {
    let mut role = open();
    role.handle_supervisor(said(Message::Roster(roster(2, &[8], &[(2, 1)]))), at(5));
    assert_eq!(told(&mut role, at(5)), "close 0");
    assert!(
        !role.core().is_lane_connected(LaneIndex::new(0)) && role.core().is_lane_connected(LaneIndex::new(1))
    );
    role.handle_lane_down(LaneIndex::new(0), &"late", at(6));
    let mut other = roster(3, &[8], &[(2, 1)]);
    other.sources = vec![3, 9];
    role.handle_supervisor(said(Message::Roster(other)), at(7));
    let cause = "the supervisor broke the protocol: the sources of the run have changed";
    assert_eq!(told(&mut role, at(7)), format!("leaving: {cause}; {SAME_RELEASE}, ended"));
}

#[test]
fn a_lane_may_open_before_the_roster_that_has_its_source_up() {
    let mut role = open();
    let say = |role: &mut BuilderRole, version, up: &[u32], now| {
        role.handle_supervisor(said(Message::Roster(roster(version, up, &[(2, 1)]))), now);
        told(role, now)
    };
    assert_eq!(say(&mut role, 2, &[8], at(5)), "close 0");
    admit(&mut role, &hello(SOURCE, 2, 1), at(6));
    role.handle_lane_up(LaneIndex::new(0));
    told(&mut role, at(6));
    assert_eq!(say(&mut role, 3, &[8], at(7)), "", "the roster is older than the lane");
    assert!(role.core().is_lane_connected(LaneIndex::new(0)));
    assert_eq!(say(&mut role, 4, &UP, at(8)), "");
    assert_eq!(say(&mut role, 5, &[8], at(9)), "close 0");
}

#[test]
fn events_go_to_the_sink_and_back() {
    let mut role = open();
    assign(&mut role, 1, at(10));
    build(&mut role, 1, 0, at(11));
    let mut events = Vec::new();
    assert_eq!(told_with(&mut role, at(11), &mut events), "event 1");
    assert!(events[0].is_complete());
    role.handle_written(events.remove(0), at(12));
    assert_eq!(told(&mut role, at(12)), "1 done");
    assert_eq!((role.core().slots_used(), role.core().unaccounted()), (0, 1));
}

#[test]
fn another_life_begins_empty_behind_a_sink_that_is_done_with_the_one_before() {
    let mut role = open();
    assign(&mut role, 1, at(10));
    build(&mut role, 1, 0, at(11));
    let mut events = Vec::new();
    assert_eq!(told_with(&mut role, at(11), &mut events), "event 1");
    role.handle_supervisor(closed(), at(20));
    assert_eq!(told(&mut role, at(20)), "dial S");
    role.handle_supervisor(welcome(2), at(30));
    assert_eq!(told(&mut role, at(30)), "close 0, close 1");
    assert_eq!((role.core().slots_used(), role.stale_at_sink()), (0, 1));
    role.handle_supervisor(said(Message::Roster(roster(1, &UP, &[(2, 2)]))), at(31));
    assert_eq!(reason(&mut role, &hello(SOURCE, 1, 1), at(31)), Reason::Incarnation);
    for (lane, source) in [SOURCE, OTHER].into_iter().enumerate() {
        admit(&mut role, &hello(source, 1, 2), at(32));
        role.handle_lane_up(LaneIndex::new(lane));
    }
    told(&mut role, at(32));
    assign(&mut role, 2, at(33));
    build(&mut role, 2, 0, at(34));
    assert_eq!(told(&mut role, at(34)), "", "the sink is busy with an event of the earlier incarnation");
    role.handle_written(events.remove(0), at(35));
    assert_eq!(told_with(&mut role, at(35), &mut events), "event 2");
    role.handle_failed(events.remove(0), "no room", at(36));
    assert_eq!(told(&mut role, at(36)), "1 done");
}

#[test]
fn the_last_report_waits_for_the_sink_and_not_for_ever() {
    let mut role = open();
    role.handle_supervisor(said(Message::Stop(Stop::default())), at(5));
    assert_eq!(told(&mut role, at(5)), "expect end");
    assign(&mut role, 1, at(10));
    build(&mut role, 1, 0, at(11));
    assert_eq!(told(&mut role, at(11)), "event 1");
    role.handle_supervisor(said(Message::Finish(Finish {})), at(20));
    assert_eq!(told(&mut role, at(2019)), "");
    let mut outputs = outputs(&mut role, at(2020));
    let Some(BuilderOutput::Report(mut message)) = outputs.pop() else { panic!("{outputs:?}") };
    let facts = ReportFacts {
        datagrams: Some(DatagramReport { stale: 4, ..DatagramReport::default() }),
        refusals: Some(RefusalReport { silent: 3, ..RefusalReport::default() }),
        ..ReportFacts::default()
    };
    role.complete(&mut message, facts);
    role.handle_supervisor(run_end(), at(2100));
    let ended = match self::outputs(&mut role, at(2100)).pop() {
        Some(BuilderOutput::Ended(ended)) => ended.unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!((ended.exit_code, ended.took_part), (1, Some(Duration::from_millis(10))));
    let Some(RoleReport::Builder(own)) = ended.report.unwrap().report else { panic!("not a builder's") };
    let BuilderReport { datagrams, refusals, .. } = own;
    assert_eq!((datagrams.unwrap().stale, refusals.unwrap().silent), (4, 3));
}

#[test]
fn an_idle_builder_reports_at_once_when_there_is_somebody_to_hear_it() {
    let mut role = open();
    role.handle_supervisor(said(Message::Finish(Finish {})), at(20));
    role.handle_supervisor(closed(), at(20));
    assert_eq!(told(&mut role, at(20)), "dial S");
    role.handle_supervisor(welcome(1), at(30));
    assert_eq!(told(&mut role, at(30)), "report");
}

#[test]
fn a_builder_whose_supervisor_is_gone_for_good_says_what_is_lost() {
    let mut role = open();
    assign(&mut role, 1, at(10));
    assign(&mut role, 2, at(10));
    build(&mut role, 1, 0, at(11));
    assert_eq!(told(&mut role, at(11)), "event 1");
    role.handle_supervisor(closed(), at(20));
    let mut now = 20;
    let ended = loop {
        role.handle_timeout(false, at(now));
        match outputs(&mut role, at(now)).pop() {
            Some(BuilderOutput::Dial(_)) => role.handle_supervisor(unreachable(), at(now)),
            Some(BuilderOutput::Ended(ended)) => break ended,
            _ => {}
        }
        now += 100;
    };
    let Err(RoleFault::Abandoned { held, .. }) = *ended else { panic!("{ended:?}") };
    assert!(
        held.contains(
            "is still writing 1 more; this builder was building 1 more, lost unless another builder gets them"
        ),
        "{held}"
    );
    assert!(role.poll(at(now)).is_none());
}

#[test]
fn a_sink_that_is_gone_ends_the_role() {
    let mut role = open();
    role.handle_sink_gone();
    assert!(matches!(outputs(&mut role, at(5)).pop(), Some(BuilderOutput::Ended(ended)) if ended.is_err()));
}

#[test]
fn timers_wait_a_while_for_what_can_be_read() {
    let mut role = open();
    assign(&mut role, 1, at(10));
    let due = at(1010);
    let heard = Heartbeat { echo_ns: at(1000).as_nanos(), ..Heartbeat::default() };
    role.handle_supervisor(said(Message::Heartbeat(heard)), at(1000));
    for now in (200..=1000).step_by(100) {
        role.handle_timeout(false, at(now));
        assert!(!told(&mut role, at(now)).contains("event"));
    }
    assert!(role.wants_reading(due));
    role.handle_timeout(true, due);
    assert!(!told(&mut role, due).contains("event"), "the missing fragment may be in unread input");
    role.handle_timeout(true, due + READING);
    assert!(told(&mut role, due + READING).contains("event 1"));
}

/// A builder that was stopped for 5 s gives its events their whole time again, because it has not
/// read what arrived meanwhile.
#[test]
fn a_standstill_closes_no_event() {
    let mut role = open();
    assign(&mut role, 1, at(10));
    for now in (200..=800).step_by(100) {
        role.handle_timeout(false, at(now));
    }
    role.handle_timeout(false, at(5800));
    for now in (5800..6800).step_by(100) {
        // The answers keep the builder's lease.
        let heard = Heartbeat { echo_ns: at(now).as_nanos(), ..Heartbeat::default() };
        role.handle_supervisor(said(Message::Heartbeat(heard)), at(now));
        role.handle_timeout(false, at(now));
        assert!(!told(&mut role, at(now)).contains("event"));
    }
    role.handle_timeout(false, at(6800));
    assert!(told(&mut role, at(6800)).contains("event 1"));
}

#[test]
fn memory_and_rosters_are_checked_before_anything_is_built() {
    let needs = |memory| BuilderPlan::new(BuilderRoleConfig { memory, ..config() }, &begin()).map(|_| ());
    assert_eq!(needs(Some(Bytes::mib(1))), Ok(()));
    assert!(matches!(needs(Some(Bytes::new(7999))), Err(RoleFault::Memory { .. })));
    let mut start = begin();
    start.roster.max_fragment.pop();
    assert!(matches!(BuilderPlan::new(config(), &start), Err(RoleFault::Roster(_))));
    start.roster.sources = vec![8, 3];
    assert!(matches!(BuilderPlan::new(config(), &start), Err(RoleFault::Roster(_))));
}

/// The header of the first file has them then.
#[test]
fn the_sink_learns_of_changes_before_the_run_begins() {
    let mut role = open();
    let why = "no\npower".to_owned();
    let excluded = Exclusion { source: 3, is_excluded: true, from: 1, why, utc_ns: 5 };
    let changes = vec![excluded.clone(), Exclusion { source: 1 << 16, ..excluded }];
    role.handle_supervisor(said(Message::Changes(Changes { changes: changes.clone() })), at(1));
    let begin = Begin { run: 7, run_id: RUN, ..Begin::default() };
    role.handle_supervisor(said(Message::Begin(begin)), at(1));
    assert_eq!(told(&mut role, at(1)), "1 changes, begin 7", "a source that cannot be is left out");
    role.handle_supervisor(said(Message::Changes(Changes { changes })), at(2));
    let outputs = outputs(&mut role, at(2));
    let [BuilderOutput::Changes(told)] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(told[0].to_string(), "source 3 is excluded from event 1 on (no power)");
}

#[test]
fn a_builder_prepares_its_sink_before_the_run_and_takes_the_number() {
    let mut role = open();
    for run in [7, 9] {
        let begin = Begin { run, run_id: RUN, ..Begin::default() };
        role.handle_supervisor(said(Message::Begin(begin)), at(2));
        assert_eq!(told(&mut role, at(2)), format!("begin {run}"), "no answer before the sink's");
        assert_eq!(role.core().config().run.number(), run);
    }
    role.handle_begun(Ok(()), None);
    assert_eq!(told(&mut role, at(3)), "begun 0");
    role.handle_begun(Err("taken, ".to_owned()), Some(RunNumber::new(9)));
    assert_eq!(told(&mut role, at(4)), "begun taken, 10");
    let other = Begin { run: 7, run_id: RunId::new(5), ..Begin::default() };
    role.handle_supervisor(said(Message::Begin(other)), at(5));
    let said = told(&mut role, at(5));
    assert!(
        said.starts_with("leaving: ") && said.contains("another run") && said.ends_with(", ended"),
        "{said}"
    );
}
