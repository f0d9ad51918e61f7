use super::*;
use crate::{
    id::{BuilderId, Epoch, RunNumber, SourceId},
    index::SourceIndex,
    supervisor::{Output, seats::Connection},
    wire::control::Hello,
};

const NOW: Instant = Instant::from_nanos(3_000_000);

fn at(builder: usize) -> BuilderIndex {
    BuilderIndex::new(builder)
}

/// Returns the parts of a run with one source, and with builders 1 and 2, which have two slots
/// each. Events 1 to 4 are assigned in turn.
fn assigner() -> (Assigner, Roster, Outbox) {
    let (sources, builders) = (vec![SourceId::new(3)], vec![BuilderId::new(1), BuilderId::new(2)]);
    let plan = RunPlan { slots: 2, ..RunPlan::new(RunNumber::new(1), Epoch::new(9), sources, builders) };
    let (mut assigner, mut roster, mut outbox) =
        (Assigner::new(&plan), Roster::new(&plan), Outbox::new(&plan));
    let connection = Connection { last_heard: NOW, echo: None, shared_clock: true };
    roster.connect_source(SourceIndex::new(0), &Hello::default(), connection, 0);
    for index in [0, 1].map(at) {
        roster.connect_builder(index, &Hello::default(), connection);
        assigner.set_slots(index, 2, NOW);
    }
    roster.publish(true, &BTreeSet::new(), &mut outbox, NOW);
    for event in 1..=4 {
        let builder = assigner.take_slot(NOW).expect("four slots are free");
        assigner.assign(event, event * 10, 1, builder);
    }
    while outbox.pop().is_some() {}
    assert!(!assigner.has_slot() && assigner.outstanding() == 4);
    assigner.invariants(&roster);
    (assigner, roster, outbox)
}

/// Returns the number of outstanding events of each builder, by the builder's id; 0 stands for
/// events without a builder.
fn holdings(assigner: &Assigner, roster: &Roster, outbox: &mut Outbox) -> Vec<(u32, usize)> {
    assigner.send_holdings(&SourceSet::first(1), roster, outbox);
    let Some(Output::Send { message, .. }) = outbox.pop() else { panic!("nothing is sent") };
    let Some(Message::Holdings(holdings)) = message.message else { panic!("{message:?}") };
    holdings.held.iter().map(|holding| (holding.holder.saturating_sub(1), holding.events.len())).collect()
}

#[test]
fn a_settled_event_frees_its_slot() {
    let (mut assigner, roster, _) = assigner();
    assert!(!assigner.settle(1, at(1), true, NOW), "builder 1 has event 1");
    assert!(assigner.settle(1, at(0), true, NOW) && !assigner.settle(1, at(0), true, NOW));
    assert!(assigner.has_slot());
    assert!(assigner.settle(2, at(1), false, NOW) && assigner.outstanding() == 2);
    assert_eq!((assigner.take_slot(NOW), assigner.take_slot(NOW)), (Some(at(0)), None));
    assigner.invariants(&roster);
}

#[test]
fn unassigned_events_take_precedence_and_sources_hear_of_the_new_builder_when_it_confirms() {
    let (mut assigner, roster, mut outbox) = assigner();
    assigner.set_slots(at(0), 0, NOW);
    assert_eq!(assigner.unassign(at(0)), 2);
    assigner.invariants(&roster);
    assigner.set_slots(at(1), 1, NOW);
    assert!(!assigner.has_slot() && assigner.can_reassign(), "unassigned events take precedence");
    assert_eq!(assigner.reassign(NOW), [(at(1), 1, vec![1])]);
    assert_eq!(holdings(&assigner, &roster, &mut outbox), [(0, 2), (2, 2)]);
    assert!(assigner.accept(at(1), 1) && !assigner.accept(at(1), 1));
    assert_eq!(holdings(&assigner, &roster, &mut outbox), [(0, 1), (2, 3)]);
    assert_eq!((assigner.take_unassigned(), assigner.outstanding()), (vec![3], 3));
    assert_eq!((assigner.take_events(at(1)), assigner.is_idle()), (vec![1, 2, 4], true));
}

#[test]
fn one_confirmation_covers_all_that_a_builder_is_sent_again() {
    let (mut assigner, roster, mut outbox) = assigner();
    assigner.require_confirmations();
    assigner.send_again(at(0), 0, &roster, &mut outbox);
    let Some(Output::Send { to, message }) = outbox.pop() else { panic!("nothing is sent") };
    let Some(Message::Assignments(assignments)) = message.message else { panic!("{message:?}") };
    assert_eq!(to, Recipients::Builder(BuilderId::new(1)));
    assert_eq!((assignments.answer, assignments.epoch, assignments.events().unwrap().len()), (1, 9, 2));
    assigner.send_again(at(0), 2, &roster, &mut outbox);
    assert_eq!(outbox.pop(), None, "no event waits for a second confirmation");
}

#[test]
fn what_is_held_is_read_again_with_unassigned_events_last() {
    let (mut assigner, roster, _) = assigner();
    assigner.unassign(at(0));
    let held = assigner.held();
    assert_eq!(held.iter().map(|held| held.builder).collect::<Vec<_>>(), [2, 0]);
    let plan =
        RunPlan::new(RunNumber::new(1), Epoch::new(9), vec![], vec![BuilderId::new(1), BuilderId::new(2)]);
    let mut next = Assigner::new(&plan);
    held.iter().for_each(|held| next.recall_held(held, 4, &roster).unwrap());
    next.invariants(&roster);
    assert_eq!((next.held(), next.counts(&roster)), (held.clone(), vec![0, 2]));
    assert!(next.recall_held(&held[0], 4, &roster).is_err(), "an event is assigned once");
    let nobody = Held { builder: 65_537, ..held[0].clone() };
    assert!(Assigner::new(&plan).recall_held(&nobody, 4, &roster).is_err());
}
