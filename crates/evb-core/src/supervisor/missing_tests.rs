//! Tests of sources that are missing in events, with their causes, and of runs without a source.

use core::time::Duration;

use crate::{
    event::Cause,
    ledger::DeadTimeCause,
    supervisor::tests::{Stage, builder, complete, plan, source},
    trigger::TriggerKind,
    wire::control::{Completions, Exception, Message, Outcome, Ready},
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
    assert!(report.problems.iter().any(|problem| problem == "no source is left"), "{:?}", report.problems);
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
