//! Runs that an operator holds back, pauses and resumes.

use core::time::Duration;

use crate::{
    id::SourceId,
    ledger::{Annotation, DeadTimeCause},
    supervisor::{
        ChangeError, Presence, Recipients, RunPlan, RunState,
        tests::{EVERYBODY, Stage, both, builder, complete, plan, source, to},
    },
    trigger::TriggerKind,
    units::Frequency,
    wire::control::{Message, Ready, Verdict},
};

#[test]
fn a_run_that_is_held_back_begins_when_it_is_told_and_everybody_is_ready() {
    let mut stage = Stage::new(RunPlan { hold: true, ..plan(TriggerKind::External) });
    stage.register(source(3));
    assert_eq!(
        stage.core.begin(&Annotation::default(), stage.now).unwrap_err().to_string(),
        "these have not registered with the supervisor: source 5, builders 1, 2; start them on their hosts"
    );
    // A held run has no time limit for its peers.
    stage.pass(Duration::from_secs(100), &[]);
    for peer in [source(5), builder(1), builder(2)] {
        stage.register(peer);
    }
    stage.says(source(3), Message::Ready(Ready {}));
    assert_eq!(
        stage.core.begin(&Annotation::default(), stage.now).unwrap_err().to_string(),
        "these are not connected to all builders yet: source 5; they try again by themselves, so wait some seconds, and if it lasts, check the network from them to the builders"
    );
    let survey = stage.core.survey(stage.now);
    let presence: Vec<_> = survey.sources.iter().map(|source| source.presence).collect();
    assert_eq!(presence, [Presence::Up, Presence::Connecting]);
    assert!(!stage.core.progress().ready);
    stage.says(source(5), Message::Ready(Ready {}));
    assert_eq!((stage.core.progress().state, stage.core.progress().ready), (RunState::Configured, true));
    assert_eq!(stage.core.trigger(1, stage.now), 0, "the run has not begun");
    stage.core.begin(&Annotation::default(), stage.now).unwrap();
    stage.poll();
    assert_eq!(stage.core.progress().state, RunState::Running);
    stage.trigger(1);
    assert_eq!(
        stage.core.begin(&Annotation::default(), stage.now).unwrap_err().to_string(),
        "the run has begun already; nothing needs to be done"
    );
    assert_eq!(stage.core.survey(stage.now).builders[0].outstanding, 1);
}

#[test]
fn a_paused_run_takes_no_triggers_and_says_so() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    assert_eq!(stage.core.resume(stage.now), Err(ChangeError::NotPaused));
    stage.core.pause(stage.now).unwrap();
    assert_eq!(stage.core.pause(stage.now), Err(ChangeError::Paused));
    assert_eq!(stage.core.progress().state, RunState::Paused);
    stage.trigger(3);
    assert_eq!(stage.verdicts(), [(both(), vec![(1, 3, Verdict::Inhibited)])]);
    stage.core.resume(stage.now).unwrap();
    stage.trigger(1);
    assert_eq!(stage.verdicts(), [(both(), vec![(4, 1, to(1))])]);
    stage.core.stop("test", stage.now);
    assert_eq!(stage.core.pause(stage.now), Err(ChangeError::NotRunning));
    stage.completes(builder(1), &[4]);
    stage.reports(&[(1, complete(1)), (2, complete(0))]);
    let causes = stage.report.unwrap().dead_time;
    assert_eq!(causes, [DeadTimeCause { cause: "paused".to_owned(), inhibited: 3 }]);
}

/// Returns what heartbeats tell the sources since the last call, and forgets them.
fn told(stage: &mut Stage) -> Vec<(Recipients, bool)> {
    stage.pass(Duration::from_millis(1), &[]);
    let told = stage.sent.iter().filter_map(|(to, message)| match (to, message) {
        (Recipients::Source(_), Message::Heartbeat(beat)) => Some((to.clone(), beat.is_paused)),
        _ => None,
    });
    let told = told.collect();
    stage.sent.clear();
    told
}

#[test]
fn sources_are_told_at_once_of_a_pause_and_its_end() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    told(&mut stage);
    let all = |paused| [3, 5].map(|id| (Recipients::Source(SourceId::new(id)), paused)).to_vec();
    stage.core.pause(stage.now).unwrap();
    assert_eq!(told(&mut stage), all(true));
    stage.pass(Duration::from_millis(300), &[]);
    let later = told(&mut stage);
    assert!(!later.is_empty() && later.iter().all(|(_, paused)| *paused), "{later:?}");
    stage.core.resume(stage.now).unwrap();
    assert_eq!(told(&mut stage), all(false));
}

#[test]
fn a_paused_clock_stands_still_and_runs_at_the_rate_it_is_given() {
    let hertz = |rate| Frequency::from_hertz(rate).unwrap();
    let peers = EVERYBODY;
    let mut stage =
        Stage::running(RunPlan { slots: 10_000, ..plan(TriggerKind::Periodic { rate: hertz(1000.0) }) });
    stage.pass(Duration::from_secs(1), &peers);
    assert_eq!(stage.core.progress().events.triggered, 1000);
    stage.core.pause(stage.now).unwrap();
    stage.pass(Duration::from_secs(1), &peers);
    stage.core.resume(stage.now).unwrap();
    stage.core.set_rate(hertz(100.0), stage.now).unwrap();
    stage.pass(Duration::from_secs(1), &peers);
    assert_eq!(stage.core.progress().events.triggered, 1100);
    let mut external = Stage::running(plan(TriggerKind::External));
    assert_eq!(external.core.set_rate(hertz(1.0), external.now), Err(ChangeError::NoRate));
}
