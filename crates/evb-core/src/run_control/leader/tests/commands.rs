//! Commands and changes in each state.

use super::*;

fn open(builders: Option<&[u16]>) -> LeaderOutput {
    let builders = builders.map(|builders| builders.iter().map(|id| builder(*id)).collect());
    LeaderOutput::Open { builders, rate: None, excluded: BTreeMap::new() }
}

#[test]
fn every_command_is_refused_where_the_table_says_so() {
    for state in State::ALL {
        for command in Command::ALL {
            let mut stage = Stage::in_state(state);
            let answer = stage.command(command);
            match (state.command(command), command) {
                (Err(by_table), _) => {
                    assert_eq!((answer, stage.state()), (Some(Err(by_table)), state));
                    assert_eq!(stage.told(), [], "{command} in {state}");
                }
                (Ok(_), Command::Start) => assert_eq!((answer, stage.state()), (None, state)),
                (Ok(next), _) => assert_eq!((answer, stage.state()), (Some(Ok(next)), next)),
            }
        }
    }
}

#[test]
fn a_run_that_cannot_be_changed_refuses_each_change() {
    let rate = Frequency::from_hertz(5.0).unwrap();
    for state in [State::Unconfigured, State::Stopping, State::Failed] {
        for request in [Request::Rate(rate), Request::Add(builder(3)), Request::Remove(builder(2))] {
            let mut stage = Stage::in_state(state);
            let refusal = stage.answer(request).unwrap().unwrap_err();
            assert_eq!(refusal.refused_by, format!("state {state}"));
            assert_eq!(stage.told(), []);
        }
    }
}

#[test]
fn a_builder_that_can_be_neither_added_nor_removed_is_refused() {
    let mut stage = Stage::in_state(State::Running);
    let mut reason = |request| stage.answer(request).unwrap().unwrap_err().reason;
    assert_eq!(reason(Request::Add(builder(2))), "builder 2 takes part in the run already");
    assert_eq!(reason(Request::Remove(builder(3))), "builder 3 does not take part in the run");
    assert_eq!(stage.answer(Request::Remove(builder(2))), Some(Ok(State::Running)));
    let refusal = stage.answer(Request::Remove(builder(1))).unwrap().unwrap_err();
    assert_eq!(refusal.reason, "builder 1 is the last builder of the run");
    stage.error = Some(error());
    let refusal = stage.answer(Request::Add(builder(2))).unwrap().unwrap_err();
    assert_eq!((refusal.request.as_str(), refusal.refused_by.as_str()), ("add-builder", "the journal"));
    stage.error = None;
    stage.refuses = Some("builder 2 is leaving the run".to_owned());
    let refusal = stage.answer(Request::Add(builder(2))).unwrap().unwrap_err();
    assert_eq!((refusal.refused_by.as_str(), refusal.reason.contains("leaving")), ("the supervisor", true));
    stage.refuses = None;
    assert_eq!(stage.answer(Request::Add(builder(2))), Some(Ok(State::Running)));
}

#[test]
fn changes_of_a_run_that_goes_on_are_kept_for_the_next_one() {
    let mut stage = Stage::in_state(State::Running);
    let rate = Frequency::from_hertz(5.0).unwrap();
    assert_eq!(stage.answer(Request::Rate(rate)), Some(Ok(State::Running)));
    assert_eq!(stage.answer(Request::Add(builder(3))), Some(Ok(State::Running)));
    let added = LeaderOutput::Change(RunChange::AddBuilder(builder(3)));
    let rated = LeaderOutput::Change(RunChange::SetRate(rate));
    let admitted = LeaderOutput::Admit(builder(3));
    assert_eq!(stage.told(), [rated, admitted, added, LeaderOutput::Bring(builder(3))]);
    stage.over();
    let builders = Some([1, 2, 3].map(builder).to_vec());
    assert_eq!(stage.told(), [LeaderOutput::Open { builders, rate: Some(rate), excluded: BTreeMap::new() }]);
    stage.configure();
    assert_eq!(stage.told().last(), Some(&open(None)), "configure discards the changes");
}

#[test]
fn a_change_that_was_refused_is_not_kept() {
    let mut stage = Stage::in_state(State::Paused);
    stage.refuses = Some("the trigger of this run has no rate".to_owned());
    let refusal = stage.answer(Request::Rate(Frequency::from_hertz(5.0).unwrap())).unwrap().unwrap_err();
    assert_eq!((refusal.request.as_str(), refusal.refused_by.as_str()), ("rate", "the supervisor"));
    assert!(stage.answer(Request::Remove(builder(2))).unwrap().is_err());
    let refusal = stage.command(Command::Resume).unwrap().unwrap_err();
    assert_eq!((refusal.refused_by.as_str(), stage.state()), ("the supervisor", State::Paused));
    assert_eq!(
        refusal.remedy, "ask again when the next run is open, which `evbd ctl status` shows",
        "the usual one"
    );
    stage.refuses = Some(crate::supervisor::ChangeError::NotPaused.to_string());
    let refusal = stage.command(Command::Resume).unwrap().unwrap_err();
    let text = "resume refused by the supervisor: the run is not paused; nothing needs to be done";
    assert_eq!(refusal.to_string(), text, "one remedy");
    stage.over();
    assert_eq!(stage.told().last(), Some(&open(None)));
}

