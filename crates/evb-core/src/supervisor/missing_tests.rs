//! Tests of sources that are missing in events, with their causes, and of runs without a source.

use core::time::Duration;

use crate::{
    event::Cause,
    ledger::DeadTimeCause,
    supervisor::{
        FrontEndSurvey, Presence, RunPlan, SourceLoss,
        tests::{Stage, both, builder, complete, plan, source, to},
    },
    trigger::TriggerKind,
    wire::control::{Completions, Exception, Message, Outcome, ReadoutState, ReadoutStatus, Ready, Roster},
};

#[test]
fn while_no_source_is_up_nothing_is_assigned_and_at_last_the_run_ends() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.core.handle_disconnect(source(3), "gone", stage.now);
    stage.core.handle_disconnect(source(5), "gone", stage.now);
    stage.trigger(3);
    assert_eq!(stage.core.progress().events.inhibited, 3);
    let causes = stage.core.survey(stage.now).dead_time;
    assert_eq!(causes, [DeadTimeCause { cause: "no source is up".to_owned(), inhibited: 3 }]);
    stage.pass(Duration::from_secs(11), &[builder(1), builder(2)]);
    stage.reports(&[(1, complete(0)), (2, complete(0))]);
    let report = stage.report.unwrap();
    assert!(
        report.problems.iter().any(|problem| problem
            == "no source is up any more; check the hosts and the network of the sources, then their logs"),
        "{:?}",
        report.problems
    );
}

/// A run whose triggers are free slots has none while no source is up, so it has no dead time.
#[test]
fn free_slots_wait_while_no_source_is_up() {
    let mut stage = Stage::running(plan(TriggerKind::AsFastAsPossible));
    let all = [source(3), source(5), builder(1), builder(2)];
    stage.pass(Duration::from_millis(100), &all);
    assert_eq!(stage.core.progress().events.assigned, 4);
    stage.core.handle_disconnect(source(3), "gone", stage.now);
    stage.core.handle_disconnect(source(5), "gone", stage.now);
    stage.excepts(builder(1), 1, Outcome::Incomplete, &[3, 5]);
    stage.pass(Duration::from_secs(1), &[builder(1), builder(2)]);
    let events = stage.core.progress().events;
    assert_eq!((events.assigned, events.inhibited, events.incomplete), (4, 0, 1));
    stage.register(source(3));
    stage.says(source(3), Message::Ready(Ready {}));
    assert_eq!(stage.core.progress().events.assigned, 5, "a source is up again");
}

fn readout(state: ReadoutState) -> Message {
    let connected = u32::from(state != ReadoutState::Gone);
    Message::Readout(ReadoutStatus { state, expected: 1, connected, holds_first: false })
}

fn latest_roster(stage: &mut Stage) -> Roster {
    stage.rosters().pop().unwrap()
}

fn presences(stage: &Stage) -> Vec<Presence> {
    stage.core.survey(stage.now).sources.iter().map(|source| source.presence).collect()
}

/// Events do not wait for a source whose readout is silent or gone, but the source gets decisions.
#[test]
fn a_source_without_readout_is_expected_by_no_event_until_it_delivers_again() {
    for state in [ReadoutState::Silent, ReadoutState::Gone] {
        let mut stage = Stage::running(plan(TriggerKind::External));
        stage.says(source(3), readout(state));
        stage.trigger(1);
        assert_eq!(stage.verdicts().last(), Some(&(both(), vec![(1, 1, to(1))])), "it gets every decision");
        let roster = latest_roster(&mut stage);
        assert_eq!((roster.up, roster.quiet, roster.awaited), (vec![3, 5], vec![3], vec![]));
        assert_eq!(presences(&stage), [Presence::NoReadout, Presence::Up]);
        stage.says(source(3), readout(ReadoutState::Present));
        stage.trigger(1);
        assert!(latest_roster(&mut stage).quiet.is_empty());
        assert_eq!(presences(&stage), [Presence::Up, Presence::Up]);
        stage.core.invariants();
    }
}

#[test]
fn events_wait_for_a_source_without_readout_if_the_run_waits_for_every_source() {
    let on_source_loss = SourceLoss::Wait;
    let mut stage = Stage::running(RunPlan { on_source_loss, ..plan(TriggerKind::External) });
    stage.says(source(3), readout(ReadoutState::Gone));
    stage.trigger(1);
    let roster = latest_roster(&mut stage);
    assert_eq!((roster.quiet, roster.awaited), (vec![3], vec![3]));
    stage.says(source(3), readout(ReadoutState::Present));
    stage.trigger(1);
    let roster = latest_roster(&mut stage);
    assert!(roster.quiet.is_empty() && roster.awaited.is_empty());
}

