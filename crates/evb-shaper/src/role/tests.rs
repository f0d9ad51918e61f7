//! Helpers for the tests of both roles: the messages of a minimal supervisor.

use core::time::Duration;

use evb_core::{
    id::{BuilderId, Peer, RunId, SourceId},
    session::{DialFailure, DialFault, Heard, Joining, JoiningOutput, Member, Start},
    time::Instant,
    wire::control::{BuilderAddress, Control, Hello, Message, Roster, RunEnd, RunParameters, Welcome},
};

pub(super) const RUN: RunId = RunId::new(4);
pub(super) const SOURCE: SourceId = SourceId::new(3);
pub(super) const OTHER: SourceId = SourceId::new(8);
pub(super) const BUILDER: BuilderId = BuilderId::new(2);

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
}

pub(super) fn welcome(incarnation: u32) -> Heard {
    let parameters = RunParameters {
        slots: 4,
        deadline_ns: 1_000_000_000,
        orphan_timeout_ns: 1_000_000_000,
        heartbeat_ns: 100_000_000,
        lease_ns: 800_000_000,
        patience_ns: 5_000_000_000,
        ..RunParameters::default()
    };
    let parameters = Some(parameters);
    Heard::Welcome(Welcome { epoch: 4, run_id: RUN, run: 7, incarnation, parameters, ..Welcome::default() })
}

/// Returns a roster of the sources 3 and 8, of which those in `up` are up, and of builders, given
/// by id and incarnation.
pub(super) fn roster(version: u32, up: &[u32], builders: &[(u32, u32)]) -> Roster {
    let address = |(id, incarnation): &(u32, u32)| {
        let (id, incarnation) = (*id, *incarnation);
        BuilderAddress { id, incarnation, listen: format!("builder{id}:1") }
    };
    Roster {
        version,
        sources: vec![3, 8],
        up: up.to_vec(),
        builders: builders.iter().map(address).collect(),
        max_fragment: vec![1000, 1000],
        incarnations: vec![1, 1],
        ..Roster::default()
    }
}

pub(super) fn said(message: Message) -> Heard {
    Heard::Message(Control { message: Some(message) })
}

pub(super) fn run_end() -> Heard {
    said(Message::RunEnd(RunEnd { exit_code: 1, verdict: "one is lost".to_owned() }))
}

pub(super) fn closed() -> Heard {
    Heard::Closed("reset".to_owned())
}

pub(super) fn unreachable() -> Heard {
    Heard::Failed(DialFailure { fault: DialFault::Unreachable, words: "nobody there".to_owned() })
}

/// Returns the start of a role that joins at once, as incarnation 1.
pub(super) fn start(peer: Peer, roster: Roster) -> Start {
    let (supervisor, start_timeout) = ("daq:1".to_owned(), Duration::from_secs(1));
    let hello = Hello::new(peer, Peer::Supervisor);
    let mut joining = Joining::new(Member { supervisor, hello, start_timeout }, at(0));
    assert!(matches!(joining.poll(at(0)), Some(JoiningOutput::Dial(_))));
    joining.handle_supervisor(welcome(1), at(0));
    assert!(matches!(joining.poll(at(0)), Some(JoiningOutput::Joined(_))));
    joining.handle_supervisor(said(Message::Roster(roster)), at(0));
    match joining.poll(at(0)) {
        Some(JoiningOutput::Begin(start)) => *start,
        other => panic!("{other:?}"),
    }
}
