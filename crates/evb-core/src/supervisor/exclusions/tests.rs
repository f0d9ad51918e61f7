//! Tests of sources that are excluded, included or expendable.

use core::time::Duration;

use crate::{
    event::{Cause, MissingSource},
    id::{EventId, Peer, SourceId},
    ledger::Annotation,
    supervisor::{
        ChangeError, OwingRequest, PlanError, Recipients, RunPlan, RunState, SourceLoss,
        exclusions::Exclusions,
        tests::{EVERYBODY, Stage, builder, complete, control, plan, source, to},
    },
    trigger::TriggerKind,
    wire::control::{
        Begun, Completions, Leaving, Message, ReadoutState, ReadoutStatus, Ready, Roster, Verdict,
    },
};

fn request(id: u16, excludes: bool, from: Option<u64>) -> OwingRequest {
    let (source, from) = (SourceId::new(id), from.map(EventId::new));
    OwingRequest { sources: vec![source], excludes, from, why: "broken power supply".to_owned() }
}

impl Stage {
    fn asks(&mut self, id: u16, excludes: bool, from: Option<u64>) -> Result<(), ChangeError> {
        let result = Exclusions { core: &mut self.core }.change(&request(id, excludes, from), self.now);
        self.poll();
        self.core.invariants();
        result
    }

    /// Registers the peers; then these sources are connected to all builders.
    fn is_joined_by(&mut self, peers: &[Peer], ready: &[u16]) {
        for peer in peers {
            self.register(*peer);
        }
        ready.iter().for_each(|id| self.says(source(*id), Message::Ready(Ready {})));
    }

    fn completes_without(&mut self, event: u64, absent: &[MissingSource]) {
        let mut completions = Completions { before: self.before_one(), ..Completions::default() };
        completions.add(&mut EventId::default(), EventId::new(event));
        completions.add_absent(absent);
        self.says(builder(1), Message::Completions(completions));
    }

    fn before_one(&mut self) -> u64 {
        let count = self.completed.entry(builder(1)).or_default();
        *count += 1;
        *count - 1
    }
}

fn only(index: usize) -> Recipients {
    Recipients::Sources([index].into_iter().collect())
}

fn last_roster(stage: &mut Stage) -> Roster {
    stage.rosters().pop().unwrap()
}

/// The source gets no decision, only the news that the events are not its own.
#[test]
fn an_excluded_source_is_asked_for_nothing() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.trigger(1);
    stage.verdicts();
    stage.asks(3, true, None).unwrap();
    stage.trigger(1);
    let verdicts = stage.verdicts();
    assert_eq!(verdicts, [(only(0), vec![(2, 1, Verdict::Excluded)]), (only(1), vec![(2, 1, to(2))])]);
    let roster = last_roster(&mut stage);
    assert_eq!((roster.up, roster.excluded, roster.released), (vec![3, 5], vec![3], vec![3]));
    stage.asks(3, false, None).unwrap();
    stage.trigger(1);
    assert_eq!(stage.verdicts(), [(super::super::tests::both(), vec![(3, 1, to(1))])]);
    let roster = last_roster(&mut stage);
    assert!(roster.excluded.is_empty() && roster.released.is_empty(), "{roster:?}");
}

/// Each event is decided under the rules of its id, also where many are decided at once.
#[test]
fn a_change_applies_from_its_event_on_in_every_kind_of_run() {
    for trigger in [TriggerKind::External, TriggerKind::AsFastAsPossible] {
        let mut stage = Stage::running(RunPlan { slots: 20, ..plan(trigger) });
        let next = stage.core.progress().events.triggered + 1;
        let (from, back) = (next + 3, next + 5);
        stage.asks(3, true, Some(from)).unwrap();
        stage.asks(3, false, Some(back)).unwrap();
        stage.verdicts();
        match trigger {
            TriggerKind::External => {
                stage.core.trigger(8, stage.now);
                stage.core.handle_timeout(stage.now);
                stage.core.handle_timeout(stage.now);
                stage.poll();
            }
            _ => stage.completes(builder(1), &(1..=next - 1).step_by(2).collect::<Vec<_>>()),
        }
        let excluded: Vec<u64> = stage
            .verdicts()
            .into_iter()
            .filter(|(recipients, _)| *recipients == only(0))
            .flat_map(|(_, runs)| runs)
            .filter(|(.., verdict)| *verdict == Verdict::Excluded)
            .flat_map(|(first, count, _)| first..first + u64::from(count))
            .collect();
        assert_eq!(excluded, (from..back).collect::<Vec<_>>(), "{trigger:?}");
        assert!(stage.core.progress().events.triggered >= back, "the run goes on: {trigger:?}");
    }
}

