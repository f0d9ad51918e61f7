use evb_core::{
    fragment::Timestamp,
    index::LaneIndex,
    wire::control::{
        Begin, Decisions, Finish, LaneState, Message, PathReport, RoleReport, Roster, SourceReport,
        TrainReport, Verdict,
    },
};

use super::*;
use crate::{
    cost::{CELL, PacketCost},
    role::tests::{BUILDER, RUN, SOURCE, at, closed, roster, run_end, said, start, unreachable, welcome},
};

const NINE: BuilderId = BuilderId::new(9);
const UP: [u32; 2] = [3, 8];

fn role_with(on_demand: bool) -> SourceRole {
    let config = SourceRoleConfig {
        id: SOURCE,
        max_fragment: Bytes::new(1000),
        on_demand,
        counter: None,
        datagrams: false,
        queue_delay: Duration::ZERO,
        paces: Paces::none(PacketCost::tcp(1500, CELL)),
    };
    let peer = Peer::Source(SOURCE);
    SourceRole::new(config, &start(peer, roster(1, &UP, &[(2, 1)])), at(0)).unwrap()
}

fn role() -> SourceRole {
    role_with(false)
}

fn outputs(role: &mut SourceRole, now: Instant) -> Vec<SourceOutput> {
    let outputs = core::iter::from_fn(|| role.poll(now)).collect();
    role.invariants();
    outputs
}

/// Returns the outputs of the role as a short text: `S` stands for the supervisor, a number for a
/// lane; heartbeats are left out.
fn told(role: &mut SourceRole, now: Instant) -> String {
    let target = |target: Target| match target {
        Target::Supervisor => "S".to_owned(),
        Target::Lane(lane) => lane.to_string(),
    };
    let word = |output| match output {
        SourceOutput::Dial(dial) => Some(format!("dial {}", target(dial.target))),
        SourceOutput::Close(closed) => Some(format!("close {}", target(closed))),
        SourceOutput::Send(message) => match message.message {
            Some(Message::Heartbeat(_)) => None,
            Some(Message::Ready(_)) => Some("ready".to_owned()),
            Some(Message::Stop(_)) => Some("stop".to_owned()),
            Some(Message::Begun(_)) => Some("begun".to_owned()),
            Some(Message::Leaving(_)) => Some("leaving".to_owned()),
            other => panic!("{other:?}"),
        },
        SourceOutput::Report(_) => Some("report".to_owned()),
        SourceOutput::Announce(lane) => Some(format!("announce {lane}")),
        SourceOutput::Begin => Some("begin".to_owned()),
        SourceOutput::Ended(_) => Some("ended".to_owned()),
    };
    outputs(role, now).into_iter().filter_map(word).collect::<Vec<_>>().join(", ")
}

fn let_in() -> Welcome {
    Welcome { epoch: 4, run_id: RUN, lane: Some(LaneState::default()), ..Welcome::default() }
}

fn connect(role: &mut SourceRole, lane: LaneIndex, now: Instant) {
    role.handle_lane_up(lane, &let_in(), None, now);
}

fn publish(role: &mut SourceRole, roster: Roster, now: Instant) {
    role.handle_supervisor(said(Message::Roster(roster)), now);
}

fn decide(role: &mut SourceRole, event: u64, builder: BuilderId, now: Instant) {
    let mut decisions = Decisions::starting(EventId::new(event));
    decisions.extend(1, Verdict::Assigned(builder));
    role.handle_supervisor(said(Message::Decisions(decisions)), now);
}

fn push(role: &mut SourceRole, event: u64, now: Instant) {
    role.push(Fragment::new(EventId::new(event), Timestamp::default(), vec![7; 50]), now).unwrap();
}

/// Returns a role whose lane is up and that has reported this to the supervisor.
fn ready() -> SourceRole {
    let mut role = role();
    assert_eq!(told(&mut role, at(0)), "dial 0");
    connect(&mut role, LaneIndex::new(0), at(1));
    assert_eq!(told(&mut role, at(1)), "ready");
    role
}

#[test]
fn a_lane_is_dialed_in_the_roles_name() {
    let mut role = role();
    let dialed = outputs(&mut role, at(0)).into_iter().find_map(|output| match output {
        SourceOutput::Dial(dial) => Some(dial),
        _ => None,
    });
    let dial = dialed.unwrap();
    let hello = &dial.hello;
    assert_eq!((dial.target, dial.address.as_str()), (Target::Lane(LaneIndex::new(0)), "builder2:1"));
    assert_eq!((hello.run_id, hello.incarnation, hello.to_incarnation), (RUN, 1, 1));
    let welcome = Welcome { connection: 77, ..let_in() };
    let association = dial.association(&welcome).unwrap();
    assert_eq!((association.source, association.builder, association.connection), (SOURCE, BUILDER, 77));
    assert!(dial.association(&let_in()).is_err(), "the answer has no connection number");
}

