//! Tests of a run in which sources, builders and supervisors disappear and come back.

use core::time::Duration;

use super::{
    ChangeError, Recipients, RunPlan, RunState, SourceLoss,
    seats::staying,
    tests::{EVERYBODY, Stage, both, builder, complete, events_of, hello, plan, source, to},
};
use crate::{
    id::BuilderId,
    set::SourceSet,
    trigger::TriggerKind,
    wire::control::{
        Accepted, Assignments, Hello, Holdings, Message, ReadoutState, ReadoutStatus, Ready, Reason, Verdict,
    },
};

/// For each builder (0 for none), the outstanding events that it has.
type HeldByBuilder = Vec<(u32, Vec<u64>)>;

impl Stage {
    /// Returns the [`Holdings`] sent so far with their recipients; clears all sent messages.
    fn holdings(&mut self) -> Vec<(Recipients, u64, HeldByBuilder)> {
        let held = |holdings: &Holdings| {
            let held = holdings.held.iter().map(|holding| {
                let mut event = 0;
                let sum = |step: &u64| {
                    event += step;
                    event
                };
                (holding.holder.saturating_sub(1), holding.events.iter().map(sum).collect())
            });
            held.collect()
        };
        let found = self.sent.iter().filter_map(|(to, message)| match message {
            Message::Holdings(holdings) => Some((to.clone(), holdings.decided, held(holdings))),
            _ => None,
        });
        let found = found.collect();
        self.sent.clear();
        found
    }

    /// Returns the assignments sent to a builder that name the expected sources.
    fn reassigned(&self, id: u16) -> Vec<Assignments> {
        let here = Recipients::Builder(BuilderId::new(id));
        let found = self.sent.iter().filter_map(|(to, message)| match message {
            Message::Assignments(batch) if batch.roster_version == 0 && *to == here => Some(batch.clone()),
            _ => None,
        });
        found.collect()
    }

    fn comes_back(&mut self, peer: crate::id::Peer, incarnation: u32) -> u32 {
        let again = Hello { incarnation, ..hello(peer) };
        let welcome = self.core.register(&again, self.now).unwrap();
        self.poll();
        welcome.incarnation
    }
}

/// All peers except builder 2.
const OTHERS: [crate::id::Peer; 3] = [source(3), source(5), builder(1)];

/// The events of a builder that is gone go to other builders in two steps
/// (docs/reference/protocol.md RUN-22).
#[test]
fn the_events_of_a_builder_that_is_gone_go_to_the_others_in_two_steps() {
    let mut stage = Stage::running(RunPlan { slots: 4, ..plan(TriggerKind::External) });
    stage.trigger(8);
    stage.completes(builder(1), &[1, 3]);
    stage.sent.clear();
    stage.core.handle_disconnect(builder(2), "connection reset", stage.now);
    stage.pass(Duration::from_millis(1900), &OTHERS);
    assert!(stage.holdings().is_empty(), "builder 2 may still write under its lease");
    stage.trigger(1);
    assert_eq!(stage.assigned(1), [(1, 9)], "builder 1 gets events meanwhile");
    stage.pass(Duration::from_millis(400), &OTHERS);
    let rosters: Vec<_> =
        stage.sent.iter().filter(|(_, message)| matches!(message, Message::Roster(_))).collect();
    assert_eq!(rosters.len(), 1);
    let again = stage.reassigned(1);
    assert_eq!(again.len(), 1, "builder 1 has one free slot");
    assert_eq!((events_of(&again[0]), again[0].epoch, again[0].answer), (vec![2], 100, 1));
    assert_eq!(again[0].expected, [3, 5]);
    assert_eq!(stage.holdings(), [(both(), 9, vec![(0, vec![2, 4, 6, 8]), (1, vec![5, 7, 9])])]);
    stage.says(builder(1), Message::Accepted(Accepted { answer: 1 }));
    assert_eq!(stage.holdings(), [(both(), 9, vec![(0, vec![4, 6, 8]), (1, vec![2, 5, 7, 9])])]);

    stage.trigger(1);
    assert_eq!(stage.verdicts(), [(both(), vec![(10, 1, Verdict::Inhibited)])]);
    stage.completes(builder(1), &[5, 2]);
    let next: Vec<_> = stage.reassigned(1).iter().flat_map(events_of).collect();
    assert_eq!(next, [4, 6], "unassigned events precede new triggers");
    assert_eq!(stage.core.progress().events.lost, 0);
}

