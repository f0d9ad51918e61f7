use super::*;
use crate::id::{Epoch, RunId, RunNumber};

const RUN: RunId = RunId::new(7);

const OURS: BuilderId = BuilderId::new(2);
const SOURCES: [SourceId; 2] = [SourceId::new(3), SourceId::new(8)];

fn admission() -> Admission {
    let identity = RunIdentity { id: RUN, epoch: Epoch::new(4), run: RunNumber::new(7) };
    Admission { builder: OURS, identity, incarnation: Incarnation::new(5), datagrams: true }
}

fn hello() -> Hello {
    let hello = Hello::new(Peer::Source(SOURCES[1]), Peer::Builder(OURS));
    Hello { run_id: RUN, incarnation: 1, to_incarnation: 5, datagrams: true, ..hello }
}

fn reason(change: impl FnOnce(&mut Hello)) -> Reason {
    let mut hello = hello();
    change(&mut hello);
    let refusal = admission().check(&hello, &SOURCES).expect_err("the source may not open the lane");
    assert!(!refusal.detail.is_empty());
    refusal.reason
}

#[test]
fn a_source_of_this_run_has_its_lane() {
    assert_eq!(admission().check(&hello(), &SOURCES), Ok(1));
}

#[test]
fn others_are_told_why_not() {
    let other = |from, to| Hello { run_id: RUN, ..Hello::new(from, to) };
    let (source, builder) = (Peer::Source(SOURCES[0]), Peer::Builder(OURS));
    assert_eq!(reason(|hello| *hello = Hello::default()), Reason::Malformed);
    assert_eq!(reason(|hello| *hello = other(source, Peer::Builder(BuilderId::new(1)))), Reason::WrongId);
    assert_eq!(reason(|hello| *hello = other(builder, builder)), Reason::WrongRole);
    assert_eq!(reason(|hello| hello.datagrams = false), Reason::Configuration);
    assert_eq!(reason(|hello| hello.run_id = RunId::new(8)), Reason::Run);
    assert_eq!(reason(|hello| hello.run_id = RunId::UNKNOWN), Reason::Run);
    assert_eq!(reason(|hello| hello.to_incarnation = 4), Reason::Incarnation);
    assert_eq!(reason(|hello| hello.id = 4), Reason::UnknownPeer);
}

/// A peer behind a line of 300 ms needs two round trips; a stranger that pretends a minute gets no
/// more than others.
#[test]
fn far_peers_have_time_for_a_handshake_and_strangers_do_not() {
    let millis = Duration::from_millis;
    assert_eq!(greeting_patience(Duration::ZERO), millis(250));
    assert!(greeting_patience(millis(300)) > millis(2 * 300 + 250));
    assert_eq!(greeting_patience(Duration::from_secs(60)), greeting_patience(millis(400)));
    assert!(greeting_patience(Duration::from_secs(60)) < HANDSHAKE_TIMEOUT / 3);
}