#[test]
fn a_lane_is_tried_again_and_the_source_is_ready_once_it_stands() {
    let mut role = role();
    assert_eq!(told(&mut role, at(0)), "dial 0");
    role.handle_lane_down(LaneIndex::new(0), &"refused", at(1));
    assert_eq!(told(&mut role, at(50)), "");
    assert_eq!(told(&mut role, at(51)), "dial 0");
    connect(&mut role, LaneIndex::new(0), at(60));
    assert_eq!(told(&mut role, at(60)), "ready");
    role.handle_lane_down(LaneIndex::new(0), &"reset", at(70));
    assert!(role.next_timeout().is_some_and(|at_| at_ <= at(170)));
    assert_eq!(told(&mut role, at(170)), "dial 0");
    connect(&mut role, LaneIndex::new(0), at(180));
    assert_eq!(told(&mut role, at(180)), "", "readiness is reported once for each roster");
}

#[test]
fn a_builder_of_another_run_is_dropped_and_tried_again() {
    let mut role = role();
    assert_eq!(told(&mut role, at(0)), "dial 0");
    role.handle_lane_up(
        LaneIndex::new(0),
        &Welcome { run_id: evb_core::id::RunId::new(5), ..let_in() },
        None,
        at(1),
    );
    assert_eq!(told(&mut role, at(1)), "close 0");
    assert_eq!(told(&mut role, at(51)), "dial 0");
    let beyond = LaneState { received: 100, announced: 100, committed: 0 };
    role.handle_lane_up(LaneIndex::new(0), &Welcome { lane: Some(beyond), ..let_in() }, None, at(52));
    assert_eq!(told(&mut role, at(52)), "close 0", "the builder claims bytes that were never sent");
}

#[test]
fn lanes_follow_the_roster() {
    let mut role = ready();
    publish(&mut role, roster(2, &UP, &[(2, 1), (9, 1)]), at(10));
    assert_eq!(told(&mut role, at(10)), "dial 1");
    assert_eq!((role.lane_count(), role.builder_of(LaneIndex::new(1))), (2, NINE));
    connect(&mut role, LaneIndex::new(1), at(11));
    assert_eq!(told(&mut role, at(11)), "ready");
    publish(&mut role, roster(3, &UP, &[(2, 2), (9, 1)]), at(20));
    assert_eq!(told(&mut role, at(20)), "close 0, dial 0", "the builder is another process");
    publish(&mut role, roster(4, &UP, &[(9, 1)]), at(30));
    assert_eq!(told(&mut role, at(30)), "close 0, ready", "the builder is no longer in the roster");
    role.handle_lane_down(LaneIndex::new(0), &"late", at(31));
    assert_eq!(told(&mut role, at(9000)), "");
    publish(&mut role, roster(5, &UP, &[(2, 2), (9, 1)]), at(9000));
    assert_eq!(told(&mut role, at(9000)), "dial 0", "the builder is in the roster again");
}

#[test]
fn a_roster_that_cannot_be_ends_the_role() {
    let mut role = ready();
    publish(&mut role, roster(2, &UP, &[(2, 1), (2, 2)]), at(10));
    match outputs(&mut role, at(10)).pop() {
        Some(SourceOutput::Ended(ended)) => assert!(matches!(*ended, Err(RoleFault::Roster(_))), "{ended:?}"),
        other => panic!("{other:?}"),
    }
    assert!(role.poll(at(20)).is_none());
}

#[test]
fn a_source_goes_on_where_it_was_when_it_registers_again_as_itself() {
    let mut role = ready();
    role.handle_supervisor(closed(), at(10));
    push(&mut role, 1, at(10));
    assert_eq!(told(&mut role, at(10)), "dial S");
    assert!(outputs(&mut role, at(1500)).is_empty(), "nothing is sent without a supervisor");
    role.handle_supervisor(unreachable(), at(1500));
    assert_eq!(told(&mut role, at(1600)), "dial S");
    role.handle_supervisor(welcome(1), at(1610));
    assert_eq!(told(&mut role, at(1610)), "");
    publish(&mut role, roster(2, &UP, &[(2, 1)]), at(1620));
    assert_eq!(told(&mut role, at(1620)), "ready", "the lane stayed connected");
    decide(&mut role, 1, BUILDER, at(1630));
    assert_eq!(told(&mut role, at(1630)), "announce 0");
}

