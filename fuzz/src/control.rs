//! Fuzz target for control messages and handshakes: decoding, validation, and the framing on a
//! control connection.

use bytes::BytesMut;
use evb_core::wire::encoding::Encoding as _;
use evb_core::{
    alignment::{GuardedClocks, readings_message, readings_of, survey_of},
    id::{BuilderId, EventId, Peer, SourceId},
    ledger::OwingChange,
    wire::control::{
        AlignmentReport, Assignments, Begin, BuilderAddress, BuilderReport, Changes, Clock, ClockDoubt,
        ClockRelation, ClockRelations, Completions, Control, Decisions, Exception, Exclusion, FileReport,
        FilesReport, Heartbeat, Hello, HelloReply, LaneReport, LaneState, Live, MAX_BATCH, MAX_MESSAGE,
        Message, Outcome, PathReport, Readings, ReadingsWanted, Ready, Reason, Refusal, Reply, Report,
        RoleReport, Roster, RunEnd, RunParameters, SourceReport, Stop, Triggers, Verdict, Welcome,
    },
};
use evb_net::{
    control::{decode_from, encode_into},
    handshake::{refused, welcomed, words},
};

/// Decodes the bytes as each type of control message and as a stream of messages. A decoded message
/// must mean the same after it is encoded and decoded again.
///
/// # Panics
/// Panics if a message changes its meaning, or if a decoded value exceeds its limit.
pub fn check(data: &[u8]) {
    if let Ok(control) = Control::read(data) {
        look_at(&control);
    }
    if let Ok(hello) = Hello::decode(data) {
        look_at_hello(&hello);
    }
    if let Ok(reply) = HelloReply::decode(data) {
        look_at_reply(&reply);
    }
    let mut stream = BytesMut::from(data);
    while let Ok(Some(control)) = decode_from(&mut stream) {
        let mut again = BytesMut::new();
        encode_into(&control, &mut again);
        assert_eq!(decode_from(&mut again).ok().flatten().as_ref(), Some(&control));
        assert!(again.is_empty());
        look_at(&control);
    }
    assert!(stream.len() <= data.len());
}

fn look_at(control: &Control) {
    assert_eq!(Control::read(&control.encode_to_vec()).as_ref(), Ok(control));
    match &control.message {
        Some(Message::Decisions(decisions)) => look_at_decisions(decisions),
        Some(Message::Assignments(assignments)) => {
            if let Ok(events) = assignments.events() {
                assert!(
                    events.len() as u64 <= MAX_BATCH && events.iter().all(|(event, _)| event.number() > 0)
                );
                let mut again = Assignments { events: vec![], triggered_ns: vec![], ..assignments.clone() };
                let mut last = (EventId::default(), 0);
                events.iter().for_each(|(event, triggered)| again.add(&mut last, *event, *triggered));
                assert_eq!(again, *assignments);
            }
        }
        Some(Message::Completions(completions)) => {
            let (mut again, mut last) = (Completions::default(), EventId::default());
            completions.events().for_each(|event| again.add(&mut last, event));
            assert_eq!(again.complete, completions.complete);
        }
        Some(Message::Alignment(AlignmentReport { relations: Some(relations), .. })) => {
            let clocks = clocks(relations.clocks.len());
            if let Ok(survey) = survey_of(relations, &clocks) {
                let again = survey.message();
                assert_eq!(survey_of(&again, &clocks).map(|survey| survey.message()), Ok(again));
            }
        }
        Some(Message::Readings(readings)) => {
            let Ok(pairs) = readings_of(readings) else { return };
            let again = readings_message(readings.question, pairs);
            let count = again.events.len();
            assert!(count <= 256 && again.events == readings.events[..count]);
            assert_eq!(again.ticks, readings.ticks[..count]);
        }
        Some(Message::Changes(told)) => {
            let all: Vec<_> = told.changes.iter().filter_map(OwingChange::of_entry).collect();
            let joined = OwingChange::joined([all.clone(), all].concat());
            assert!(joined.is_sorted_by_key(|change| (change.from, change.source)));
            let is_plain = |why: &str| why.len() <= 200 && !why.contains(char::is_control);
            assert!(joined.iter().all(|change| is_plain(&change.why)));
            assert_eq!(OwingChange::joined(joined.clone()), joined);
        }
        _ => {}
    }
}