#[test]
fn inhibited_triggers_count_as_events_for_the_first_event_of_a_change() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.asks(3, true, Some(7)).unwrap();
    stage.verdicts();
    stage.core.trigger(10, stage.now);
    (0..3).for_each(|_| stage.core.handle_timeout(stage.now));
    stage.poll();
    let mut to_third = stage.verdicts();
    to_third.retain(|(recipients, _)| *recipients == only(0));
    assert_eq!(to_third, [(only(0), vec![(7, 4, Verdict::Excluded)])]);
    assert_eq!(stage.core.progress().events.inhibited, 6);
}

#[test]
fn impossible_requests_are_refused() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.trigger(2);
    let id = SourceId::new(3);
    assert_eq!(stage.asks(4, true, None), Err(ChangeError::UnknownSource(SourceId::new(4))));
    assert_eq!(stage.asks(3, false, None), Err(ChangeError::NotExcluded(id)));
    let (from, next) = (EventId::new(2), EventId::new(3));
    assert_eq!(stage.asks(3, true, Some(2)), Err(ChangeError::PastEvent { from, next }));
    stage.asks(3, true, Some(100)).unwrap();
    assert_eq!(stage.asks(3, true, Some(120)), Err(ChangeError::Excluded(id)), "it is planned");
    let last = SourceId::new(5);
    assert_eq!(stage.asks(5, true, None), Err(ChangeError::LastSource(last)), "3 will be excluded");
}

/// The last word of an operator holds, also in a supervisor that goes on.
#[test]
fn a_change_replaces_those_that_were_planned_for_later() {
    let plan = RunPlan { journal: true, slots: 40, ..plan(TriggerKind::External) };
    let mut stage = Stage::running(plan.clone());
    stage.asks(3, true, Some(10)).unwrap();
    stage.trigger(2);
    stage.asks(3, false, None).unwrap();
    stage.trigger(2);
    for mut stage in [stage.followed_by(&plan, stage.journal.clone()).with_everybody(), stage] {
        stage.verdicts();
        (0..20).for_each(|_| stage.trigger(1));
        let told = stage.verdicts().into_iter().flat_map(|(_, runs)| runs);
        assert!(told.into_iter().all(|(.., verdict)| verdict != Verdict::Excluded));
        stage.core.invariants();
    }
}

#[test]
fn a_plan_in_which_nothing_is_owed_is_refused() {
    let known = plan(TriggerKind::External);
    let expendable = known.sources.iter().copied().collect();
    assert_eq!(RunPlan { expendable, ..known.clone() }.check(), Err(PlanError::NothingOwed));
    let excluded = [(SourceId::new(9), String::new())].into();
    let unknown = PlanError::UnknownSource(SourceId::new(9));
    assert_eq!(RunPlan { excluded, ..known }.check(), Err(unknown));
}

/// Events that waited for a lost source do so no longer, and a source that is excluded is not
/// awaited again.
#[test]
fn excluding_a_lost_source_ends_the_waiting_for_it() {
    let on_source_loss = SourceLoss::Wait;
    let mut stage = Stage::running(RunPlan { on_source_loss, ..plan(TriggerKind::External) });
    stage.core.handle_disconnect(source(3), "gone", stage.now);
    stage.trigger(1);
    assert_eq!(last_roster(&mut stage).awaited, [3]);
    stage.asks(3, true, None).unwrap();
    stage.trigger(1);
    let roster = last_roster(&mut stage);
    assert_eq!((roster.awaited, roster.released), (vec![], vec![3]));
    stage.asks(3, false, None).unwrap();
    stage.trigger(1);
    assert_eq!(last_roster(&mut stage).awaited, [3], "an included source is owed for again");
}