#[test]
fn another_life_of_the_source_makes_its_lanes_anew() {
    let mut role = ready();
    role.handle_supervisor(closed(), at(10));
    assert_eq!(told(&mut role, at(10)), "dial S");
    role.handle_supervisor(welcome(2), at(20));
    let outputs = outputs(&mut role, at(20));
    let dialed = outputs.iter().find_map(|output| match output {
        SourceOutput::Dial(dial) => Some(dial.hello.incarnation),
        _ => None,
    });
    assert!(matches!(outputs[0], SourceOutput::Close(Target::Lane(lane)) if lane.get() == 0), "{outputs:?}");
    assert_eq!(dialed, Some(2));
}

#[test]
fn silence_of_the_supervisor_is_a_broken_connection() {
    let mut role = ready();
    for now in (250..2000).step_by(250).chain([1999]) {
        role.handle_timeout(at(now));
        assert!(!told(&mut role, at(now)).contains("close"));
    }
    assert!(role.next_timeout().is_some_and(|next| next <= at(2000)));
    role.handle_timeout(at(2000));
    assert_eq!(told(&mut role, at(2000)), "close S, dial S");
}

#[test]
fn a_source_whose_supervisor_is_gone_for_good_says_what_it_holds() {
    let mut role = ready();
    push(&mut role, 1, at(2));
    push(&mut role, 2, at(2));
    decide(&mut role, 1, BUILDER, at(3));
    assert_eq!(told(&mut role, at(3)), "announce 0");
    role.handle_supervisor(closed(), at(10));
    let mut now = 10;
    let ended = loop {
        role.handle_timeout(at(now));
        let mut outputs = outputs(&mut role, at(now));
        if outputs.iter().any(|output| matches!(output, SourceOutput::Dial(_))) {
            role.handle_supervisor(unreachable(), at(now));
        }
        if let Some(SourceOutput::Ended(ended)) = outputs.pop() {
            break ended;
        }
        now += 50;
    };
    let Err(RoleFault::Abandoned { cause, tried, last, held }) = *ended else { panic!("{ended:?}") };
    assert_eq!((cause.as_str(), last.as_str(), tried), ("reset", "nobody there", Duration::from_secs(5)));
    assert!(
        held.starts_with("what this source held is lost: 1 fragment of assigned events, and 1 of"),
        "{held}"
    );
}

#[test]
fn the_end_of_the_run_is_asked_for_on_each_connection() {
    let mut role = ready();
    role.request_run_end("enough".to_owned());
    assert_eq!(told(&mut role, at(5)), "stop");
    role.handle_supervisor(closed(), at(10));
    assert_eq!(told(&mut role, at(10)), "dial S");
    role.handle_supervisor(welcome(1), at(20));
    assert_eq!(told(&mut role, at(20)), "stop");
}

