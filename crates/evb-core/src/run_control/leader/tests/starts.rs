//! Starts: peers that are missing, acknowledge late or never, and commands meanwhile.

use super::*;
use crate::supervisor::{NotReady, RunOver};

const PATIENCE: Duration = Duration::from_secs(5);

fn missing() -> Result<(), BeginError> {
    Err(NotReady::Missing(vec![(Peer::Builder(builder(2)), String::new())]).into())
}

fn begin() -> LeaderOutput {
    LeaderOutput::Begin(Annotation::default())
}

/// Returns a stage in which a start waits for missing peers, and the start's number.
fn waiting() -> (Stage, u64) {
    let mut stage = Stage::in_state(State::Configured);
    let start = stage.ask(Request::Command(Command::Start));
    assert_eq!(stage.told(), [begin()]);
    stage.begun(missing());
    assert_eq!(stage.leader.next_timeout(), Some(stage.now + PATIENCE));
    (stage, start)
}

fn refused(stage: &mut Stage, number: u64) -> Refusal {
    stage.answers.remove(&number).expect("an answer").expect_err("a refusal")
}

#[test]
fn a_start_waits_for_missing_peers_until_its_time_is_over() {
    let (mut stage, start) = waiting();
    stage.pass(PATIENCE - Duration::from_millis(1));
    assert_eq!(stage.told(), []);
    stage.pass(Duration::from_millis(1));
    assert_eq!(stage.told(), [begin()], "a last try");
    assert_eq!(stage.leader.next_timeout(), None);
    stage.begun(missing());
    let refusal = refused(&mut stage, start);
    assert_eq!(
        (refusal.refused_by.as_str(), refusal.reason.as_str()),
        ("builder 2", "it has not registered with the supervisor")
    );
    assert!(refusal.remedy.contains("evbd ctl remove-builder 2"), "{refusal}");
    assert_eq!((stage.state(), stage.leader.next_timeout()), (State::Configured, None));
    assert!(stage.last_error().contains("builder 2"));
    stage.start();
    assert_eq!(stage.last_error(), "");
}

#[test]
fn a_start_succeeds_when_the_missing_peers_come() {
    let (mut stage, start) = waiting();
    stage.goes(RunState::Configured);
    assert_eq!(stage.told(), [begin()]);
    stage.begun(Ok(()));
    assert_eq!((stage.answers.remove(&start), stage.state()), (Some(Ok(State::Running)), State::Running));
    assert_eq!(stage.leader.next_timeout(), None);
}

/// The supervisor has its own time limit for peers that do not acknowledge a start, so the leader
/// waits for as long as it takes.
#[test]
fn a_peer_that_acknowledges_late_is_awaited() {
    let mut stage = Stage::in_state(State::Configured);
    let start = stage.ask(Request::Command(Command::Start));
    stage.pass(10 * PATIENCE);
    stage.goes(RunState::Configured);
    assert_eq!((stage.told(), stage.answers.len()), (vec![begin()], 0));
    let refusal = stage.command(Command::Start).unwrap().unwrap_err();
    assert_eq!(refusal.refused_by, "an earlier start");
    // The run is seen to run before its beginning is confirmed.
    stage.goes(RunState::Running);
    assert_eq!((stage.state(), stage.answers.len()), (State::Configured, 0));
    stage.begun(Ok(()));
    assert_eq!(stage.answers.remove(&start), Some(Ok(State::Running)));
}

#[test]
fn a_peer_that_never_acknowledges_fails_the_start_at_once() {
    let mut stage = Stage::in_state(State::Configured);
    let start = stage.ask(Request::Command(Command::Start));
    stage.begun(Err(NotReady::Silent(vec![Peer::Builder(builder(2))]).into()));
    let refusal = refused(&mut stage, start);
    assert_eq!(refusal.reason, "did not prepare for the run in time");
    assert_eq!((stage.state(), stage.told()), (State::Configured, vec![begin()]), "it is not tried again");
    stage.start();
}

#[test]
fn a_start_whose_process_is_still_starting_roles_says_so() {
    let (mut stage, start) = waiting();
    stage.pass(PATIENCE);
    stage.hear(RunEvent::Begun { result: missing(), is_hosting: false });
    assert!(refused(&mut stage, start).remedy.contains("still starting"));
    // The last role of this process lets the next start try again.
    let again = stage.ask(Request::Command(Command::Start));
    stage.begun(missing());
    stage.told();
    let peer = Peer::Builder(builder(2));
    stage.hear(RunEvent::Joined { peer, is_hosting: true });
    assert_eq!(stage.told(), [begin()]);
    stage.begun(Ok(()));
    assert_eq!(stage.answers.remove(&again), Some(Ok(State::Running)));
}

