//! Tests of snapshots of real states, and of snapshots of impossible states.

use core::time::Duration;
use std::collections::BTreeMap;

use super::super::{
    RecoverError, RunPlan, RunState, SupervisorCore,
    tests::{Stage, builder, complete, hello, plan, recovered, source},
};
use crate::{
    event::Cause,
    id::RunNumber,
    index::SourceIndex,
    trigger::TriggerKind,
    wire::{
        control::{Hello, MAX_BUILDERS, Outcome},
        journal::{Blame, BuilderTotals, CauseOfLoss, Change, Entry, Expectation, Totals, What},
    },
};

const HUGE: u64 = u64::MAX;

fn journaled() -> RunPlan {
    RunPlan { journal: true, ..plan(TriggerKind::External) }
}

/// Returns a run in which no count is zero. Event 1 is lost, event 2 is complete, and events 5 and
/// 6 are inhibited. Source 3 is down. Builder 1 died and has registered again, so events 3 and 7
/// are unassigned; builder 2 has events 4 and 8.
fn eventful() -> Stage {
    let mut stage = Stage::running(journaled());
    stage.trigger(6);
    stage.excepts(builder(1), 1, Outcome::Lost, &[]);
    stage.completes(builder(2), &[2]);
    stage.core.handle_disconnect(source(3), "killed", stage.now);
    stage.trigger(2);
    stage.core.handle_disconnect(builder(1), "killed", stage.now);
    stage.pass(Duration::from_secs(3), &[source(5), builder(2)]);
    stage.core.register(&hello(builder(1)), stage.now).unwrap();
    stage.poll();
    stage
}