/// Returns a declaration of that many equal clocks, of the sources from 0 on.
fn clocks(count: usize) -> GuardedClocks {
    let clocks = (0..count.min(1000) as u32).map(|source| Clock { source, ..clock() });
    GuardedClocks::of(&Begin { clocks: clocks.collect(), ..Begin::default() })
}

/// Returns the declared clock of source 3.
pub fn clock() -> Clock {
    let rate_uhz = 125_000_000_000_000;
    Clock { source: 3, rate_uhz, bits: 48, wrap: 0, tolerance_ns: 1000, accuracy_ppb: 100_000 }
}

fn look_at_decisions(decisions: &Decisions) {
    let Ok(verdicts) = decisions.verdicts() else { return };
    let mut next = decisions.first;
    let mut again = Decisions::starting(EventId::new(decisions.first));
    for (first, count, verdict) in &verdicts {
        assert!(first.number() == next && *count > 0);
        next += u64::from(*count);
        again.extend(*count, *verdict);
    }
    assert!(next - decisions.first <= MAX_BATCH);
    // `extend` merges adjacent runs of events with the same verdict, so only the total number of
    // events is compared.
    let total =
        |verdicts: &[(EventId, u32, Verdict)]| verdicts.iter().map(|run| u64::from(run.1)).sum::<u64>();
    assert_eq!(again.verdicts().map(|again| total(&again)), Ok(total(&verdicts)));
}

fn look_at_hello(hello: &Hello) {
    assert_eq!(Hello::decode(&hello.encode_to_vec()).as_ref(), Ok(hello));
    if let (Some(from), Some(to)) = (hello.from_peer(), hello.to_peer()) {
        let again = Hello::new(from, to);
        assert_eq!((again.from_peer(), again.to_peer()), (Some(from), Some(to)));
    }
    assert_eq!(hello.known_run().is_some(), hello.run_id.is_known());
}

fn look_at_reply(reply: &HelloReply) {
    assert_eq!(HelloReply::decode(&reply.encode_to_vec()).as_ref(), Ok(reply));
    match &reply.reply {
        Some(Reply::Welcome(welcome)) => {
            if let Ok(parameters) = welcome.checked_parameters() {
                assert!(parameters.slots > 0 && parameters.heartbeat_ns > 0 && welcome.epoch > 0);
            }
            assert_eq!(welcome.checked_lane(welcome.run_id).ok(), welcome.lane);
        }
        Some(Reply::Refusal(refusal)) => {
            let words = words(refusal);
            assert!(!words.is_empty() && words.chars().count() <= 400 && !words.contains(char::is_control));
        }
        None => {}
    }
}

/// Returns the seed corpus: one control message of each type, each alone and all in one stream.
pub fn seeds() -> Vec<Vec<u8>> {
    let messages = messages();
    let mut stream = BytesMut::new();
    messages.iter().for_each(|message| encode_into(message, &mut stream));
    let mut seeds: Vec<_> = messages.iter().map(|message| message.encode_to_vec()).collect();
    seeds.push(stream.to_vec());
    seeds.push((MAX_MESSAGE as u32 + 1).to_le_bytes().to_vec());
    // These two messages name event ids near `u64::MAX`, so that adding to an id overflows.
    let last = Decisions { first: u64::MAX - 3, runs: vec![3, 2, 1, 0] };
    seeds.push(Control { message: Some(Message::Decisions(last)) }.encode_to_vec());
    let last = Assignments {
        roster_version: 1,
        events: vec![u64::MAX, 2],
        triggered_ns: vec![u64::MAX, 2],
        ..Assignments::default()
    };
    seeds.push(Control { message: Some(Message::Assignments(last)) }.encode_to_vec());
    seeds.push(hello().encode_to_vec());
    seeds.extend([welcomed(welcome()), refusal()].map(|reply| reply.encode_to_vec()));
    seeds
}

