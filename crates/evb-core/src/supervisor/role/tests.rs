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
    SupervisorRole::new(core, journal.then(|| "a.journal".to_owned()))
}

/// Returns all outputs that are available now, and the number of journal entries among them.
fn poll(role: &mut SupervisorRole) -> (Vec<SupervisorOutput>, u64) {
    let outputs: Vec<_> = core::iter::from_fn(|| role.poll(START)).collect();
    let entries = outputs.iter().filter(|output| matches!(output, SupervisorOutput::Journal(_))).count();
    (outputs, entries as u64)
}

/// Returns a role whose peers are all registered and ready, and the number of entries in the
/// journal.
fn running(journal: bool) -> (SupervisorRole, u64) {
    let mut role = role(journal);
    let mut added = 0;
    for peer in EVERYBODY {
        role.register(&hello(peer), START).unwrap();
        added += poll(&mut role).1;
        role.handle_journal(added, added);
        let (told, _) = poll(&mut role);
        assert!(told.contains(&SupervisorOutput::Connect(peer)), "{told:?}");
    }
    for peer in [source(3), source(5)] {
        role.handle_message(peer, control(Message::Ready(Ready {})), START);
    }
    for peer in EVERYBODY {
        role.handle_message(peer, control(Message::Begun(Begun::default())), START);
    }
    added += poll(&mut role).1;
    role.handle_journal(added, added);
    poll(&mut role);
    (role, added)
}

fn sends(outputs: &[SupervisorOutput]) -> usize {
    outputs.iter().filter(|output| matches!(output, SupervisorOutput::Send { .. })).count()
}

#[test]
fn nothing_leaves_before_what_it_depends_on_is_written() {
    let (mut role, mut added) = running(true);
    role.run_mut().trigger(1, START);
    let (outputs, entries) = poll(&mut role);
    assert_eq!((entries, sends(&outputs)), (1, 0));
    added += entries;
    role.handle_journal(added, added - 1);
    assert_eq!(poll(&mut role).0, []);
    role.handle_journal(added, added);
    assert_eq!(sends(&poll(&mut role).0), 2, "an assignment and a decision");
}

#[test]
fn a_peer_is_told_of_its_registration_once_it_is_written_and_not_after_it_is_gone() {
    let mut role = role(true);
    role.register(&hello(source(3)), START).unwrap();
    let (outputs, added) = poll(&mut role);
    assert!(added > 0 && !outputs.contains(&SupervisorOutput::Connect(source(3))));
    role.handle_message(source(3), control(Message::Stop(Stop::default())), START);
    role.handle_message(source(3), Control { message: None }, START);
    let (outputs, entries) = poll(&mut role);
    assert!(outputs.iter().any(|output| matches!(output, SupervisorOutput::Drop { .. })), "{outputs:?}");
    role.handle_journal(added + entries, added + entries);
    assert!(!poll(&mut role).0.contains(&SupervisorOutput::Connect(source(3))));
}

#[test]
fn a_run_goes_on_without_a_journal_that_cannot_be_written() {
    let (mut role, mut added) = running(true);
    let written = added;
    role.run_mut().trigger(1, START);
    added += poll(&mut role).1;
    role.handle_journal(added, written);
    role.handle_journal_failure("no space".to_owned(), START);
    assert_eq!(poll(&mut role).0, []);
    let late = START + JOURNAL_PATIENCE;
    role.handle_journal_failure("no space".to_owned(), late);
    assert_eq!(poll(&mut role).0, [SupervisorOutput::AbandonJournal]);
    role.handle_journal_abandoned(Err("read-only".to_owned()));
    role.handle_journal(added, written);
    assert_eq!(sends(&poll(&mut role).0), 2, "no message waits for the journal");
}

#[test]
fn a_change_is_confirmed_when_it_is_written() {
    let (mut role, mut added) = running(true);
    role.run_mut().pause(START).unwrap();
    role.confirm(7);
    let written = added;
    added += poll(&mut role).1;
    assert!(added > written);
    role.handle_journal(added, written);
    assert_eq!(poll(&mut role).0, []);
    role.handle_journal(added, added);
    assert!(poll(&mut role).0.contains(&SupervisorOutput::Confirmed(7)));
    role.confirm(8);
    assert_eq!(poll(&mut role).0, []);
    role.set_stalled(true, START);
    assert_eq!(poll(&mut role).0, [SupervisorOutput::Confirmed(8)], "confirmations do not wait for it");
}

#[test]
fn a_journal_that_can_be_written_again_has_all_its_time_anew() {
    let (mut role, _) = running(true);
    role.handle_journal_failure("no space".to_owned(), START);
    role.handle_journal_written();
    role.handle_journal_failure("no space".to_owned(), START + JOURNAL_PATIENCE);
    assert_eq!(poll(&mut role).0, []);
}

#[test]
fn triggers_whose_announcements_are_missing_are_made_up_for_and_leaps_ignored() {
    let (mut role, _) = running(false);
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
