//! Tests of runs that need a least number of sources of a group.

use core::time::Duration;

use crate::{
    id::SourceId,
    ledger::{Annotation, DeadTimeCause},
    supervisor::{
        ChangeError, Group, NotReady, OwingRequest, PlanError, RunPlan, RunState, TooFew,
        exclusions::Exclusions,
        tests::{EVERYBODY, Stage, both, builder, complete, plan, source, to},
    },
    trigger::TriggerKind,
    units::Frequency,
    wire::control::{Message, ReadoutState, ReadoutStatus, Ready},
};

fn group(at_least: u32) -> Group {
    let sources = [3, 5].map(SourceId::new).into();
    Group { name: "tracker".to_owned(), sources, at_least }
}

fn too_few(present: u32, at_least: u32) -> TooFew {
    TooFew { group: "tracker".to_owned(), present, at_least }
}

fn needing(at_least: u32, trigger: TriggerKind) -> RunPlan {
    RunPlan { groups: vec![group(at_least)], ..plan(trigger) }
}

impl Stage {
    fn state(&self) -> RunState {
        self.core.progress().state
    }

    fn loses(&mut self, id: u16) {
        self.core.handle_disconnect(source(id), "its process died", self.now);
        self.poll();
    }

    fn regains(&mut self, id: u16) {
        self.register(source(id));
        self.says(source(id), Message::Ready(Ready {}));
    }

    fn owes(&mut self, id: u16, excludes: bool) {
        let sources = vec![SourceId::new(id)];
        let request = OwingRequest { sources, excludes, from: None, why: "broken".to_owned() };
        Exclusions { core: &mut self.core }.change(&request, self.now).unwrap();
        self.poll();
    }

    fn has_readout(&mut self, id: u16, state: ReadoutState, connected: u32) {
        let status = ReadoutStatus { state, expected: 1, connected, holds_first: false };
        self.says(source(id), Message::Readout(status));
    }
}

/// Below the least number triggers are dead time with the group's name; the run goes on by itself.
#[test]
fn a_run_pauses_by_itself_and_goes_on_by_itself() {
    let mut stage = Stage::running(needing(2, TriggerKind::External));
    stage.verdicts();
    stage.loses(3);
    assert_eq!(stage.state(), RunState::Paused);
    stage.trigger(3);
    assert_eq!(stage.core.resume(stage.now), Err(ChangeError::TooFew(too_few(1, 2))));
    stage.verdicts();
    stage.regains(3);
    assert_eq!(stage.state(), RunState::Running);
    stage.trigger(1);
    assert!(stage.verdicts().contains(&(both(), vec![(4, 1, to(1))])));
    stage.core.stop("test", stage.now);
    stage.completes(builder(1), &[4]);
    stage.reports(&[(1, complete(1)), (2, complete(0))]);
    let causes = stage.report.unwrap().dead_time;
    assert_eq!(causes, [DeadTimeCause { cause: "at_least tracker: 1 of 2".to_owned(), inhibited: 3 }]);
}

/// The triggers of the run's own clock go on, and are dead time.
#[test]
fn the_clock_of_a_run_that_paused_by_itself_goes_on() {
    let rate = Frequency::from_hertz(1000.0).unwrap();
    let mut stage = Stage::running(needing(2, TriggerKind::Periodic { rate }));
    stage.loses(5);
    let alive = [source(3), builder(1), builder(2)];
    let before = stage.core.progress().events;
    stage.pass(Duration::from_secs(1), &alive);
    let after = stage.core.progress().events;
    assert_eq!(after.triggered - before.triggered, 1000);
    assert_eq!(after.inhibited - before.inhibited, 1000);
}

#[test]
fn free_slots_are_no_triggers_while_too_few_sources_take_part() {
    let mut stage = Stage::running(needing(2, TriggerKind::AsFastAsPossible));
    let before = stage.core.progress().events.triggered;
    stage.loses(5);
    stage.completes(builder(1), &[1, 3]);
    assert_eq!(stage.core.progress().events.triggered, before);
    stage.regains(5);
    assert_eq!(stage.core.progress().events.triggered, before + 2);
}

#[test]
fn a_run_that_an_operator_paused_too_waits_for_the_operator() {
    let mut stage = Stage::running(needing(2, TriggerKind::External));
    stage.loses(3);
    stage.core.pause(stage.now).unwrap();
    assert_eq!(stage.core.pause(stage.now), Err(ChangeError::Paused));
    stage.regains(3);
    assert_eq!(stage.state(), RunState::Paused);
    stage.core.resume(stage.now).unwrap();
    assert_eq!(stage.state(), RunState::Running);
}

#[test]
fn an_excluded_source_does_not_count() {
    let mut stage = Stage::running(needing(2, TriggerKind::External));
    stage.owes(3, true);
    assert_eq!(stage.state(), RunState::Paused);
    stage.trigger(1);
    assert_eq!(stage.core.progress().events.inhibited, 1);
    stage.owes(3, false);
    assert_eq!(stage.state(), RunState::Running);
}

