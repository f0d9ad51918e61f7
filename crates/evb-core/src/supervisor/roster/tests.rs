use core::time::Duration;
use std::collections::BTreeSet;

use super::*;
use crate::{
    id::{Epoch, RunNumber},
    supervisor::{Output, outbox::Outbox},
    wire::control::{BuilderReport, Message, Report, RoleReport, SourceReport},
};

const NOW: Instant = Instant::from_nanos(3_000_000);

fn source(index: usize) -> SourceIndex {
    SourceIndex::new(index)
}

fn builder(index: usize) -> BuilderIndex {
    BuilderIndex::new(index)
}

fn connection(now: Instant) -> Connection {
    Connection { last_heard: now, echo: None, shared_clock: true }
}

/// Returns the roster of sources 3 and 5 and builder 1. All are connected and ready, and version 1
/// is published.
pub(in crate::supervisor) fn roster() -> (Roster, Outbox) {
    let (sources, builders) = (vec![SourceId::new(3), SourceId::new(5)], vec![BuilderId::new(1)]);
    let plan = RunPlan::new(RunNumber::new(1), Epoch::new(1), sources, builders);
    let (mut roster, mut outbox) = (Roster::new(&plan), Outbox::new(&plan));
    assert_eq!((roster.absent().len(), roster.is_complete()), (3, false));
    for index in [0, 1].map(source) {
        roster.connect_source(index, &Hello::default(), connection(NOW), 0);
        assert!(!roster.is_ready());
        roster.set_ready(index);
    }
    assert!(!roster.connect_builder(builder(0), &Hello::default(), connection(NOW)), "a new process");
    roster.publish(true, &BTreeSet::new(), &mut outbox, NOW);
    assert!(roster.is_ready() && roster.up().len() == 2 && outbox.pop().is_some());
    roster.invariants();
    (roster, outbox)
}

fn messages(outbox: &mut Outbox) -> Vec<(Recipients, Message)> {
    let outputs = core::iter::from_fn(|| outbox.pop());
    let sent = outputs.filter_map(|output| match output {
        Output::Send { to, message } => Some((to, message.message?)),
        _ => None,
    });
    sent.collect()
}

#[test]
fn a_source_that_was_down_is_told_that_events_are_closed_for_it() {
    let (mut roster, mut outbox) = roster();
    outbox.inhibit(2, NOW);
    roster.lower(source(0), &mut outbox);
    roster.note_absence(source(0), false, NOW);
    roster.publish(false, &BTreeSet::from([1]), &mut outbox, NOW);
    assert_eq!((roster.audience_of(1).expected.len(), roster.audience_of(2).expected.len()), (2, 1));
    outbox.inhibit(3, NOW);
    assert!(!roster.raise(source(0), &mut outbox, NOW + Duration::from_secs(1)));
    let closed = messages(&mut outbox).pop();
    let Some((Recipients::Source(id), Message::Decisions(decisions))) = closed else { panic!("{closed:?}") };
    assert_eq!((id.number(), decisions.first), (3, 3));
    let seat = roster.source(source(0));
    assert_eq!((seat.down_time, seat.told), (Duration::from_secs(1), 5));
    roster.invariants();
}

#[test]
fn events_wait_for_a_source_that_is_awaited() {
    let (mut roster, mut outbox) = roster();
    roster.lower(source(1), &mut outbox);
    roster.note_absence(source(1), true, NOW);
    roster.publish(false, &BTreeSet::new(), &mut outbox, NOW);
    assert_eq!((roster.audience_of(2).expected.len(), roster.numbers(roster.awaited())), (2, vec![5]));
    roster.invariants();
    assert!(roster.raise(source(1), &mut outbox, NOW));
    assert!(roster.awaited().is_empty() && !roster.stop_waiting());
}

#[test]
fn who_is_silent_is_heard_again() {
    let (mut roster, _) = roster();
    let seat = Seat::Builder(builder(0));
    roster.suspend(builder(0));
    assert!(!roster.has_active_builder() && !roster.lacks_builders());
    assert_eq!((roster.hear(seat, NOW), roster.hear(seat, NOW)), (Some(true), Some(false)));
    assert!(roster.disconnect(seat, "cut") && !roster.disconnect(seat, "cut"));
    assert_eq!((roster.hear(seat, NOW), is_back(&roster)), (None, false));
    roster.end_incarnation(builder(0));
    assert!(roster.lacks_builders() && is_back(&roster));
}

#[test]
fn the_same_process_goes_on_and_another_begins() {
    let (mut roster, _) = roster();
    let first = Hello { incarnation: 1, ..Hello::default() };
    assert!(roster.connect_builder(builder(0), &first, connection(NOW)));
    roster.bar(builder(0));
    assert!(!roster.connect_builder(builder(0), &first, connection(NOW)));
    assert_eq!(roster.builder(builder(0)).incarnation, 2);
}

#[test]
fn reports_are_waited_for_while_they_may_come() {
    let (mut roster, _) = roster();
    let patience = Duration::from_secs(2);
    let of_builder = Report { report: Some(RoleReport::Builder(BuilderReport::default())), live: None };
    let of_source = Report { report: Some(RoleReport::Source(SourceReport::default())), live: None };
    assert!(keep_report(&mut roster, Seat::Source(source(0)), of_builder.clone(), NOW).is_err());
    assert!(keep_report(&mut roster, Seat::Builder(builder(0)), of_builder, NOW).is_ok());
    assert!(keep_report(&mut roster, Seat::Source(source(0)), of_source, NOW).is_ok());
    roster.disconnect(Seat::Source(source(1)), "cut");
    assert!(!has_reported(&roster, patience, NOW + Duration::from_secs(1)));
    assert!(has_reported(&roster, patience, NOW + patience));
}
