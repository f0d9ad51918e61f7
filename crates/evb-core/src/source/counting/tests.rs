//! A source whose readout pushes a trigger counter.

use crate::{
    alignment::{CounterStart, TriggerCounter},
    fragment::{Fragment, Timestamp},
    id::EventId,
    source::{
        SourceCore, SourceCoreConfig,
        tests::{FOUR, at, decisions, report, source},
    },
    wire::control::{SourceReport, Verdict},
};

/// Returns a source whose boards count 16 bits from 0.
fn counting() -> SourceCore {
    let mut source = source(false);
    source.set_counter(TriggerCounter { first: CounterStart::At(0), ..TriggerCounter::new(16) });
    source
}

/// Pushes a fragment of the trigger `trigger`, with that raw counter.
fn push(source: &mut SourceCore, raw: u64, trigger: u64) {
    let fragment = Fragment::new(EventId::new(raw), Timestamp::new(trigger), vec![7; 50]);
    source.push(fragment, at(trigger / 100)).unwrap();
    source.invariants();
}

/// Pushes the fragments of triggers, and assigns their events.
fn run(source: &mut SourceCore, triggers: core::ops::RangeInclusive<u64>) {
    for trigger in triggers {
        push(source, (trigger - 1) & 0xffff, trigger);
        source.handle_decisions(&decisions(trigger, &[FOUR])).unwrap();
    }
}

#[test]
fn fragments_go_to_their_events_and_each_fault_is_counted() {
    let mut source = counting();
    run(&mut source, 1..=65_536);
    source.handle_decisions(&decisions(65_537, &[FOUR; 4])).unwrap();
    push(&mut source, 3, 65_540);
    push(&mut source, 1, 65_538);
    push(&mut source, 3, 65_540);
    let found = report(&source);
    assert_eq!((found.pushed, found.uncommitted), (65_539, 65_538));
    let expected = SourceReport {
        counter_gaps: 1,
        counter_skipped: 3,
        counter_late: 1,
        repeats: 1,
        pushed: found.pushed,
        pushed_bytes: found.pushed_bytes,
        backlog_peak_bytes: found.backlog_peak_bytes,
        last_event: 65_540,
        uncommitted: found.uncommitted,
        ..SourceReport::default()
    };
    assert_eq!(SourceReport { stages: None, ..found }, expected);
}

#[test]
fn after_a_reset_nothing_is_used_and_all_of_it_is_counted() {
    let mut source = counting();
    run(&mut source, 1..=2000);
    for raw in 0..5000 {
        push(&mut source, raw, 2001 + raw);
        source.handle_decisions(&decisions(2001 + raw, &[FOUR])).unwrap();
    }
    let found = report(&source);
    assert_eq!((found.pushed, found.counter_resets, found.unplaced), (2000, 1, 5000));
    assert_eq!((found.contradictions, found.closed), (0, 0));
}

#[test]
fn a_silence_of_a_wrap_and_values_that_cannot_be_are_counted() {
    let mut source = counting();
    run(&mut source, 1..=100);
    push(&mut source, 65_536, 101);
    source.handle_decisions(&decisions(101, &vec![Verdict::Inhibited; 65_536])).unwrap();
    (100..110).for_each(|raw| push(&mut source, raw, 65_637));
    let found = report(&source);
    assert_eq!((found.pushed, found.counter_invalid, found.lost_wraps), (100, 1, 10));
}

#[test]
fn a_counter_that_skips_0_is_named() {
    let mut source = counting();
    run(&mut source, 1..=65_536);
    push(&mut source, 1, 65_537);
    let found = report(&source);
    assert_eq!((found.counter_zero_skips, found.counter_gaps, found.counter_skipped), (1, 1, 1));
}

#[test]
fn the_counter_begins_with_the_run() {
    for first in [CounterStart::At(7), CounterStart::Any] {
        let mut source = source(false);
        source.set_counter(TriggerCounter { first, ..TriggerCounter::new(16) });
        push(&mut source, 900, 0);
        source.discard();
        push(&mut source, 901, 0);
        source.keep();
        push(&mut source, 7, 1);
        source.handle_decisions(&decisions(1, &[FOUR])).unwrap();
        assert_eq!(report(&source).uncommitted, 1, "event 1 is on its lane");
        assert_eq!(report(&source).counter_resets, 0);
    }
}

#[test]
fn without_a_first_value_a_source_that_joins_late_places_nothing() {
    let decided = EventId::new(5);
    let mut source = SourceCore::new(SourceCoreConfig { decided, ..source(false).config().clone() }, at(0));
    source.set_counter(TriggerCounter { first: CounterStart::Any, ..TriggerCounter::new(64) });
    push(&mut source, 6, 6);
    let found = report(&source);
    assert_eq!((found.pushed, found.unplaced, found.counter_resets), (0, 1, 0));
}
