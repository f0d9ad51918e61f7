//! A leader whose system and runs are played by the test.

mod commands;
mod random;
mod runs;
mod starts;

use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::{
    id::{Epoch, RunNumber, SourceId},
    ledger::RunReport,
    supervisor::RunState,
};

const START: Instant = Instant::from_nanos(1_000_000_000);

/// A leader, with a system and runs that do all that is asked at once.
struct Stage {
    leader: Leader,
    now: Instant,
    /// Number of the last request.
    asked: u64,
    answers: BTreeMap<u64, Result<State, Refusal>>,
    /// Outputs that are not answers, in order.
    told: Vec<LeaderOutput>,
    /// Number of the run that was opened last.
    run: u32,
    builders: Vec<BuilderId>,
    /// Error of the system and of the next runs, if any.
    error: Option<SystemError>,
    /// Reason for which runs refuse changes, if any.
    refuses: Option<String>,
    /// True while outputs get no results.
    is_slow: bool,
}

fn builder(number: u16) -> BuilderId {
    BuilderId::new(number)
}

fn error() -> SystemError {
    SystemError::new("the journal", "is locked", "end the other one")
}

fn progress(state: RunState) -> Progress {
    Progress { state, ready: true, has_readouts: true, ..Progress::default() }
}

fn report(run: u32) -> RunReport {
    RunReport { run, verdict: "every event is complete".to_owned(), ..RunReport::default() }
}

impl Stage {
    fn new() -> Self {
        Self::with(Leader::new(false))
    }

    fn with(leader: Leader) -> Self {
        Self {
            leader,
            now: START,
            asked: 0,
            answers: BTreeMap::new(),
            told: Vec::new(),
            run: 4,
            builders: [1, 2].map(builder).to_vec(),
            error: None,
            refuses: None,
            is_slow: false,
        }
    }

    /// Returns a stage in the given state.
    fn in_state(state: State) -> Self {
        let mut stage = Self::new();
        if state != State::Unconfigured {
            stage.configure();
        }
        if !matches!(state, State::Unconfigured | State::Configured | State::Failed) {
            stage.start();
        }
        match state {
            State::Paused => drop(stage.command(Command::Pause)),
            State::Stopping => drop(stage.command(Command::Stop)),
            State::Failed => stage.hear(RunEvent::NotJoined(error())),
            _ => {}
        }
        assert_eq!(stage.state(), state);
        stage.told.clear();
        stage
    }

    fn state(&self) -> State {
        self.leader.status().state
    }

    fn configure(&mut self) {
        assert_eq!(self.command(Command::Configure), Some(Ok(State::Configured)));
    }

    /// Starts the run, and lets all peers acknowledge it.
    fn start(&mut self) {
        let start = self.ask(Request::Command(Command::Start));
        self.begun(Ok(()));
        assert_eq!(self.answers.remove(&start), Some(Ok(State::Running)));
    }

    fn ask(&mut self, request: Request) -> u64 {
        self.asked += 1;
        self.leader.handle_request(self.asked, request, self.now);
        self.drain();
        self.asked
    }

    /// Makes a request and returns its answer, if there is one already.
    fn answer(&mut self, request: Request) -> Option<Result<State, Refusal>> {
        let number = self.ask(request);
        self.answers.remove(&number)
    }

    fn command(&mut self, command: Command) -> Option<Result<State, Refusal>> {
        self.answer(Request::Command(command))
    }

    fn hear(&mut self, event: RunEvent) {
        self.leader.handle_event(event, self.now);
        self.drain();
    }

    fn goes(&mut self, state: RunState) {
        self.hear(RunEvent::Progress(progress(state)));
    }

    fn begun(&mut self, result: Result<(), BeginError>) {
        self.hear(RunEvent::Begun { result, is_hosting: true });
    }

    fn over(&mut self) {
        self.hear(RunEvent::Over(Arc::new(report(self.run))));
    }

    fn done(&mut self, done: Done) {
        self.leader.handle_done(done, self.now);
        self.drain();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.leader.handle_timeout(self.now);
        self.drain();
    }

    fn drain(&mut self) {
        self.leader.invariants();
        while let Some(output) = self.leader.poll() {
            if let LeaderOutput::Answer { number, outcome } = output {
                assert!(self.answers.insert(number, outcome).is_none(), "request {number} is answered once");
                continue;
            }
            self.told.push(output.clone());
            if let Some(done) = self.play(output).filter(|_| !self.is_slow) {
                self.leader.handle_done(done, self.now);
            }
        }
    }

    /// Carries out an output, and returns its result if it has one.
    fn play(&mut self, output: LeaderOutput) -> Option<Done> {
        let result = self.error.clone().map_or(Ok(()), Err);
        Some(match output {
            LeaderOutput::Configure | LeaderOutput::Admit(_) => Done::System(result),
            LeaderOutput::Open { builders, .. } => Done::Opened(result.map(|()| self.plan(builders))),
            LeaderOutput::Change(_) | LeaderOutput::Stop(_) => {
                Done::Changed(self.refuses.clone().map_or(Ok(()), Err))
            }
            LeaderOutput::Close(_) => Done::Closed,
            _ => return None,
        })
    }

    fn plan(&mut self, builders: Option<Vec<BuilderId>>) -> Box<RunPlan> {
        self.run += 1;
        let (run, epoch) = (RunNumber::new(self.run), Epoch::new(self.run.into()));
        let builders = builders.unwrap_or_else(|| self.builders.clone());
        Box::new(RunPlan::new(run, epoch, vec![SourceId::new(1)], builders))
    }

    /// Returns what was told since the last call.
    fn told(&mut self) -> Vec<LeaderOutput> {
        mem::take(&mut self.told)
    }

    fn last_error(&self) -> &str {
        self.leader.status().last_error.as_deref().unwrap_or_default()
    }
}