#[test]
fn builders_that_change_during_a_start_end_it() {
    for request in [Request::Add(builder(3)), Request::Remove(builder(2))] {
        // Before and after the peers are told to begin.
        for is_beginning in [false, true] {
            let (mut stage, start) = waiting();
            if is_beginning {
                stage.goes(RunState::Configured);
            }
            stage.told();
            assert_eq!(stage.answer(request.clone()), Some(Ok(State::Configured)));
            let refusal = refused(&mut stage, start);
            assert_eq!(
                (refusal.refused_by.as_str(), refusal.reason.as_str()),
                ("run control", "an operator changed the builders of the run")
            );
            assert!(matches!(stage.told()[..], [.., LeaderOutput::Close(_), LeaderOutput::Open { .. }]));
            // What becomes of the beginning of the old run does not matter.
            stage.begun(Ok(()));
            assert_eq!((stage.state(), stage.leader.next_timeout()), (State::Configured, None));
            stage.start();
        }
    }
}

#[test]
fn a_rate_can_be_set_during_a_start() {
    let (mut stage, start) = waiting();
    let rate = Frequency::from_hertz(5.0).unwrap();
    assert_eq!(stage.answer(Request::Rate(rate)), Some(Ok(State::Configured)));
    stage.goes(RunState::Configured);
    stage.begun(Ok(()));
    assert_eq!(stage.answers.remove(&start), Some(Ok(State::Running)));
}

#[test]
fn a_stop_during_a_start_is_refused_and_a_reset_ends_it() {
    let (mut stage, start) = waiting();
    stage.goes(RunState::Configured);
    for command in [Command::Stop, Command::Pause, Command::Resume] {
        let refusal = stage.command(command).unwrap().unwrap_err();
        assert_eq!(refusal.reason, "no run is under way");
    }
    assert!(stage.answers.is_empty());
    assert_eq!(stage.command(Command::Reset), Some(Ok(State::Unconfigured)));
    assert_eq!(refused(&mut stage, start).reason, "an operator reset the system");
    stage.begun(Ok(()));
    assert_eq!(stage.state(), State::Unconfigured);
}

#[test]
fn a_failure_during_a_start_ends_it() {
    let (mut stage, start) = waiting();
    stage.hear(RunEvent::NotJoined(error()));
    assert_eq!(refused(&mut stage, start).refused_by, "the system");
    assert_eq!((stage.state(), stage.leader.next_timeout()), (State::Failed, None));
    let (mut stage, start) = waiting();
    stage.goes(RunState::Configured);
    stage.hear(RunEvent::Broken("no memory".to_owned()));
    assert!(refused(&mut stage, start).reason.contains("no memory"));
    assert_eq!(stage.state(), State::Failed);
}

#[test]
fn a_run_that_ends_during_its_start_fails() {
    let (mut stage, start) = waiting();
    stage.goes(RunState::Configured);
    stage.over();
    assert_eq!(refused(&mut stage, start).refused_by, "the system");
    assert_eq!(stage.state(), State::Failed);
    let mut stage = Stage::in_state(State::Configured);
    let start = stage.ask(Request::Command(Command::Start));
    stage.begun(Err(RunOver.into()));
    assert_eq!(refused(&mut stage, start).reason, RunOver.to_string());
}

#[test]
fn an_annotation_belongs_to_one_run_and_must_fit() {
    let mut stage = Stage::in_state(State::Configured);
    let annotation = Annotation { kind: "cosmic".to_owned(), comment: "night".to_owned() };
    let comment = "x".repeat(Annotation::MAX_COMMENT + 1);
    let refusal = stage.answer(Request::Start(Annotation { comment, ..annotation.clone() })).unwrap();
    assert_eq!(refusal.unwrap_err().remedy, "shorten what is too long, and start again");
    stage.ask(Request::Start(annotation.clone()));
    assert_eq!(stage.told(), [LeaderOutput::Begin(annotation.clone())]);
    stage.begun(Ok(()));
    assert_eq!(stage.leader.status().annotation, annotation);
    stage.over();
    assert_eq!(stage.leader.status().annotation, Annotation::default());
}

#[test]
fn the_first_run_begins_by_itself_when_its_readouts_are_there() {
    let mut stage = Stage::with(Leader::new(true));
    stage.configure();
    stage.told();
    let without = Progress { has_readouts: false, ..progress(RunState::Configured) };
    stage.hear(RunEvent::Progress(without));
    stage.pass(1000 * PATIENCE);
    assert_eq!(stage.told(), []);
    stage.goes(RunState::Configured);
    assert_eq!(stage.told(), [begin()]);
    stage.begun(missing());
    stage.goes(RunState::Configured);
    assert_eq!(stage.told(), [begin()]);
    // An operator who is impatient gets the answer.
    let start = stage.ask(Request::Command(Command::Start));
    stage.begun(Ok(()));
    assert_eq!(stage.answers.remove(&start), Some(Ok(State::Running)));
    stage.over();
    stage.told();
    stage.goes(RunState::Configured);
    assert_eq!(stage.told(), [], "only the first run begins by itself");
}
