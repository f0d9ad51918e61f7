use core::time::Duration;

use super::*;
use crate::{
    supervisor::tests::{EVERYBODY, control, hello, plan, source},
    trigger::{TriggerKind, announcement::MAX_COUNT},
    wire::control::{Begun, Ready, Stop},
};

const START: Instant = Instant::from_nanos(1_000_000);

fn role(journal: bool) -> SupervisorRole {
    let plan = super::super::RunPlan { journal, ..plan(TriggerKind::External) };
    let core = SupervisorCore::new(plan, 1, START).unwrap();
    SupervisorRole::new(core, journal.then(|| Keeper::new("a.journal", Keeper::COMPACT_AT)))
}

/// Returns all outputs that are available now.
fn poll(role: &mut SupervisorRole) -> Vec<SupervisorOutput> {
    core::iter::from_fn(|| role.poll(START)).collect()
}

/// Returns the number of journal entries among the outputs.
fn entries(outputs: &[SupervisorOutput]) -> usize {
    let of = |output: &SupervisorOutput| match output {
        SupervisorOutput::Write(write) => write.entries.len(),
        _ => 0,
    };
    outputs.iter().map(of).sum()
}

fn write_down(role: &mut SupervisorRole) {
    role.handle_journal_written(1000, Ok(()), START);
}

/// Returns a role whose peers are all registered and ready, and whose entries are all written.
fn running(journal: bool) -> SupervisorRole {
    let mut role = role(journal);
    for peer in EVERYBODY {
        role.register(&hello(peer), START).unwrap();
        let mut told = poll(&mut role);
        write_down(&mut role);
        told.extend(poll(&mut role));
        assert!(told.contains(&SupervisorOutput::Connect(peer)), "{told:?}");
    }
    for peer in [source(3), source(5)] {
        role.handle_message(peer, control(Message::Ready(Ready {})), START);
    }
    for peer in EVERYBODY {
        role.handle_message(peer, control(Message::Begun(Begun::default())), START);
    }
    poll(&mut role);
    write_down(&mut role);
    poll(&mut role);
    role
}

fn sends(outputs: &[SupervisorOutput]) -> usize {
    outputs.iter().filter(|output| matches!(output, SupervisorOutput::Send { .. })).count()
}

#[test]
fn nothing_leaves_before_what_it_depends_on_is_written() {
    let mut role = running(true);
    role.run_mut().trigger(1, START);
    let outputs = poll(&mut role);
    assert_eq!((entries(&outputs), sends(&outputs)), (1, 0));
    role.run_mut().trigger(1, START);
    assert_eq!(poll(&mut role), [], "one write at a time");
    write_down(&mut role);
    let outputs = poll(&mut role);
    assert_eq!((entries(&outputs), sends(&outputs)), (1, 2), "an assignment and a decision");
    write_down(&mut role);
    assert_eq!(sends(&poll(&mut role)), 2);
}

#[test]
fn a_peer_is_told_of_its_registration_once_it_is_written_and_not_after_it_is_gone() {
    let mut role = role(true);
    role.register(&hello(source(3)), START).unwrap();
    let outputs = poll(&mut role);
    assert!(entries(&outputs) > 0 && !outputs.contains(&SupervisorOutput::Connect(source(3))));
    role.handle_message(source(3), control(Message::Stop(Stop::default())), START);
    role.handle_message(source(3), Control { message: None }, START);
    let outputs = poll(&mut role);
    assert!(outputs.iter().any(|output| matches!(output, SupervisorOutput::Drop { .. })), "{outputs:?}");
    for _ in 0..2 {
        write_down(&mut role);
        assert!(!poll(&mut role).contains(&SupervisorOutput::Connect(source(3))));
    }
}

#[test]
fn a_run_goes_on_without_a_journal_that_cannot_be_written() {
    let mut role = running(true);
    role.run_mut().trigger(1, START);
    poll(&mut role);
    role.handle_journal_failure("no space".to_owned(), START);
    assert_eq!(poll(&mut role), []);
    let late = START + Duration::from_secs(5);
    assert!(matches!(role.poll(late), Some(SupervisorOutput::Write(_))), "it is tried again");
    role.handle_journal_failure("no space".to_owned(), late);
    assert_eq!(role.poll(late), Some(SupervisorOutput::AbandonJournal));
    role.handle_journal_abandoned(Err("read-only".to_owned()), late);
    assert_eq!(sends(&poll(&mut role)), 2, "no message waits for the journal");
}

#[test]
fn a_change_is_confirmed_when_it_is_written() {
    let mut role = running(true);
    role.run_mut().pause(START).unwrap();
    role.confirm(7);
    assert!(!poll(&mut role).contains(&SupervisorOutput::Confirmed(7)));
    write_down(&mut role);
    assert!(poll(&mut role).contains(&SupervisorOutput::Confirmed(7)));
    role.run_mut().resume(START).unwrap();
    role.confirm(8);
    let outputs = poll(&mut role);
    assert!(entries(&outputs) > 0 && !outputs.contains(&SupervisorOutput::Confirmed(8)), "{outputs:?}");
    role.handle_timeout(START + Duration::from_millis(100));
    assert!(!role.takes_registrations());
    let outputs = poll(&mut role);
    assert_eq!(outputs[0], SupervisorOutput::Confirmed(8), "confirmations do not wait for it");
    assert_eq!((entries(&outputs), sends(&outputs)), (0, 4), "nor do heartbeats");
    write_down(&mut role);
    assert!(role.takes_registrations());
}

#[test]
fn triggers_whose_announcements_are_missing_are_made_up_for_and_leaps_ignored() {
    let mut role = running(false);
    let announced = |number| Asked::Announced(Announcement { number, sent_ns: 0 });
    for number in [1, 4, 3, 4 + MAX_COUNT + 1] {
        role.handle_trigger(announced(number), START);
    }
    let counts = role.core().survey(START).triggers;
    assert_eq!(
        (role.core().progress().events.triggered, counts.unannounced, counts.too_far_ahead),
        (4, 1, 1)
    );
    role.handle_trigger(Asked::Count(2), START);
    assert_eq!(role.core().progress().events.triggered, 6);
    role.invariants();
}
