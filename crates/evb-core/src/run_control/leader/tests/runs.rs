//! One run after another, and what happens to a run.

use super::*;
use crate::supervisor::{NotReady, SupervisorCore};

#[test]
fn run_after_run() {
    let mut stage = Stage::new();
    stage.configure();
    for run in 5..15 {
        assert_eq!((stage.run, stage.leader.status().runs), (run, u64::from(run) - 5));
        stage.start();
        stage.goes(RunState::Running);
        assert_eq!(stage.command(Command::Pause), Some(Ok(State::Paused)));
        assert_eq!(stage.command(Command::Resume), Some(Ok(State::Running)));
        // Half of the runs end by themselves.
        if run % 2 == 0 {
            assert_eq!(stage.command(Command::Stop), Some(Ok(State::Stopping)));
        } else {
            stage.goes(RunState::Stopping);
        }
        assert_eq!(stage.state(), State::Stopping);
        stage.over();
        assert_eq!((stage.state(), stage.last_error()), (State::Configured, ""));
    }
    let opened = stage.told().iter().filter(|output| matches!(output, LeaderOutput::Open { .. })).count();
    assert_eq!(opened, 11, "a run is open after the last one");
}

#[test]
fn a_run_that_ends_before_its_stop_is_noticed_is_over() {
    let mut stage = Stage::in_state(State::Running);
    stage.over();
    assert_eq!((stage.state(), stage.run), (State::Configured, 6));
}

#[test]
fn problems_of_a_run_are_the_last_error_and_failures_end_the_series() {
    let mut stage = Stage::in_state(State::Stopping);
    stage.hear(RunEvent::Over(Arc::new(RunReport { exit_code: 1, ..report(5) })));
    assert_eq!(stage.last_error(), "run 5: every event is complete");
    assert_eq!(stage.state(), State::Configured);
    stage.start();
    stage.told();
    let failure = Some("no source registered".to_owned());
    stage.hear(RunEvent::Over(Arc::new(RunReport { failure, ..report(6) })));
    assert_eq!((stage.state(), stage.last_error()), (State::Failed, "run 6: no source registered"));
    assert_eq!(stage.told(), [], "no run is opened");
    // A run that ends before it was started has failed.
    let mut stage = Stage::in_state(State::Configured);
    stage.over();
    assert_eq!(stage.state(), State::Failed);
}

#[test]
fn a_next_run_that_cannot_be_opened_fails() {
    let mut stage = Stage::in_state(State::Stopping);
    stage.error = Some(error());
    stage.over();
    assert_eq!(stage.state(), State::Failed);
    assert!(stage.last_error().starts_with("the next run cannot be opened: the journal"));
}

#[test]
fn a_recovered_run_goes_on_as_it_was() {
    for (found, state) in [(RunState::Running, State::Running), (RunState::Paused, State::Paused)] {
        let mut stage = Stage::in_state(State::Configured);
        let start = stage.ask(Request::Command(Command::Start));
        stage.begun(Err(NotReady::Begun.into()));
        assert!(stage.answers.is_empty(), "it may pass");
        stage.goes(RunState::Recovering);
        assert_eq!(stage.answers.remove(&start), Some(Ok(State::Running)));
        // It goes on without a role that this process cannot start.
        stage.hear(RunEvent::NotJoined(error()));
        assert_eq!(stage.state(), State::Running);
        stage.goes(found);
        assert_eq!(stage.state(), state);
        assert!(stage.last_error().contains("is locked"));
    }
    // A pause of the recovered run counts, although its state was not known before.
    let mut stage = Stage::in_state(State::Configured);
    stage.goes(RunState::Recovering);
    assert_eq!(stage.command(Command::Pause), Some(Ok(State::Paused)));
    stage.goes(RunState::Paused);
    assert_eq!(stage.state(), State::Paused);
}

/// A source has slipped, or too few sources of a group take part.
#[test]
fn a_run_that_pauses_by_itself_is_paused() {
    let mut stage = Stage::in_state(State::Running);
    stage.goes(RunState::Paused);
    assert_eq!(stage.state(), State::Paused);
    assert_eq!(stage.command(Command::Pause), Some(Ok(State::Paused)), "an operator may pause it too");
    stage.goes(RunState::Running);
    assert_eq!(stage.state(), State::Running);
    stage.goes(RunState::Paused);
    assert_eq!(stage.command(Command::Resume), Some(Ok(State::Running)));
}

#[test]
fn a_builder_of_this_process_that_left_is_brought_back_if_it_was_added_again() {
    let mut stage = Stage::in_state(State::Running);
    let peer = Peer::Builder(builder(2));
    stage.hear(RunEvent::Joined { peer, is_hosting: true });
    stage.goes(RunState::Running);
    let bring = LeaderOutput::Bring(builder(2));
    stage.answer(Request::Remove(builder(2))).unwrap().unwrap();
    stage.answer(Request::Add(builder(2))).unwrap().unwrap();
    assert!(!stage.told().contains(&bring), "it is still leaving");
    stage.hear(RunEvent::RoleLeft(peer));
    assert_eq!(stage.told(), std::slice::from_ref(&bring));
    stage.hear(RunEvent::Joined { peer, is_hosting: true });
    stage.answer(Request::Remove(builder(2))).unwrap().unwrap();
    stage.hear(RunEvent::RoleLeft(peer));
    assert!(!stage.told().contains(&bring), "it was removed");
    stage.answer(Request::Add(builder(2))).unwrap().unwrap();
    assert_eq!(stage.told().last(), Some(&bring));
    stage.hear(RunEvent::Joined { peer, is_hosting: true });
    stage.goes(RunState::Stopping);
    stage.hear(RunEvent::RoleLeft(peer));
    assert_eq!(stage.told(), [], "the run is ending");
}

#[test]
fn a_role_that_failed_is_named_and_the_others_go_on() {
    let mut stage = Stage::in_state(State::Running);
    stage.hear(RunEvent::RoleEnded(Peer::Builder(builder(2)), "its disk is gone".to_owned()));
    assert_eq!(stage.state(), State::Running);
    assert!(stage.last_error().starts_with("builder 2 failed: its disk is gone; run "));
    stage.hear(RunEvent::Broken("no memory".to_owned()));
    assert_eq!(stage.state(), State::Failed);
    assert!(stage.last_error().contains("no memory"));
}

#[test]
fn the_reason_of_an_absent_peer_is_the_last_error_before_a_run() {
    let mut stage = Stage::in_state(State::Running);
    let core = SupervisorCore::new(*stage.plan(None), 1, stage.now).unwrap();
    let mut survey = core.survey(stage.now);
    survey.builders[1].parting = "its disk is full".to_owned();
    stage.leader.handle_survey(&survey);
    assert_eq!(stage.last_error(), "");
    stage.over();
    stage.leader.handle_survey(&survey);
    assert_eq!(
        stage.last_error(),
        "builder 2 has left: its disk is full; start it again once the cause is gone, which the end of its log names"
    );
}
