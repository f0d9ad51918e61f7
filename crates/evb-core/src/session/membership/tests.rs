use super::*;
use crate::{
    id::{Peer, RunId, SourceId},
    session::DialFault,
    wire::control::Refusal,
};

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
}

fn membership() -> Membership {
    let member = Member {
        supervisor: "daq:7000".to_owned(),
        hello: Hello::new(Peer::Source(SourceId::new(3)), Peer::Supervisor),
        start_timeout: Duration::from_secs(1),
    };
    Membership::new(member, at(0))
}

fn welcome(epoch: u64, incarnation: u32) -> Heard {
    let parameters =
        RunParameters { slots: 8, heartbeat_ns: 1_000_000, patience_ns: 5_000_000_000, ..Default::default() };
    let parameters = Some(parameters);
    Heard::Welcome(Welcome {
        epoch,
        run_id: RunId::new(epoch.into()),
        run: 7,
        incarnation,
        parameters,
        ..Welcome::default()
    })
}

fn failed(fault: DialFault) -> Heard {
    Heard::Failed(DialFailure { fault, words: "no".to_owned() })
}

fn refused(reason: Reason) -> DialFault {
    DialFault::Refused(Refusal::because(reason, "no"))
}

fn dial(member: &mut Membership, now: Instant) -> Hello {
    match member.poll(now) {
        Some(MembershipOutput::Dial(dial)) => {
            assert!(member.poll(now).is_none(), "one attempt at a time");
            *dial.hello
        }
        other => panic!("{other:?}"),
    }
}

fn joined() -> Membership {
    let mut member = membership();
    dial(&mut member, at(0));
    assert!(matches!(member.handle(welcome(4, 1), at(10)), Ok(Some(MembershipEvent::Registered(_)))));
    member
}

#[test]
fn a_role_that_nobody_answers_tries_until_its_time_is_over() {
    let mut member = membership();
    let mut now = 0;
    let mut tries = 0;
    let fault = loop {
        dial(&mut member, at(now));
        tries += 1;
        assert_eq!(member.next_timeout(), None, "a first attempt has no time limit here");
        match member.handle(failed(DialFault::Unreachable), at(now)) {
            Ok(None) => {}
            Err(fault) => break fault,
            other => panic!("{other:?}"),
        }
        assert!(member.poll(at(now + 99)).is_none());
        assert_eq!(member.next_timeout(), Some(at(now + 100)));
        now += 100;
    };
    assert_eq!((fault, tries), (RoleFault::NotJoined("no".to_owned()), 12));
    assert!(matches!(member.poll(at(5000)), Some(MembershipOutput::Close)));
    assert!(member.poll(at(5000)).is_none());
}

#[test]
fn what_waiting_does_not_change_ends_a_first_try() {
    for (fault, tries) in [
        (DialFault::NoAddress, 1),
        (refused(Reason::UnknownPeer), 1),
        // The other side may be a stranger.
        (DialFault::Handshake { is_lasting: true }, 12),
        (DialFault::Handshake { is_lasting: false }, 12),
        (refused(Reason::DuplicateId), 12),
    ] {
        let mut member = membership();
        let tried = (0..100).find(|tried| {
            dial(&mut member, at(tried * 100));
            member.handle(failed(fault.clone()), at(tried * 100)).is_err()
        });
        assert_eq!(tried, Some(tries - 1), "{fault:?}");
    }
}

#[test]
fn a_broken_connection_is_made_anew_at_once_and_every_100_ms() {
    let mut member = joined();
    let lost = member.handle(Heard::Closed("reset".to_owned()), at(500));
    assert!(matches!(lost, Ok(Some(MembershipEvent::Lost))) && !member.is_up());
    let hello = dial(&mut member, at(500));
    assert_eq!((hello.run_id, hello.incarnation), (RunId::new(4), 1), "it continues as before");
    member.handle(failed(DialFault::NoAddress), at(510)).unwrap();
    assert_eq!(member.next_timeout(), Some(at(610)));
    dial(&mut member, at(610));
    let again = member.handle(welcome(4, 2), at(620)).unwrap();
    let Some(MembershipEvent::Registered(registered)) = again else { panic!("{again:?}") };
    assert_eq!((registered.greeted, registered.incarnation), (at(610), Incarnation::new(2)));
    assert!(member.is_up());
}

#[test]
fn a_try_that_hangs_is_dropped_after_two_seconds() {
    let mut member = joined();
    member.handle(Heard::Closed("reset".to_owned()), at(0)).unwrap();
    dial(&mut member, at(0));
    assert_eq!(member.next_timeout(), Some(at(2000)));
    assert!(member.handle_timeout(at(1999)).unwrap().is_none() && member.poll(at(1999)).is_none());
    assert!(member.handle_timeout(at(2000)).unwrap().is_none());
    assert!(matches!(member.poll(at(2000)), Some(MembershipOutput::Close)));
    assert!(member.handle(welcome(4, 1), at(2010)).unwrap().is_none(), "the connection was dropped");
    assert!(!member.is_up());
    dial(&mut member, at(2100));
}