#[test]
fn builders_that_change_before_a_run_open_it_anew() {
    let mut stage = Stage::in_state(State::Configured);
    assert_eq!(stage.answer(Request::Remove(builder(1))), Some(Ok(State::Configured)));
    let close = LeaderOutput::Close("an operator changed the builders of the run".to_owned());
    assert_eq!(stage.told(), [close, open(Some(&[2]))]);
    stage.refuses = Some("-".to_owned());
    stage.is_slow = true;
    let add = stage.ask(Request::Add(builder(7)));
    stage.done(Done::System(Ok(())));
    stage.done(Done::Closed);
    stage.done(Done::Opened(Err(error())));
    let refusal = stage.answers.remove(&add).unwrap().unwrap_err();
    assert_eq!((refusal.request.as_str(), stage.state()), ("add-builder", State::Failed));
}

#[test]
fn a_configuration_that_is_refused_changes_nothing() {
    let mut stage = Stage::in_state(State::Configured);
    stage.error = Some(error());
    let refusal = stage.command(Command::Configure).unwrap().unwrap_err();
    assert_eq!((refusal.refused_by.as_str(), stage.state()), ("the journal", State::Configured));
    assert_eq!(stage.told(), [LeaderOutput::Configure]);
    stage.start();
}

#[test]
fn a_run_that_cannot_be_opened_fails_and_a_reset_mends_it() {
    let mut stage = Stage::in_state(State::Configured);
    stage.is_slow = true;
    let configure = stage.ask(Request::Command(Command::Configure));
    stage.done(Done::System(Ok(())));
    stage.done(Done::Closed);
    stage.done(Done::Opened(Err(error())));
    assert_eq!(stage.answers.remove(&configure).unwrap().unwrap_err().refused_by, "the journal");
    assert_eq!(stage.state(), State::Failed);
    assert!(stage.last_error().contains("is locked"));
    stage.is_slow = false;
    assert_eq!(stage.command(Command::Reset), Some(Ok(State::Unconfigured)));
    assert_eq!(stage.last_error(), "");
    stage.configure();
}

/// While a result is outstanding, requests and events wait.
#[test]
fn one_request_at_a_time() {
    let mut stage = Stage::in_state(State::Running);
    stage.is_slow = true;
    let [pause, resume] =
        [Command::Pause, Command::Resume].map(|command| stage.ask(Request::Command(command)));
    stage.goes(RunState::Stopping);
    assert_eq!(stage.told(), [LeaderOutput::Change(RunChange::Pause)]);
    stage.done(Done::Closed);
    assert_eq!(stage.answers.len(), 0, "it waits for another result");
    stage.done(Done::Changed(Ok(())));
    assert_eq!((stage.answers[&pause].clone(), stage.state()), (Ok(State::Paused), State::Paused));
    assert_eq!(stage.told(), [LeaderOutput::Change(RunChange::Resume)]);
    stage.done(Done::Changed(Ok(())));
    assert_eq!(stage.answers[&resume], Ok(State::Running));
    assert_eq!(stage.state(), State::Stopping, "the end of the run is noticed after both");
}

#[test]
fn an_end_is_awaited_in_each_state() {
    for state in State::ALL {
        let mut stage = Stage::in_state(state);
        let outcome = stage.answer(Request::Close("the shift is over".to_owned())).unwrap();
        let told = stage.told();
        match state {
            State::Running | State::Paused => {
                assert_eq!(told, [LeaderOutput::Stop("the shift is over".to_owned())]);
            }
            State::Stopping => assert_eq!(told, []),
            _ => assert_eq!(told.last(), Some(&LeaderOutput::Ended)),
        }
        if matches!(state, State::Running | State::Paused | State::Stopping) {
            assert_eq!(outcome, Ok(State::Stopping));
            stage.over();
            assert_eq!(stage.told(), [LeaderOutput::Ended], "no run is opened");
        } else {
            assert_eq!(outcome, Ok(State::Unconfigured));
        }
        stage.drain();
        assert_eq!(stage.told(), [], "it ends once");
    }
}

#[test]
fn an_excluded_source_stays_excluded_in_later_runs_until_it_is_included() {
    let mut stage = Stage::in_state(State::Running);
    let request = |excludes, why: &str| OwingRequest {
        sources: vec![SourceId::new(3)],
        excludes,
        from: None,
        why: why.to_owned(),
    };
    let refusal = stage.answer(Request::Owe(request(true, " "))).unwrap().unwrap_err();
    assert!(refusal.remedy.contains("--why"), "{refusal}");
    let asked = request(true, "no power");
    assert_eq!(stage.answer(Request::Owe(asked.clone())), Some(Ok(State::Running)));
    assert_eq!(stage.told(), [LeaderOutput::Change(RunChange::Owe(asked))]);
    stage.over();
    let excluded = [(SourceId::new(3), "no power".to_owned())].into();
    assert_eq!(stage.told(), [LeaderOutput::Open { builders: None, rate: None, excluded }]);
    assert_eq!(stage.answer(Request::Owe(request(false, ""))), Some(Ok(State::Configured)));
    stage.told();
    stage.start();
    stage.goes(RunState::Running);
    stage.over();
    assert_eq!(stage.told().last(), Some(&open(None)));
}
