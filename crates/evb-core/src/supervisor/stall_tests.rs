//! Tests of a journal that cannot be written for a while. Peers are told nothing that is not in the
//! journal; so nothing new is decided in that time, and no time limit ends for peers that could not
//! be told.

use core::time::Duration;

use crate::{
    supervisor::{
        Recipients, RunPlan,
        tests::{EVERYBODY, Stage, builder, plan},
    },
    trigger::TriggerKind,
    wire::control::Message,
};

fn stage() -> Stage {
    let mut stage = Stage::running(RunPlan { journal: true, slots: 4, ..plan(TriggerKind::External) });
    stage.sent.clear();
    stage.journal.clear();
    stage
}

#[test]
fn while_nothing_is_written_down_nothing_is_decided_and_heartbeats_go_on() {
    let mut stage = stage();
    stage.core.stall_journal(stage.now);
    for _ in 0..100 {
        stage.trigger(5);
        stage.pass(Duration::from_millis(100), &EVERYBODY);
    }
    let beats = stage.sent.iter().filter(|(_, message)| matches!(message, Message::Heartbeat(_))).count();
    assert_eq!(beats, stage.sent.len());
    let to_one = |(to, _): &&(Recipients, Message)| *to == stage.sent[0].0;
    assert!(stage.sent.iter().filter(to_one).count() > 20, "{beats}");
    assert_eq!(stage.journal, [], "no entry waits for the disk");
    let causes = stage.core.books.dead_time().causes(&[]);
    assert_eq!(
        (causes[0].cause.as_str(), causes[0].inhibited),
        ("the supervisor waits for the disk of its journal", 500)
    );
    stage.core.journal_goes_on(stage.now);
    stage.trigger(1);
    let assigned = stage.assigned(1).len() + stage.assigned(2).len();
    assert_eq!((assigned, stage.journal.len()), (1, 1));
}

#[test]
fn no_time_runs_out_for_those_who_could_not_be_told() {
    let mut stage = stage();
    stage.trigger(1);
    stage.core.stop("enough", stage.now);
    stage.poll();
    stage.core.stall_journal(stage.now);
    stage.pass(Duration::from_secs(600), &EVERYBODY);
    assert_eq!(stage.core.progress().events.lost, 0, "time limits are suspended");
    stage.core.journal_goes_on(stage.now);
    stage.pass(Duration::from_millis(200), &EVERYBODY);
    let whose = if stage.assigned(1).is_empty() { builder(2) } else { builder(1) };
    stage.completes(whose, &[1]);
    assert_eq!(stage.core.progress().events.complete, 1);
}