#[test]
fn patience_has_an_end_and_says_why() {
    let mut member = joined();
    member.handle(Heard::Closed("reset".to_owned()), at(0)).unwrap();
    let mut now = 0;
    let fault = loop {
        match member.handle_timeout(at(now)) {
            Err(fault) => break fault,
            Ok(event) => assert!(event.is_none()),
        }
        if let Some(MembershipOutput::Dial(_)) = member.poll(at(now)) {
            member.handle(failed(DialFault::Unreachable), at(now)).unwrap();
        }
        now += 100;
    };
    let expected = RoleFault::Abandoned {
        cause: "reset".to_owned(),
        tried: Duration::from_secs(5),
        last: "no".to_owned(),
        held: String::new(),
    };
    assert_eq!(fault, expected);
    assert_eq!(member.next_timeout(), None);
}

/// A role whose run has begun may hold data, and looks for the supervisor until it gives up.
#[test]
fn a_role_that_shall_end_before_its_run_does_not_wait_long_for_a_supervisor() {
    for has_begun in [false, true] {
        let mut member = joined();
        if has_begun {
            member.begin();
        }
        member.handle(Heard::Closed("reset".to_owned()), at(0)).unwrap();
        assert!(member.request_run_end("a signal".to_owned()).is_none());
        assert!(matches!(member.poll(at(10)), Some(MembershipOutput::Dial(_))), "one attempt");
        member.handle(failed(DialFault::Unreachable), at(20)).unwrap();
        assert_eq!(member.handle_timeout(at(2500)).is_err(), !has_begun);
    }
}

/// Somebody without the key holds the supervisor's address for a while.
#[test]
fn an_impostor_in_a_run_is_outlived() {
    let mut member = joined();
    member.handle(Heard::Closed("reset".to_owned()), at(0)).unwrap();
    for tried in 0..45 {
        dial(&mut member, at(tried * 100));
        member.handle(failed(DialFault::Handshake { is_lasting: true }), at(tried * 100)).unwrap();
    }
    dial(&mut member, at(4500));
    assert!(matches!(member.handle(welcome(4, 2), at(4510)), Ok(Some(MembershipEvent::Registered(_)))));
}

#[test]
fn another_run_and_a_final_refusal_end_a_role_at_once() {
    let mut member = joined();
    member.handle(Heard::Closed("reset".to_owned()), at(0)).unwrap();
    let mut other = member.clone();
    dial(&mut member, at(0));
    let fault = member.handle(welcome(5, 1), at(10)).unwrap_err();
    assert!(matches!(&fault, RoleFault::Abandoned { last, .. } if last.contains("another run")), "{fault}");
    dial(&mut other, at(0));
    let fault = other.handle(failed(refused(Reason::UnknownPeer)), at(10)).unwrap_err();
    assert!(matches!(&fault, RoleFault::Abandoned { last, .. } if last == "no"), "{fault}");
}

#[test]
fn silence_counts_once_there_is_a_roster() {
    let mut member = joined();
    assert_eq!(member.next_timeout(), None);
    assert!(member.handle_timeout(at(9000)).unwrap().is_none());
    member.watch(at(9000));
    let message = || Heard::Message(Control::default());
    assert!(matches!(member.handle(message(), at(10_000)), Ok(Some(MembershipEvent::Message(_)))));
    for look in (9250..12_000).step_by(250) {
        assert_eq!(member.next_timeout(), Some(at(look)), "the role looks whether it stood still");
        assert!(member.handle_timeout(at(look)).unwrap().is_none());
    }
    assert_eq!(member.next_timeout(), Some(at(12_000)));
    assert!(member.handle_timeout(at(11_999)).unwrap().is_none());
    assert!(matches!(member.handle_timeout(at(12_000)), Ok(Some(MembershipEvent::Lost))));
    assert!(matches!(member.poll(at(12_000)), Some(MembershipOutput::Close)));
    assert!(member.handle(message(), at(12_000)).unwrap().is_none(), "the connection was dropped");
    dial(&mut member, at(12_000));
}

/// A role that was stopped for a minute with its whole host has unread messages of the supervisor.
#[test]
fn a_standstill_is_nobodys_silence() {
    let mut member = joined();
    member.watch(at(0));
    for from in [0, 100_000, 200_000] {
        member.handle(Heard::Message(Control::default()), at(from)).unwrap();
        for look in (from..=from + 1500).step_by(250) {
            assert!(member.handle_timeout(at(look)).unwrap().is_none());
        }
        // Silence of 1.5 s counts, a standstill of a minute does not.
        assert!(member.handle_timeout(at(from + 61_500)).unwrap().is_none() && member.is_up());
        assert!(member.handle_timeout(at(from + 61_750)).unwrap().is_none() && member.is_up());
    }
    assert!(matches!(member.handle_timeout(at(262_100)), Ok(Some(MembershipEvent::Lost))));
}

#[test]
fn the_end_of_the_run_is_asked_for_on_each_connection() {
    let mut member = joined();
    assert!(member.stop_message().is_none());
    assert!(member.request_run_end("enough".to_owned()).is_some());
    member.handle(Heard::Closed("reset".to_owned()), at(0)).unwrap();
    assert!(member.request_run_end("enough".to_owned()).is_none(), "there is no connection");
    assert!(member.stop_message().is_some());
}

#[test]
fn what_is_no_message_ends_a_role() {
    let fault = joined().handle(Heard::Unreadable("too long".to_owned()), at(20)).unwrap_err();
    assert_eq!(fault, RoleFault::Unreadable("too long".to_owned()));
}