#[test]
fn a_builder_that_comes_back_in_time_goes_on_with_its_events() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.trigger(4);
    stage.core.handle_disconnect(builder(2), "connection reset", stage.now);
    stage.pass(Duration::from_millis(500), &OTHERS);
    assert_eq!(stage.core.register(&hello(builder(2)), stage.now).unwrap_err().reason, Reason::DuplicateId);
    stage.sent.clear();
    assert_eq!(stage.comes_back(builder(2), 1), 1);
    let again = stage.reassigned(2);
    assert_eq!((again.len(), events_of(&again[0]), again[0].answer), (1, vec![2, 4], 0));
    stage.completes(builder(2), &[2, 4]);
    stage.trigger(2);
    assert_eq!(stage.assigned(2).len(), 4, "repeated events and new ones");
    stage.pass(Duration::from_secs(5), &EVERYBODY);
    assert_eq!((stage.core.progress().builders_up, stage.core.progress().events.complete), (2, 2));
}

#[test]
fn a_frozen_builder_gets_no_events_and_comes_back_as_another() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.trigger(2);
    stage.pass(Duration::from_millis(1300), &OTHERS);
    stage.sent.clear();
    stage.trigger(2);
    assert_eq!((stage.assigned(1), stage.assigned(2)), (vec![(1, 3)], vec![]));
    stage.completes(builder(2), &[2]);
    assert_eq!(stage.core.progress().events.complete, 1, "its completion counts");
    stage.trigger(2);
    assert_eq!(stage.assigned(2), [(1, 5), (1, 6)]);
    stage.pass(Duration::from_secs(3), &OTHERS);
    assert_eq!(stage.dropped, [builder(2)]);
    assert_eq!(stage.comes_back(builder(2), 1), 2, "its events were given to another builder");
    stage.sent.clear();
    stage.completes(builder(1), &[1]);
    assert_eq!((stage.reassigned(1).len(), stage.reassigned(2).len()), (1, 0), "no lane to builder 2 yet");
    stage.says(source(3), Message::Ready(Ready {}));
    assert!(stage.reassigned(2).is_empty());
    stage.says(source(5), Message::Ready(Ready {}));
    assert_eq!(stage.reassigned(2).iter().flat_map(events_of).collect::<Vec<_>>(), [6]);
}

#[test]
fn without_any_builder_the_events_wait_and_are_lost_at_last() {
    for silent in [false, true] {
        let mut stage = Stage::running(plan(TriggerKind::External));
        stage.trigger(3);
        if !silent {
            stage.core.handle_disconnect(builder(1), "connection reset", stage.now);
            stage.core.handle_disconnect(builder(2), "connection reset", stage.now);
        }
        stage.pass(Duration::from_secs(11), &[source(3), source(5)]);
        assert_eq!((stage.core.progress().state, stage.core.progress().outstanding), (RunState::Running, 3));
        stage.pass(Duration::from_secs(if silent { 60 } else { 2 }), &[source(3), source(5)]);
        if silent {
            // The network is back after a minute.
            assert_eq!((stage.comes_back(builder(1), 1), stage.core.progress().events.lost), (2, 0));
            stage.pass(Duration::from_secs(2), &OTHERS);
            assert_eq!(stage.reassigned(1).iter().flat_map(events_of).collect::<Vec<_>>(), [1, 2]);
            continue;
        }
        stage.reports(&[]);
        let report = stage.report.unwrap();
        assert_eq!((report.exit_code, report.events.lost), (1, 3));
        assert_eq!(
            report.failure.as_deref(),
            Some(
                "no builder is up any more; check the hosts and the network of the builders, then their logs"
            )
        );
        let said = report.problems.join("\n");
        assert!(said.contains("3 events lost: no builder was left to build them"), "{said}");
        let said = report.remarks.join("\n");
        assert!(
            said.contains(
                "its 2 events waited for another builder, and are lost if none was connected in time; look at its host"
            ),
            "{said}"
        );
    }
}

#[test]
fn a_builder_that_dies_while_the_run_ends_loses_nothing() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.trigger(2);
    stage.core.stop("test", stage.now);
    stage.core.handle_disconnect(builder(2), "killed", stage.now);
    stage.pass(Duration::from_millis(2300), &OTHERS);
    assert_eq!(stage.reassigned(1).iter().flat_map(events_of).collect::<Vec<_>>(), [2]);
    stage.completes(builder(1), &[1, 2]);
    stage.reports(&[(1, complete(2))]);
    let report = stage.report.unwrap();
    assert_eq!((report.events.complete, report.events.lost, report.builders[1].assigned), (2, 0, 1));
    assert_eq!((report.exit_code, &report.problems[..]), (0, &[][..]), "another builder built the event");
    assert!(
        report.remarks[0].contains("builder 2 left the run (killed), and other builders took its 1 event"),
        "{:?}",
        report.remarks
    );
}