#[test]
fn an_excluded_source_that_returns_learns_that_past_events_are_not_its_own() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.asks(3, true, None).unwrap();
    stage.core.handle_disconnect(source(3), "gone", stage.now);
    stage.trigger(2);
    stage.verdicts();
    stage.register(source(3));
    stage.says(source(3), Message::Ready(Ready {}));
    let told: Vec<Verdict> =
        stage.verdicts().into_iter().flat_map(|(_, runs)| runs).map(|run| run.2).collect();
    assert!(told.iter().all(|verdict| *verdict == Verdict::Excluded), "{told:?}");
}

#[test]
fn events_do_not_wait_for_an_expendable_source_that_is_away() {
    let expendable = [SourceId::new(3)].into();
    let on_source_loss = SourceLoss::Wait;
    let mut stage = Stage::running(RunPlan { expendable, on_source_loss, ..plan(TriggerKind::External) });
    stage.trigger(1);
    assert_eq!(last_roster(&mut stage).expendable, [3]);
    let silent = ReadoutStatus { state: ReadoutState::Silent, expected: 1, connected: 1, holds_first: false };
    stage.says(source(3), Message::Readout(silent));
    stage.trigger(1);
    let roster = last_roster(&mut stage);
    assert_eq!((roster.quiet, roster.awaited), (vec![3], vec![]));
    stage.core.handle_disconnect(source(3), "gone", stage.now);
    stage.trigger(1);
    let roster = last_roster(&mut stage);
    assert_eq!((roster.up, roster.awaited), (vec![5], vec![]));
}

#[test]
fn a_run_begins_without_sources_that_owe_nothing() {
    let peers = [source(5), builder(1), builder(2)];
    let id = SourceId::new(3);
    let excluded = RunPlan { excluded: [(id, "broken".to_owned())].into(), ..plan(TriggerKind::External) };
    let mut stage = Stage::new(excluded);
    stage.is_joined_by(&peers, &[5]);
    assert_eq!(
        stage.core.progress().state,
        RunState::Running,
        "the run does not wait for an excluded source"
    );

    let expendable = RunPlan { expendable: [id].into(), ..plan(TriggerKind::External) };
    let patience = expendable.start_timeout;
    let mut stage = Stage::new(expendable);
    stage.is_joined_by(&peers, &[5]);
    assert_eq!(stage.core.progress().state, RunState::Configured, "an expendable one may come");
    stage.pass(patience + Duration::from_millis(50), &peers);
    assert_eq!(stage.core.progress().state, RunState::Running);
}

/// The ledger, the journal and the next supervisor know who was excluded, and from which event on.
#[test]
fn a_supervisor_that_goes_on_knows_who_owes_what() {
    let plan = RunPlan { journal: true, slots: 4, ..plan(TriggerKind::External) };
    let mut stage = Stage::running(plan.clone());
    stage.trigger(1);
    stage.asks(3, true, None).unwrap();
    stage.asks(3, false, Some(5)).unwrap();
    stage.trigger(2);
    stage.completes_without(3, &[MissingSource::new(SourceId::new(3), Cause::Excluded)]);
    let compacted = stage.core.snapshot(stage.now);
    for journal in [stage.journal.clone(), compacted] {
        let mut next = stage.followed_by(&plan, journal).with_everybody();
        let survey = next.core.survey(next.now);
        assert_eq!(
            (survey.sources[0].absent, survey.sources[0].exclusion.as_deref()),
            (1, Some("broken power supply"))
        );
        next.verdicts();
        next.core.trigger(3, next.now);
        (0..3).for_each(|_| next.core.handle_timeout(next.now));
        next.poll();
        let mut to_third = next.verdicts();
        to_third.retain(|(recipients, _)| *recipients == only(0));
        assert_eq!(to_third, [(only(0), vec![(4, 1, Verdict::Excluded)])], "it is included from event 5 on");
        next.core.invariants();
    }
}