#[test]
fn the_last_report_waits_for_commits_and_not_for_ever() {
    let mut role = ready();
    push(&mut role, 1, at(2));
    decide(&mut role, 1, BUILDER, at(3));
    assert_eq!(told(&mut role, at(3)), "announce 0");
    role.handle_supervisor(said(Message::Finish(Finish {})), at(10));
    assert_eq!(told(&mut role, at(1900)), "");
    role.handle_supervisor(said(Message::Heartbeat(Default::default())), at(1900));
    assert_eq!(told(&mut role, at(2009)), "");
    let mut outputs = outputs(&mut role, at(2010));
    let Some(SourceOutput::Report(mut message)) = outputs.pop() else { panic!("{outputs:?}") };
    let facts = ReportFacts {
        host: evb_core::live::HostFacts { tcp_retransmits: 5, ..Default::default() },
        tcp_retransmits: vec![5],
        trains: Some(TrainReport { uncut: 6, ..TrainReport::default() }),
        ..ReportFacts::default()
    };
    role.complete(&mut message, facts);
    role.handle_supervisor(run_end(), at(2100));
    let ended = match self::outputs(&mut role, at(2100)).pop() {
        Some(SourceOutput::Ended(ended)) => ended.unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!((ended.exit_code, ended.run.number()), (1, 7));
    assert_eq!(ended.took_part, Some(Duration::from_millis(7)), "from the first decision to Finish");
    let Some(RoleReport::Source(own)) = ended.report.unwrap().report else { panic!("not a source's") };
    let SourceReport { tcp_retransmits, uncommitted, trains, paths, .. } = own;
    assert_eq!((tcp_retransmits, uncommitted, trains.unwrap().uncut), (5, 1, 6));
    let path = PathReport { builder: BUILDER.number().into(), tcp_retransmits: 5, resends: 0 };
    assert_eq!(paths, [path]);
}

#[test]
fn readout_is_asked_for_what_is_assigned() {
    let mut role = role_with(true);
    assert_eq!(told(&mut role, at(0)), "dial 0");
    connect(&mut role, LaneIndex::new(0), at(1));
    decide(&mut role, 1, BUILDER, at(2));
    assert_eq!(told(&mut role, at(2)), "ready");
    assert!(role.has_wanted());
    assert_eq!((role.take_wanted(), role.take_wanted()), (Some(EventId::new(1)), None));
    push(&mut role, 1, at(3));
    assert_eq!(told(&mut role, at(3)), "announce 0");
    let mut stream = BytesMut::new();
    role.announce(LaneIndex::new(0), at(3), &mut stream);
    assert!(!stream.is_empty());
    role.records().handle_grant(LaneIndex::new(0), 66).unwrap();
    assert_eq!(role.poll_departure(at(4)).map(|departure| departure.range), Some(0..66));
}

#[test]
fn a_source_is_prepared_for_a_run_at_once() {
    let mut role = ready();
    let begin = Begin { run: 9, run_id: RUN, ..Begin::default() };
    role.handle_supervisor(said(Message::Begin(begin)), at(2));
    assert_eq!(told(&mut role, at(2)), "begun");
    role.handle_supervisor(said(Message::Begin(Begin::default())), at(3));
    assert_eq!(told(&mut role, at(3)), "leaving, ended", "another run");
}

fn begin(role: &mut SourceRole, now: Instant) {
    role.handle_supervisor(said(Message::Begin(Begin { run: 7, run_id: RUN, ..Begin::default() })), now);
}

#[test]
fn what_came_before_the_start_is_discarded_also_if_a_beginning_was_given_up() {
    let mut role = ready();
    role.set_before_start(BeforeStart::Discard);
    push(&mut role, 1, at(2));
    begin(&mut role, at(3));
    assert_eq!(told(&mut role, at(3)), "begin");
    push(&mut role, 2, at(4));
    role.handle_read_out();
    assert_eq!(told(&mut role, at(4)), "begun");
    // The supervisor gives this beginning up without a message, and another one follows.
    push(&mut role, 3, at(5));
    begin(&mut role, at(6));
    assert_eq!(told(&mut role, at(6)), "begin");
    role.handle_read_out();
    assert_eq!((told(&mut role, at(7)).as_str(), role.core().backlog_fragments()), ("begun", 0));
    push(&mut role, 3, at(8));
    decide(&mut role, 1, BUILDER, at(9));
    // From the first decision on, the run is under way, and nothing is discarded any more.
    begin(&mut role, at(10));
    push(&mut role, 4, at(10));
    assert_eq!((told(&mut role, at(10)).as_str(), role.core().backlog_fragments()), ("begun", 2));
}

#[test]
fn a_run_waits_for_what_the_driver_prepares_which_may_fail() {
    let mut role = ready();
    role.set_before_start(BeforeStart::Keep);
    push(&mut role, 1, at(2));
    begin(&mut role, at(3));
    assert_eq!(told(&mut role, at(3)), "begin");
    role.refuse_run("its board is off".to_owned());
    let refused = outputs(&mut role, at(4)).into_iter().any(|output| match output {
        SourceOutput::Send(message) => {
            matches!(message.message, Some(Message::Begun(begun)) if begun.refusal == "its board is off")
        }
        _ => false,
    });
    assert!(refused);
    begin(&mut role, at(5));
    assert_eq!(told(&mut role, at(5)), "begin");
    role.handle_read_out();
    assert_eq!((told(&mut role, at(6)).as_str(), role.core().backlog_fragments()), ("begun", 1));
    decide(&mut role, 1, BUILDER, at(9));
    told(&mut role, at(9));
    begin(&mut role, at(10));
    assert_eq!(told(&mut role, at(10)), "begun", "the run is under way");
}

#[test]
fn kept_fragments_from_before_the_start_are_counted() {
    let mut role = ready();
    role.set_before_start(BeforeStart::Keep);
    push(&mut role, 1, at(2));
    push(&mut role, 2, at(2));
    begin(&mut role, at(3));
    assert_eq!(told(&mut role, at(3)), "begin");
    role.handle_read_out();
    assert_eq!(told(&mut role, at(3)), "begun");
    push(&mut role, 3, at(4));
    let report = role.records().report(0, None);
    let Some(Message::Report(report)) = report.message else { panic!() };
    let Some(RoleReport::Source(own)) = report.report else { panic!() };
    assert_eq!((own.kept_before_start, own.discarded_before_start, own.pushed), (2, 0, 3));
}

#[test]
fn a_source_that_joins_a_run_under_way_keeps_everything() {
    let peer = Peer::Source(SOURCE);
    let mut start = start(peer, roster(1, &UP, &[(2, 1)]));
    start.registered.parameters.under_way = true;
    let mut role = SourceRole::new(role().config, &start, at(0)).unwrap();
    role.set_before_start(BeforeStart::Discard);
    push(&mut role, 1, at(1));
    begin(&mut role, at(2));
    assert!(role.is_under_way());
    assert_eq!(role.core().backlog_fragments(), 1);
    assert_eq!(told(&mut role, at(2)), "begun, dial 0");
}