#[test]
fn a_builder_that_dies_with_nothing_in_hand_as_the_run_ends_is_remarked() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.trigger(2);
    stage.completes(builder(1), &[1]);
    stage.completes(builder(2), &[2]);
    stage.core.handle_disconnect(builder(2), "killed", stage.now);
    stage.core.stop("test", stage.now);
    stage.pass(Duration::from_millis(100), &OTHERS);
    stage.reports(&[(1, complete(1))]);
    stage.pass(Duration::from_millis(2300), &OTHERS);
    let report = stage.report.unwrap();
    assert_eq!((report.events.complete, report.exit_code, &report.problems[..]), (2, 0, &[][..]));
    assert!(
        report.remarks[0].contains("builder 2 left the run (killed), and it had no events to build"),
        "{:?}",
        report.remarks
    );
}

#[test]
fn builders_join_and_leave_a_run_that_goes_on() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    let (third, second) = (BuilderId::new(9), BuilderId::new(2));
    assert_eq!(stage.core.register(&hello(builder(9)), stage.now).unwrap_err().reason, Reason::UnknownPeer);
    stage.core.add_builder(third, stage.now).unwrap();
    assert_eq!(stage.core.add_builder(third, stage.now), Err(ChangeError::KnownBuilder(third)));
    stage.register(builder(9));
    let roster = stage.rosters().pop().unwrap();
    assert_eq!(roster.builders.iter().map(|builder| builder.id).collect::<Vec<_>>(), [1, 2, 9]);
    stage.trigger(5);
    assert_eq!(stage.assigned(9), [], "a new builder waits for lanes");
    assert_eq!(staying(stage.core.roster.builders().iter()), [BuilderId::new(1), second, third]);
    stage.pass(Duration::from_millis(1300), &[source(3), source(5), builder(1), builder(2), builder(9)]);
    stage.trigger(2);
    assert_eq!(stage.assigned(9), [(2, 6), (2, 7)]);

    stage.core.remove_builder(second, stage.now).unwrap();
    assert_eq!(staying(stage.core.roster.builders().iter()), [BuilderId::new(1), third]);
    assert_eq!(stage.core.remove_builder(second, stage.now), Err(ChangeError::UnknownBuilder(second)));
    stage.sent.clear();
    stage.completes(builder(2), &[2, 4]);
    assert_eq!(stage.sent, [(Recipients::Builder(second), Message::Finish(crate::wire::control::Finish {}))]);
    stage.builder_reports(2, complete(2));
    assert_eq!(stage.core.progress().builders_up, 2);
    let held = stage.holdings();
    assert_eq!(held, [(both(), 7, vec![(1, vec![1, 3]), (9, vec![6, 7])])]);
    stage.core.remove_builder(third, stage.now).unwrap();
    let last = BuilderId::new(1);
    assert_eq!(stage.core.remove_builder(last, stage.now), Err(ChangeError::LastBuilder(last)));
    stage.completes(builder(1), &[1, 3]);
    stage.completes(builder(9), &[6, 7]);
    stage.core.stop("test", stage.now);
    stage.poll();
    stage.reports(&[(1, complete(2)), (9, complete(2))]);
    let report = stage.report.unwrap();
    assert_eq!((report.exit_code, report.events.written), (0, 6), "{:?}", report.problems);
}

/// Events wait for an absent source if the configuration says so (docs/reference/protocol.md
/// RUN-21).
#[test]
fn events_wait_for_a_source_where_that_is_wanted() {
    let on_source_loss = SourceLoss::Wait;
    let mut stage = Stage::running(RunPlan { on_source_loss, ..plan(TriggerKind::External) });
    stage.trigger(1);
    stage.core.handle_disconnect(source(3), "killed", stage.now);
    stage.poll();
    let roster = stage.rosters().pop().unwrap();
    assert_eq!((&roster.up[..], &roster.awaited[..]), (&[5][..], &[3][..]));
    stage.trigger(1);
    stage.sent.clear();
    assert_eq!(stage.comes_back(source(3), 0), 2);
    let first = || Recipients::Sources([0].into_iter().collect());
    assert_eq!(stage.holdings(), [(first(), 2, vec![(1, vec![1]), (2, vec![2])])]);
    stage.trigger(1);
    stage.sent.clear();
    stage.says(source(3), Message::Ready(Ready {}));
    assert!(
        matches!(&stage.sent[0].1, Message::Roster(roster) if roster.awaited.is_empty() && roster.up == [3, 5])
    );
    assert_eq!(stage.holdings(), [(first(), 3, vec![(1, vec![1, 3]), (2, vec![2])])]);
    stage.core.handle_disconnect(source(3), "killed", stage.now);
    stage.poll();
    stage.core.stop("test", stage.now);
    stage.poll();
    let roster = stage.rosters().pop().unwrap();
    assert_eq!((&roster.up[..], &roster.awaited[..]), (&[5][..], &[][..]), "no source is awaited now");
}