#[test]
fn the_report_says_without_whom_events_are_complete() {
    let mut stage = Stage::running(RunPlan { events: Some(1), ..plan(TriggerKind::External) });
    stage.asks(3, true, None).unwrap();
    stage.trigger(1);
    stage.completes_without(1, &[MissingSource::new(SourceId::new(3), Cause::Excluded)]);
    stage.reports(&[(1, complete(1)), (2, complete(0))]);
    let report = stage.report.unwrap();
    assert_eq!(report.exit_code, 0, "{:?}", report.problems);
    assert_eq!(report.verdict, "1 of 1 assigned events complete (of these, 1 without source 3 (excluded))");
    assert_eq!(report.changes.iter().map(|change| change.from.number()).collect::<Vec<_>>(), [1]);
    assert_eq!(report.sources[0].absent_by_cause[&Cause::Excluded], 1);
}

/// A source that owes nothing can neither refuse a start nor delay events.
#[test]
fn sources_that_owe_nothing_hold_up_no_start() {
    let id = SourceId::new(3);
    let hold = RunPlan { hold: true, ..plan(TriggerKind::External) };
    let expendable = RunPlan { expendable: [id].into(), ..hold.clone() };
    let mut stage = Stage::new(expendable.clone());
    stage.is_joined_by(&EVERYBODY, &[3, 5]);
    stage.core.handle_disconnect(source(3), "gone", stage.now);
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll();
    assert_eq!(stage.core.progress().state, RunState::Running);
    stage.trigger(1);
    assert_eq!(last_roster(&mut stage).up, [5], "events do not wait for a source that left before the start");

    // It leaves while the run begins.
    let mut stage = Stage::new(expendable);
    stage.is_joined_by(&EVERYBODY, &[3, 5]);
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll_once();
    for peer in [source(5), builder(1), builder(2)] {
        stage.core.handle_message(peer, control(Message::Begun(Begun::default())), stage.now);
    }
    stage.says(source(3), Message::Leaving(Leaving { reason: "no power".to_owned() }));
    assert_eq!(stage.core.progress().state, RunState::Running);

    // An excluded one is connected, and never ready.
    let excluded = RunPlan { excluded: [(id, "no network".to_owned())].into(), ..hold };
    let mut stage = Stage::new(excluded);
    stage.is_joined_by(&EVERYBODY, &[5]);
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll();
    assert_eq!(stage.core.progress().state, RunState::Running);
    stage.core.invariants();
}

/// A frozen source may fill all slots before the event of a planned exclusion comes.
#[test]
fn an_exclusion_at_once_takes_the_place_of_one_that_was_planned() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.asks(3, true, Some(100)).unwrap();
    stage.asks(3, true, None).unwrap();
    stage.trigger(1);
    assert_eq!(last_roster(&mut stage).released, [3]);
}

#[test]
fn no_event_in_between_is_owed_nothing() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.asks(3, true, Some(100)).unwrap();
    stage.asks(3, false, Some(200)).unwrap();
    assert_eq!(stage.asks(5, true, Some(150)), Err(ChangeError::LastSource(SourceId::new(5))));
    stage.asks(5, true, Some(200)).unwrap();
}

/// Events that wait for a lost source would never end.
#[test]
fn an_exclusion_from_an_event_on_releases_the_events_that_wait_for_a_lost_source() {
    let on_source_loss = SourceLoss::Wait;
    let mut stage = Stage::running(RunPlan { on_source_loss, ..plan(TriggerKind::External) });
    stage.core.handle_disconnect(source(3), "gone", stage.now);
    stage.trigger(1);
    stage.asks(3, true, Some(4)).unwrap();
    stage.trigger(1);
    assert!(stage.rosters().iter().all(|roster| roster.released.is_empty()));
    stage.trigger(1);
    let roster = last_roster(&mut stage);
    assert_eq!((roster.awaited, roster.released), (vec![], vec![3]));
}