/// After a takeover, a readout that has come back in the meantime is not waited for any longer.
#[test]
fn a_source_that_goes_on_with_a_readout_is_not_awaited_by_the_next_supervisor() {
    let on_source_loss = SourceLoss::Wait;
    let plan = RunPlan { on_source_loss, journal: true, ..plan(TriggerKind::External) };
    let mut stage = Stage::running(plan.clone());
    stage.says(source(3), readout(ReadoutState::Gone));
    stage.trigger(1);
    let mut next = stage.followed_by(&plan, stage.journal.clone()).with_everybody();
    next.trigger(1);
    let roster = latest_roster(&mut next);
    assert!(roster.quiet.is_empty() && roster.awaited.is_empty(), "{roster:?}");
}

#[test]
fn without_any_readout_triggers_are_inhibited_and_the_run_goes_on() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.says(source(3), readout(ReadoutState::Gone));
    stage.says(source(5), readout(ReadoutState::Silent));
    stage.trigger(1);
    assert_eq!(stage.core.progress().events.assigned, 1, "a silent readout may speak again");
    stage.says(source(5), readout(ReadoutState::Gone));
    stage.trigger(3);
    let causes = stage.core.survey(stage.now).dead_time;
    assert_eq!(causes, [DeadTimeCause { cause: "no readout".to_owned(), inhibited: 3 }]);
    let all = [source(3), source(5), builder(1), builder(2)];
    stage.pass(Duration::from_secs(30), &all);
    assert!(stage.report.is_none(), "the processes are up");
    stage.says(source(5), readout(ReadoutState::Silent));
    stage.trigger(1);
    assert_eq!(stage.core.progress().events.assigned, 2);
}

#[test]
fn free_slots_wait_while_no_source_has_a_readout() {
    let mut stage = Stage::running(plan(TriggerKind::AsFastAsPossible));
    stage.pass(Duration::from_millis(100), &[source(3), source(5), builder(1), builder(2)]);
    let before = stage.core.progress().events.assigned;
    stage.says(source(3), readout(ReadoutState::Silent));
    stage.says(source(5), readout(ReadoutState::Silent));
    stage.excepts(builder(1), 1, Outcome::Incomplete, &[3, 5]);
    assert_eq!(stage.core.progress().events.assigned, before);
    stage.says(source(5), readout(ReadoutState::Present));
    assert_eq!(stage.core.progress().events.assigned, before + 1);
}

/// A readout may come and go before the run has begun.
#[test]
fn before_the_run_a_readout_may_come_and_go() {
    let mut stage = Stage::new(plan(TriggerKind::External));
    stage.register(source(3));
    stage.says(source(3), readout(ReadoutState::Gone));
    let survey = stage.core.survey(stage.now);
    assert_eq!(survey.sources[0].presence, Presence::Connecting);
    assert_eq!(survey.sources[0].front_ends, Some(FrontEndSurvey { expected: 1, connected: 0 }));
}

#[test]
fn missing_sources_without_their_causes_close_the_connection() {
    for (missing, missing_causes) in
        [(vec![5], vec![]), (vec![], vec![1]), (vec![5], vec![256]), (vec![], vec![])]
    {
        let mut stage = Stage::running(plan(TriggerKind::External));
        stage.trigger(1);
        let outcome = Outcome::Incomplete;
        let exception = Exception { event: 1, outcome, missing, missing_causes, ..Exception::default() };
        let completions = Completions { exceptions: vec![exception.clone()], ..Completions::default() };
        stage.says(builder(1), Message::Completions(completions));
        assert_eq!(
            (stage.dropped, stage.core.progress().events.incomplete),
            (vec![builder(1)], 0),
            "{exception:?}"
        );
    }
}

/// A cause of a later version of evb is kept, for the readers of the summary.
#[test]
fn missing_fragments_are_counted_by_source_and_cause() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.trigger(2);
    for (event, to, missing_causes) in [(1, 1, vec![1, 2]), (2, 2, vec![1, 77])] {
        let missing = vec![3, 5];
        let outcome = Outcome::Incomplete;
        let exception = Exception { event, outcome, missing, missing_causes, ..Exception::default() };
        let completions = Completions { exceptions: vec![exception], ..Completions::default() };
        stage.says(builder(to), Message::Completions(completions));
    }
    let survey = stage.core.survey(stage.now);
    let causes = survey.sources.iter().map(|source| (source.missing, source.missing_by_cause.clone()));
    let expected = [[(Cause::Down, 2)].into(), [(Cause::Silent, 1), (Cause::Other(77), 1)].into()];
    assert_eq!(causes.collect::<Vec<_>>(), expected.map(|by_cause| (2, by_cause)));
}