/// The source's absence delays the run but costs no event, so it is no problem of the run.
#[test]
fn no_event_is_assigned_without_a_source_that_is_awaited() {
    let on_source_loss = SourceLoss::Wait;
    let mut stage = Stage::running(RunPlan { on_source_loss, ..plan(TriggerKind::External) });
    stage.trigger(1);
    stage.core.handle_disconnect(source(3), "killed", stage.now);
    stage.poll();
    stage.trigger(2);
    stage.now += Duration::from_millis(300);
    stage.comes_back(source(3), 0);
    stage.says(source(3), Message::Ready(Ready {}));
    stage.core.stop("test", stage.now);
    stage.completes(builder(1), &[1, 3]);
    stage.completes(builder(2), &[2]);
    stage.reports(&[(1, complete(2)), (2, complete(1))]);
    let report = stage.report.unwrap();
    assert_eq!((report.exit_code, report.events.complete), (0, 3), "{:?}", report.problems);
    assert!(report.remarks.iter().any(|remark| remark.contains("was down")), "{:?}", report.remarks);
}

#[test]
fn a_source_hears_of_those_events_alone_that_expect_it() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.trigger(1);
    stage.core.handle_disconnect(source(3), "cut", stage.now);
    stage.trigger(1);
    stage.sent.clear();
    stage.comes_back(source(3), 1);
    assert_eq!(
        stage.holdings(),
        [(Recipients::Sources(SourceSet::first(1)), 2, vec![(1, vec![1])])],
        "event 2 does not expect source 3"
    );
    stage.says(source(3), Message::Ready(Ready {}));
    stage.trigger(1);
    assert_eq!(stage.verdicts().last().unwrap(), &(both(), vec![(3, 1, to(1))]));
}

/// A source whose readout is silent sends what it has, so it must know who has the event, also from
/// a supervisor that took over.
#[test]
fn a_source_without_readout_hears_of_the_events_whose_decisions_it_got() {
    let plan = RunPlan { journal: true, ..plan(TriggerKind::External) };
    let mut stage = Stage::running(plan.clone());
    let silent = ReadoutStatus { state: ReadoutState::Silent, expected: 1, connected: 1, holds_first: false };
    stage.says(source(3), Message::Readout(silent));
    stage.trigger(2);
    for mut stage in [stage.followed_by(&plan, stage.core.snapshot(stage.now)).with_everybody(), stage] {
        stage.core.handle_disconnect(builder(2), "killed", stage.now);
        stage.sent.clear();
        stage.pass(Duration::from_millis(2500), &OTHERS);
        let [(to, _, held)] = &stage.holdings()[..] else { panic!("one message for all sources") };
        let mut events: Vec<u64> = held.iter().flat_map(|(_, events)| events.clone()).collect();
        events.sort_unstable();
        assert_eq!((to, &events[..]), (&both(), &[1, 2][..]), "{held:?}");
    }
}

#[test]
fn a_sink_that_is_slow_at_the_end_costs_time_and_no_event() {
    let plan = plan(TriggerKind::External);
    let nearly = plan.deadline + plan.drain_grace - Duration::from_millis(100);
    let mut stage = Stage::running(plan);
    stage.trigger(4);
    stage.core.stop("test", stage.now);
    for (to, event) in [(1, 1), (2, 2), (1, 3), (2, 4)] {
        stage.pass(nearly, &EVERYBODY);
        stage.completes(builder(to), &[event]);
    }
    stage.reports(&[(1, complete(2)), (2, complete(2))]);
    let report = stage.report.unwrap();
    assert_eq!(
        (report.exit_code, report.events.complete, report.events.lost),
        (0, 4, 0),
        "{:?}",
        report.problems
    );
}