fn totals(entries: &mut [Entry]) -> &mut Totals {
    match &mut entries[2].what {
        Some(What::Totals(totals)) => totals,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_state_that_is_written_down_is_read_again() {
    let mut stage = eventful();
    let (events, outstanding) = (stage.core.progress().events, stage.core.progress().outstanding);
    assert_eq!((events.lost, events.complete, events.inhibited, outstanding), (1, 1, 2, 4));
    let written = stage.core.snapshot(stage.now);
    stage.now += Duration::from_secs(1);
    let by_totals = recovered(&journaled(), &written, stage.now).unwrap();
    let by_entries = recovered(&journaled(), &stage.journal, stage.now).unwrap();
    let again = |core: &SupervisorCore| format!("{:#?}", core.snapshot(stage.now));
    assert_eq!(again(&by_totals), again(&by_entries));
    assert_eq!((by_totals.progress().events, by_totals.progress().outstanding), (events, outstanding));
    assert_eq!(by_totals.assigner.clone().take_unassigned(), [3, 7]);
}

/// The time for which a source is down includes the time before the journal was replaced by a
/// snapshot.
#[test]
fn a_source_that_was_down_all_the_time_was_down_all_the_time() {
    let mut stage = Stage::running(journaled());
    stage.core.handle_disconnect(source(3), "killed", stage.now);
    stage.trigger(1);
    let everybody_else = [source(5), builder(1), builder(2)];
    stage.pass(Duration::from_secs(2), &everybody_else);
    let mut next = stage.followed_by(&journaled(), stage.core.snapshot(stage.now));
    next.now += Duration::from_millis(100);
    let mut stage = next.with_everybody();
    let seat = stage.core.roster.source(SourceIndex::new(0));
    assert_eq!(seat.down_time, Duration::from_millis(2100));
    stage.trigger(1);
    assert_eq!(stage.core.progress().sources_up, 2);
}

#[test]
fn a_run_that_is_over_or_takes_no_more_triggers_stays_so() {
    let mut stage = Stage::running(journaled());
    stage.trigger(1);
    stage.core.stop("enough", stage.now);
    stage.poll();
    // The second supervisor is killed as well, before any peer has registered.
    let next = stage.followed_by(&journaled(), stage.core.snapshot(stage.now));
    assert_eq!(next.core.progress().state, RunState::Recovering);
    let third = next.followed_by(&journaled(), next.core.snapshot(next.now)).with_everybody();
    assert_eq!(third.core.progress().state, RunState::Stopping);

    stage.completes(builder(1), &[1]);
    stage.reports(&[(1, complete(1)), (2, complete(0))]);
    assert!(stage.report.is_some());
    let over = recovered(&journaled(), &stage.core.snapshot(stage.now), stage.now);
    assert!(matches!(over, Err(RecoverError::Over(_))), "{over:?}");
}

#[test]
fn missing_fragments_are_counted_over_a_restart() {
    let mut stage = Stage::running(journaled());
    stage.trigger(1);
    stage.excepts(builder(1), 1, Outcome::Incomplete, &[3]);
    let by_cause = |entries: &[Entry]| {
        let core = recovered(&journaled(), entries, stage.now).unwrap();
        core.survey(stage.now).sources[0].missing_by_cause.clone()
    };
    assert_eq!(by_cause(&stage.journal), BTreeMap::from([(Cause::Down, 1)]));
    let mut entries = stage.core.snapshot(stage.now);
    assert_eq!(by_cause(&entries), BTreeMap::from([(Cause::Down, 1)]));
    // An earlier version of evb kept no causes.
    totals(&mut entries).sources[0].missing_by_cause.clear();
    assert_eq!(by_cause(&entries), BTreeMap::from([(Cause::Unknown, 1)]));
}

/// The fuzzer found that the number of a run that had not begun could fall when the journal was
/// replaced by a snapshot.
#[test]
fn the_highest_run_number_of_a_builder_is_kept() {
    let mut stage = Stage::new(journaled());
    let knowing = Hello { highest_run: 49, ..hello(builder(1)) };
    stage.core.register(&knowing, stage.now).unwrap();
    stage.poll();
    let run = |entries: &[Entry]| recovered(&journaled(), entries, stage.now).unwrap().progress().run;
    assert_eq!(stage.core.progress().run, RunNumber::new(49));
    assert_eq!(
        (run(&stage.journal), run(&stage.core.snapshot(stage.now))),
        (RunNumber::new(49), RunNumber::new(49))
    );
}

/// An expected error message, and the change of the totals that causes it.
type Damage = (&'static str, fn(&mut Totals));

fn are_refused(cases: &[Damage]) {
    let stage = eventful();
    let good = stage.core.snapshot(stage.now);
    for (problem, change) in cases {
        let mut entries = good.clone();
        change(totals(&mut entries));
        let Err(RecoverError::Senseless { number: 3, problem: said }) =
            recovered(&journaled(), &entries, stage.now)
        else {
            panic!("{problem}: {:?}", totals(&mut entries));
        };
        assert!(said.contains(problem), "{said:?}, not {problem:?}");
    }
}

#[test]
fn impossible_counts_of_events_are_refused() {
    are_refused(&[
        ("larger than any possible", |totals| totals.triggered = HUGE),
        ("more triggers are inhibited", |totals| totals.inhibited = 9),
        ("more triggers are inhibited", |totals| totals.inhibited = HUGE),
        ("larger than any possible", |totals| totals.lost = HUGE),
        ("do not add up", |totals| totals.lost += 1),
        ("do not add up", |totals| totals.triggered += 1),
        ("more than were inhibited", |totals| totals.inhibited -= 1),
        ("later than the entry", |totals| totals.started_ns = HUGE / 2),
        ("later than the entry", |totals| totals.first_trigger_ns = HUGE / 2),
        ("later than the entry", |totals| totals.last_completion_ns = HUGE / 2),
        ("before the start", |totals| totals.started_ns = 0),
        ("more than were inhibited", |totals| totals.blames[0].inhibited = 3),
        ("larger than any possible", |totals| totals.blames[0].inhibited = HUGE),
        ("larger than any possible", |totals| {
            totals.blames = vec![Blame { inhibited: 1 << 49, ..Blame::default() }; 3]
        }),
        ("more than were lost", |totals| totals.losses[0].events = 2),
        ("larger than any possible", |totals| totals.losses[0].events = HUGE),
        ("larger than any possible", |totals| {
            totals.losses = vec![CauseOfLoss { cause: String::new(), events: 1 << 49 }; 3];
        }),
    ]);
}

#[test]
fn impossible_peers_are_refused() {
    fn first(totals: &mut Totals) -> &mut BuilderTotals {
        &mut totals.builders[0]
    }
    are_refused(&[
        ("larger than any possible", |totals| totals.roster_version = u32::MAX),
        ("larger than any possible", |totals| {
            totals.expectations.push(Expectation { version: u32::MAX, ..Expectation::default() });
        }),
        ("no such source", |totals| totals.expectations[0].sources.push(2)),
        ("no such source", |totals| totals.expectations[0].quiet.push(2)),
        ("no such source", |totals| totals.up.push(u32::MAX)),
        ("no such source", |totals| totals.awaited.push(2)),
        ("another number of sources", |totals| totals.sources.truncate(1)),
        ("larger than any possible", |totals| totals.sources[0].incarnation = u32::MAX),
        ("larger than any possible", |totals| totals.sources[0].missing = HUGE),
        ("a cause without a number", |totals| totals.sources[0].missing_by_cause = vec![1]),
        ("a cause is above 255", |totals| totals.sources[0].missing_by_cause = vec![256, 0]),
        ("by cause than in total", |totals| {
            let source = &mut totals.sources[0];
            (source.missing, source.missing_by_cause) = (2, vec![1, 2, 2, u64::MAX]);
        }),
        ("in another order", |totals| totals.builders.swap(0, 1)),
        ("in another order", |totals| totals.builders[1] = totals.builders[0].clone()),
        ("lack a builder", |totals| totals.builders.truncate(1)),
        ("above 65535", |totals| first(totals).id = 65_537),
        ("more builders", |totals| {
            let more = |id| BuilderTotals { id, membership: Change::Added, ..BuilderTotals::default() };
            totals.builders.extend((3..=MAX_BUILDERS as u32 + 1).map(more));
        }),
        ("larger than any possible", |totals| first(totals).incarnation = u32::MAX),
        ("not host:port", |totals| first(totals).listen = "x".repeat(301)),
        ("larger than any possible", |totals| first(totals).accounted = HUGE),
        ("membership is unknown", |totals| first(totals).membership = Change::Unspecified),
        ("than were accepted", |totals| first(totals).past_written = HUGE),
    ]);
}

#[test]
fn impossible_books_of_builders_are_refused() {
    use crate::wire::journal::BuilderCounts;
    fn past(totals: &mut Totals) -> &mut BuilderCounts {
        totals.builders[0].past.as_mut().unwrap()
    }
    fn present(totals: &mut Totals) -> &mut BuilderCounts {
        totals.builders[1].present.as_mut().unwrap()
    }
    are_refused(&[
        ("larger than any possible", |totals| present(totals).assigned = HUGE),
        ("larger than any possible", |totals| present(totals).complete = HUGE),
        ("larger than any possible", |totals| present(totals).moved = HUGE),
        ("larger than any possible", |totals| present(totals).faults = HUGE),
        ("than were assigned to it", |totals| present(totals).lost = 5),
        ("than were assigned to it", |totals| past(totals).lost_with_it = 1 << 49),
        ("larger than any possible", |totals| past(totals).rejected = HUGE),
        // Each of these counts is possible by itself, but contradicts the builder's events.
        ("match its outstanding events", |totals| present(totals).assigned += 1),
        ("do not add up", |totals| present(totals).complete += 1),
        ("do not add up", |totals| {
            past(totals).assigned += 1;
            past(totals).lost += 1;
        }),
    ]);
}

#[test]
fn impossible_outstanding_events_are_refused() {
    fn hold(totals: &mut Totals, events: &[u64]) {
        totals.held[0].events = events.to_vec();
        totals.held[0].triggered_ns = vec![1; events.len()];
    }
    are_refused(&[
        ("no such builder", |totals| totals.held[0].builder = 3),
        ("no such builder", |totals| totals.held[0].builder = u32::MAX),
        ("takes no part", |totals| totals.builders[1].over = true),
        ("differ in number", |totals| totals.held[0].triggered_ns.push(1)),
        ("not triggered", |totals| hold(totals, &[0, 4])),
        ("not triggered", |totals| hold(totals, &[HUGE, 5])),
        ("not triggered", |totals| hold(totals, &[4, HUGE - 5])),
        ("assigned twice", |totals| hold(totals, &[4, 0])),
        ("assigned twice", |totals| totals.held[1] = totals.held[0].clone()),
        ("unknown roster version", |totals| totals.held[0].version = 9),
        ("do not add up", |totals| {
            totals.held.pop();
        }),
        ("match its outstanding events", |totals| totals.held[0].builder = 0),
        ("match its outstanding events", |totals| totals.held[0].builder = 1),
    ]);
}

#[test]
fn totals_come_before_everything_else() {
    let stage = eventful();
    let good = stage.core.snapshot(stage.now);
    let twice = [&good[..], &good[2..3]].concat();
    let fault = recovered(&journaled(), &twice, stage.now).unwrap_err();
    assert_eq!(fault.to_string().split(": ").nth(1), Some("totals stand at the beginning of a journal only"));
    let mut late = good.clone();
    late.insert(2, Entry { what: Some(What::Paused(false)), ..late[0].clone() });
    assert!(matches!(
        recovered(&journaled(), &late, stage.now),
        Err(RecoverError::Senseless { number: 4, .. })
    ));
}