/// Returns one control message of each type.
pub fn messages() -> Vec<Control> {
    let mut decisions = Decisions::starting(EventId::new(7));
    for (count, verdict) in
        [(1, Verdict::Inhibited), (2, Verdict::Assigned(BuilderId::new(1))), (9, Verdict::Closed)]
    {
        decisions.extend(count, verdict);
    }
    let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
    let mut completions = Completions::default();
    let (mut last, mut last_complete) = ((EventId::default(), 0), EventId::default());
    for event in [8, 9, 4] {
        assignments.add(&mut last, EventId::new(event), event * 1_000_000);
        completions.add(&mut last_complete, EventId::new(event));
    }
    completions.exceptions = vec![Exception {
        event: 5,
        outcome: Outcome::Incomplete,
        missing: vec![3],
        cause: "late".to_owned(),
        missing_causes: vec![2],
    }];
    let roster = Roster {
        version: 1,
        sources: vec![3, 5],
        up: vec![3],
        builders: vec![BuilderAddress { id: 1, listen: "127.0.0.1:7101".to_owned(), incarnation: 1 }],
        max_fragment: vec![1000, 2000],
        quiet: vec![3],
        ..Roster::default()
    };
    let file = FileReport { path: "/data/a.evb".to_owned(), size: 1, events: 1, checksum: 1 };
    let builder = BuilderReport {
        complete: 3,
        lanes: vec![LaneReport { source: 3, ..LaneReport::default() }],
        sum: Some(Box::new(LaneReport { fragments: 3, ..LaneReport::default() })),
        latency_us: vec![10, 3],
        files: Some(FilesReport { closed: 2, latest: vec![file] }),
        ..BuilderReport::default()
    };
    let live = Live { building: 1, latency: vec![4, 3], disk_bytes: 9, ..Live::default() };
    let paths = vec![PathReport { builder: 1, tcp_retransmits: 2, resends: 3 }];
    let of_source = RoleReport::Source(SourceReport { pushed: 3, paths, ..SourceReport::default() });
    let why = "no power".to_owned();
    let excluded = Exclusion { source: 3, is_excluded: true, from: 5, why, utc_ns: 1 << 60 };
    let messages = [
        Message::Roster(roster),
        Message::Decisions(decisions),
        Message::Assignments(assignments),
        Message::Completions(completions),
        Message::Heartbeat(Heartbeat {
            sent_ns: 1 << 40,
            echo_ns: 1,
            echo_delay_ns: 2,
            load: None,
            is_paused: true,
        }),
        Message::Stop(Stop { cause: "a person".to_owned() }),
        Message::Finish(Default::default()),
        Message::Report(Report { report: Some(RoleReport::Builder(builder)), live: Some(live) }),
        Message::Report(Report { report: Some(of_source), live: None }),
        Message::RunEnd(RunEnd { verdict: "complete".to_owned(), ..RunEnd::default() }),
        Message::Triggers(Triggers { count: 3 }),
        Message::Ready(Ready {}),
        Message::Begin(Begin { clocks: vec![clock()], lead: 4, ..Begin::default() }),
        Message::Alignment(doubts()),
        Message::ReadingsWanted(ReadingsWanted { question: 1, event: 9 }),
        Message::Readings(Readings { question: 1, events: vec![9, 1], ticks: vec![1 << 40, 125_000] }),
        Message::Changes(Changes { changes: vec![excluded.clone(), Exclusion { from: 9, ..excluded }] }),
    ];
    messages.map(|message| Control { message: Some(message) }).to_vec()
}

/// Returns a builder's doubt about the clock of source 5, beside that of source 3.
pub fn doubts() -> AlignmentReport {
    let [phase, rate, bound, blur] = [0.0_f64, 0.0, 1e-9, 64.0].map(f64::to_bits);
    let clock =
        ClockRelation { ticks: 0, at: 0, is_proven: true, is_suspect: true, phase, rate, bound, blur };
    let relations = ClockRelations { lead: 0, at: 0, host_ns: 1 << 60, clocks: vec![clock; 2] };
    let doubt = ClockDoubt { source: 5, first: 2, is_suspect: true, is_tie: true };
    AlignmentReport { doubts: vec![doubt], returned: vec![3], relations: Some(relations) }
}

/// Returns the hello message of a source.
pub fn hello() -> Hello {
    let hello = Hello::new(Peer::Source(SourceId::new(3)), Peer::Supervisor);
    Hello { boot_id: "here".to_owned(), software: "evb".to_owned(), max_fragment: 1000, ..hello }
}

/// Returns a welcome that contains all that a supervisor's welcome contains (run parameters) and
/// all that a builder's contains (lane state).
pub fn welcome() -> Welcome {
    let parameters = RunParameters { slots: 2, heartbeat_ns: 250_000_000, ..RunParameters::default() };
    let lane = LaneState { received: 32, announced: 64, committed: 16 };
    Welcome { epoch: 99, run: 7, parameters: Some(parameters), lane: Some(lane), ..Welcome::default() }
}

/// Returns the reply of a peer that refuses a hello.
pub fn refusal() -> HelloReply {
    refused(Refusal::because(Reason::Incarnation, "restart it"))
}
