use core::time::Duration;

use super::*;
use crate::{
    id::{Peer, RunId, SourceId},
    wire::control::{Hello, RunEnd, RunParameters, Welcome},
};

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
}

fn joining() -> Joining {
    let hello = Hello::new(Peer::Source(SourceId::new(3)), Peer::Supervisor);
    let (supervisor, start_timeout) = ("daq:7000".to_owned(), Duration::from_secs(1));
    Joining::new(Member { supervisor, hello, start_timeout }, at(0))
}

fn welcome(incarnation: u32) -> Heard {
    let parameters = RunParameters { slots: 8, heartbeat_ns: 1_000_000, decided: 41, ..Default::default() };
    let parameters = Some(parameters);
    Heard::Welcome(Welcome {
        epoch: 4,
        run_id: RunId::new(4),
        run: 7,
        incarnation,
        parameters,
        ..Welcome::default()
    })
}

fn message(message: Message) -> Heard {
    Heard::Message(Control { message: Some(message) })
}

fn outputs(joining: &mut Joining, now: Instant) -> Vec<JoiningOutput> {
    core::iter::from_fn(|| joining.poll(now)).collect()
}

/// Admits the role, and returns the outputs that follow.
fn let_in(joining: &mut Joining, incarnation: u32, now: Instant) -> Vec<JoiningOutput> {
    let dials = outputs(joining, now);
    assert!(
        matches!(dials.as_slice(), [JoiningOutput::Dial(dial)] if dial.address == "daq:7000"),
        "{dials:?}"
    );
    joining.handle_supervisor(welcome(incarnation), now);
    outputs(joining, now)
}

#[test]
fn a_role_is_let_in_and_begins_with_the_first_roster() {
    let mut joining = joining();
    let joined = let_in(&mut joining, 1, at(0));
    assert!(
        matches!(joined.as_slice(), [JoiningOutput::Joined(first)] if first.number() == 42),
        "{joined:?}"
    );
    joining.handle_supervisor(Heard::Closed("reset".to_owned()), at(10));
    let again = let_in(&mut joining, 2, at(10));
    assert!(again.is_empty(), "the role has joined before: {again:?}");
    joining.handle_supervisor(message(Message::Roster(Roster::default())), at(20));
    match outputs(&mut joining, at(20)).as_slice() {
        [JoiningOutput::Begin(start)] => {
            assert_eq!(start.registered.incarnation.number(), 2);
            assert_eq!(start.identity.run.number(), 7);
            assert_eq!(start.membership.next_timeout(), Some(at(270)), "silence counts from now on");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_for_the_end_reaches_the_supervisor_before_there_is_a_roster() {
    let mut joining = joining();
    let_in(&mut joining, 1, at(0));
    let is_stop = |outputs: &[JoiningOutput]| {
        let [JoiningOutput::Send(Control { message: Some(Message::Stop(stop)) })] = outputs else {
            return false;
        };
        stop.cause == "end of shift"
    };
    joining.request_run_end("end of shift".to_owned());
    assert!(is_stop(&outputs(&mut joining, at(5))));
    joining.handle_supervisor(Heard::Closed("reset".to_owned()), at(10));
    assert!(is_stop(&let_in(&mut joining, 2, at(10))), "the old connection may not have delivered it");
    joining.handle_supervisor(message(Message::Roster(Roster::default())), at(20));
    match outputs(&mut joining, at(20)).as_slice() {
        [JoiningOutput::Begin(start)] => assert!(start.membership.stop_message().is_some()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_that_ends_before_it_has_a_roster_ends_for_the_role() {
    let mut joining = joining();
    let_in(&mut joining, 1, at(0));
    let end = RunEnd { exit_code: 1, verdict: "nothing came".to_owned() };
    joining.handle_supervisor(message(Message::RunEnd(end)), at(20));
    match outputs(&mut joining, at(20)).as_slice() {
        [JoiningOutput::Ended(ended)] => {
            let outcome = ended.as_ref().as_ref().unwrap();
            assert_eq!((outcome.exit_code, outcome.took_part), (1, None));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_welcome_that_makes_no_sense_ends_it() {
    let mut joining = joining();
    outputs(&mut joining, at(0));
    joining.handle_supervisor(Heard::Welcome(Welcome { epoch: 4, run: 7, ..Welcome::default() }), at(5));
    let ended = outputs(&mut joining, at(5));
    let is_fault = |ended: &Result<RunOutcome, RoleFault>| matches!(ended, Err(RoleFault::Malformed(_)));
    assert!(matches!(&ended[0], JoiningOutput::Joined(EventId::FIRST)), "{ended:?}");
    assert!(matches!(&ended[1], JoiningOutput::Ended(ended) if is_fault(ended)), "{ended:?}");
}