/// A source whose readout is silent is connected, and could not prove itself in a pause.
#[test]
fn a_source_whose_readout_is_gone_does_not_count() {
    let mut stage = Stage::running(needing(2, TriggerKind::External));
    stage.has_readout(3, ReadoutState::Present, 1);
    stage.has_readout(3, ReadoutState::Silent, 1);
    assert_eq!(stage.state(), RunState::Running);
    stage.has_readout(3, ReadoutState::Gone, 0);
    assert_eq!(stage.state(), RunState::Paused);
    stage.has_readout(3, ReadoutState::Present, 1);
    assert_eq!(stage.state(), RunState::Running);
}

#[test]
fn a_readout_that_has_not_connected_yet_counts_for_the_time_of_a_start() {
    let start_timeout = Duration::from_secs(5);
    let mut stage = Stage::running(RunPlan { start_timeout, ..needing(2, TriggerKind::External) });
    stage.has_readout(3, ReadoutState::Present, 0);
    let present = |stage: &Stage| stage.core.survey(stage.now).groups[0].present;
    stage.pass(Duration::from_millis(4500), &EVERYBODY);
    assert_eq!((stage.state(), present(&stage)), (RunState::Running, 2));
    stage.pass(Duration::from_secs(1), &EVERYBODY);
    assert_eq!((stage.state(), present(&stage)), (RunState::Paused, 1));
    stage.has_readout(3, ReadoutState::Present, 1);
    stage.pass(Duration::from_secs(1), &EVERYBODY);
    assert_eq!(stage.state(), RunState::Running);
}

#[test]
fn a_run_does_not_start_with_too_few_sources() {
    let expendable = [SourceId::new(3)].into();
    let mut stage = Stage::new(RunPlan { hold: true, expendable, ..needing(2, TriggerKind::External) });
    for peer in [source(5), builder(1), builder(2)] {
        stage.register(peer);
    }
    stage.says(source(5), Message::Ready(Ready {}));
    let refusal = stage.core.begin(&Annotation::default(), stage.now).unwrap_err();
    assert_eq!(refusal, NotReady::TooFew(too_few(1, 2)));
    assert!(!stage.core.progress().ready);
    stage.regains(3);
    assert!(stage.core.progress().ready);
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll();
    assert_eq!(stage.state(), RunState::Running);
}

#[test]
fn a_run_that_begins_by_itself_names_the_group_when_its_time_is_over() {
    let expendable = [SourceId::new(3)].into();
    let mut stage = Stage::new(RunPlan { expendable, ..needing(2, TriggerKind::External) });
    let present = [source(5), builder(1), builder(2)];
    for peer in present {
        stage.register(peer);
    }
    stage.says(source(5), Message::Ready(Ready {}));
    stage.pass(Duration::from_secs(31), &present);
    let failure = stage.report.unwrap().failure.unwrap();
    assert!(failure.starts_with("1 of at least 2 sources of group tracker take part"), "{failure}");
}

#[test]
fn a_supervisor_that_continues_the_run_counts_anew() {
    let plan = RunPlan { journal: true, ..needing(2, TriggerKind::External) };
    let mut stage = Stage::running(plan.clone());
    stage.loses(3);
    stage.trigger(1);
    let journal = stage.journal.clone();
    let mut next = stage.followed_by(&plan, journal);
    for peer in [source(5), builder(1), builder(2)] {
        let hello = crate::wire::control::Hello { incarnation: 1, ..super::super::tests::hello(peer) };
        next.core.register(&hello, next.now).unwrap();
        next.poll();
    }
    next.says(source(5), Message::Ready(Ready {}));
    assert_eq!(next.state(), RunState::Paused);
    next.trigger(2);
    assert_eq!(next.core.progress().events.inhibited, 3);
    next.regains(3);
    assert_eq!(next.state(), RunState::Running);
    let causes = next.core.survey(next.now).dead_time;
    assert_eq!(causes, [DeadTimeCause { cause: "at_least tracker: 1 of 2".to_owned(), inhibited: 3 }]);
}

#[test]
fn impossible_groups_are_refused() {
    let check = |group: Group| match needing_only(group).check() {
        Err(PlanError::Group { reason, .. }) => reason.to_owned(),
        other => panic!("{other:?}"),
    };
    assert!(check(Group { at_least: 3, ..group(0) }).starts_with("it has fewer sources"));
    assert!(
        check(Group { sources: [SourceId::new(4)].into(), ..group(0) }).starts_with("one of its sources")
    );
    assert!(check(Group { name: String::new(), ..group(0) }).starts_with("its name"));
    let twice = RunPlan { groups: vec![group(1), group(2)], ..plan(TriggerKind::External) };
    assert!(matches!(twice.check(), Err(PlanError::Group { reason, .. }) if reason.contains("same name")));
}

fn needing_only(group: Group) -> RunPlan {
    RunPlan { groups: vec![group], ..plan(TriggerKind::External) }
}

#[test]
fn operators_see_how_many_sources_of_a_group_take_part() {
    let mut stage = Stage::running(needing(1, TriggerKind::External));
    let seen = |stage: &Stage| {
        let group = stage.core.survey(stage.now).groups.remove(0);
        (group.name, group.sources, group.at_least, group.present)
    };
    assert_eq!(seen(&stage), ("tracker".to_owned(), vec![3, 5], 1, 2));
    stage.loses(3);
    assert_eq!(seen(&stage), ("tracker".to_owned(), vec![3, 5], 1, 1));
    assert_eq!(stage.state(), RunState::Running);
}