/// The last living builder cannot be removed, and when it has left by itself, the run ends
/// (docs/reference/protocol.md RUN-25).
#[test]
fn the_last_builder_that_lives_does_not_leave_and_if_it_has_left_the_run_ends() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.core.handle_disconnect(builder(2), "killed", stage.now);
    stage.pass(Duration::from_secs(10), &OTHERS);
    let last = BuilderId::new(1);
    assert_eq!(stage.core.remove_builder(last, stage.now), Err(ChangeError::LastBuilder(last)));

    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.trigger(2);
    stage.core.remove_builder(BuilderId::new(2), stage.now).unwrap();
    stage.core.handle_disconnect(builder(1), "killed", stage.now);
    stage.pass(Duration::from_secs(10), &[source(3), source(5), builder(2)]);
    stage.completes(builder(2), &[2]);
    stage.builder_reports(2, complete(1));
    stage.pass(Duration::from_secs(100), &[source(3), source(5)]);
    stage.reports(&[]);
    let report = stage.report.expect("a run without builders ends");
    assert_eq!((report.exit_code, report.events.lost), (1, 1), "{:?}", report.problems);
}

#[test]
fn a_builder_whose_connection_breaks_while_it_leaves_is_asked_once_more() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.trigger(2);
    stage.core.remove_builder(BuilderId::new(2), stage.now).unwrap();
    stage.completes(builder(2), &[2]);
    stage.core.handle_disconnect(builder(2), "connection reset", stage.now);
    stage.sent.clear();
    stage.comes_back(builder(2), 1);
    stage.pass(Duration::from_millis(100), &EVERYBODY);
    let finish = (Recipients::Builder(BuilderId::new(2)), Message::Finish(crate::wire::control::Finish {}));
    assert!(stage.sent.contains(&finish), "{:?}", stage.sent);
}

#[test]
fn before_the_run_nobody_is_busy() {
    let mut stage = Stage::new(plan(TriggerKind::External));
    stage.register(builder(1));
    stage.comes_back(builder(1), 1);
    stage.now += Duration::from_secs(3600);
    for peer in [builder(2), source(3), source(5)] {
        stage.register(peer);
    }
    for peer in [source(3), source(5)] {
        stage.says(peer, Message::Ready(Ready {}));
    }
    stage.trigger(2);
    stage.now += Duration::from_secs(10);
    stage.completes(builder(1), &[1]);
    stage.completes(builder(2), &[2]);
    stage.core.stop("test", stage.now);
    stage.poll();
    stage.reports(&[(1, complete(1)), (2, complete(1))]);
    let report = stage.report.unwrap();
    assert_eq!((report.busy_fraction, report.builders[0].busy_fraction), (0.0, 0.0));
}

/// A run that is stopped during recovery loses no event that another builder can build
/// (docs/reference/protocol.md RUN-23).
#[test]
fn a_run_that_is_stopped_while_peers_come_back_loses_nothing_that_others_can_build() {
    // The lease is longer than the time limit of a drain.
    let plan = RunPlan { journal: true, lease: Duration::from_secs(10), ..plan(TriggerKind::External) };
    let mut stage = Stage::running(plan.clone());
    stage.trigger(2);
    let mut next = stage.followed_by(&plan, stage.journal.clone());
    for peer in OTHERS {
        next.comes_back(peer, 1);
    }
    for peer in [source(3), source(5)] {
        next.says(peer, Message::Ready(Ready {}));
    }
    next.says(builder(1), Message::Accepted(Accepted { answer: 1 }));
    next.core.stop("test", next.now);
    next.core.stop("once more", next.now);
    assert_eq!(next.core.trigger(1, next.now), 0, "the stopped run takes no triggers");
    next.pass(Duration::from_secs(24), &OTHERS);
    assert_eq!(next.core.progress().events.lost, 0);
    next.completes(builder(1), &[1, 2]);
    next.reports(&[(1, complete(2))]);
    let report = next.report.unwrap();
    assert_eq!((report.events.complete, report.events.lost), (2, 0), "{:?}", report.problems);
}

#[test]
fn a_new_supervisor_waits_for_sources_no_longer_than_the_old_one() {
    let plan = RunPlan { journal: true, ..plan(TriggerKind::External) };
    let mut stage = Stage::running(plan.clone());
    stage.core.handle_disconnect(source(3), "killed", stage.now);
    stage.core.handle_disconnect(source(5), "killed", stage.now);
    stage.poll();
    let mut next = stage.followed_by(&plan, stage.journal.clone());
    next.comes_back(builder(1), 1);
    next.comes_back(builder(2), 1);
    next.pass(Duration::from_secs(200), &EVERYBODY[2..]);
    assert!(!matches!(next.core.progress().state, RunState::Running | RunState::Recovering));
}
