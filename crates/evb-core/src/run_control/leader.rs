//! [`Leader`]: the state machine that leads run after run. It takes requests of operators and
//! events of the run, and changes state only by the table of [`run_control`](super).

mod outputs;
mod refusals;
mod changes;
mod runs;
#[cfg(test)]
mod tests;

use core::{mem, time::Duration};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use refusals::{NEXT_RUN, may_pass, not_ready, refusal, too_long};

use super::{Command, Refusal, State, SystemError};
use crate::{
    id::{BuilderId, Peer, SourceId},
    ledger::Annotation,
    supervisor::{BeginError, OwingRequest, Presence, Progress, RunChange, RunPlan, Survey},
    time::Instant,
    units::Frequency,
};

pub use outputs::{Done, LeaderOutput, LeaderStatus, Request, RunEvent};

/// Time for which a start waits for sources and builders that are about to register again after a
/// run.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// State machine that leads run after run.
///
/// Inputs: [`handle_request`](Self::handle_request), [`handle_event`](Self::handle_event),
/// [`handle_timeout`](Self::handle_timeout). After each input, call [`poll`](Self::poll) until it
/// returns `None`. Some outputs ask for a result, which [`handle_done`](Self::handle_done) takes;
/// until then, further inputs wait.
#[derive(Debug)]
pub struct Leader {
    /// True if the first run after each `configure` begins by itself.
    autostart: bool,
    status: LeaderStatus,
    run: Option<OpenRun>,
    /// A start that waits for missing peers, or for the answer of all peers.
    start: Option<PendingStart>,
    /// True from the beginning of the run until all peers have answered.
    is_beginning: bool,
    /// True if the start that waits has no time left.
    is_last_try: bool,
    changes: Changes,
    /// True if the leader ends with the run.
    is_closing: bool,
    has_ended: bool,
    /// The output whose result the leader waits for.
    step: Option<Step>,
    inputs: VecDeque<Input>,
    outputs: VecDeque<LeaderOutput>,
}

/// The run that is open to peers.
#[derive(Debug)]
struct OpenRun {
    plan: RunPlan,
    progress: Progress,
    /// Sources and builders that this process hosts.
    hosted: BTreeSet<Peer>,
}

/// A start that waits.
#[derive(Debug)]
struct PendingStart {
    /// The request to answer, and the time until which it waits; `None` if the run starts by
    /// itself.
    asked: Option<(u64, Instant)>,
}

/// Changes requested on top of the configuration, for all runs until the next `configure`.
#[derive(Clone, Debug, Default)]
struct Changes {
    rate: Option<Frequency>,
    builders: Option<Vec<BuilderId>>,
    /// Excluded sources, with the operator's reasons.
    excluded: BTreeMap<SourceId, String>,
}

#[derive(Debug)]
enum Input {
    Request(u64, Request),
    Event(RunEvent),
}

/// An output whose result the leader waits for, and what the result is for.
#[derive(Debug)]
enum Step {
    Configuring(u64),
    Admitting(u64, BuilderId),
    Changing(u64, Effect),
    Closing(Goal),
    Opening(Goal),
}

/// The effect of a change of the run, when the change is made.
#[derive(Debug)]
enum Effect {
    Command(Command, State),
    Rate(Frequency),
    Learnt,
    Owing(OwingRequest),
    Builders { request: &'static str, builders: Vec<BuilderId>, added: Option<BuilderId> },
    End,
}

/// The purpose for which a run is closed or opened.
#[derive(Debug)]
enum Goal {
    /// A request needs another run.
    Configure(u64),
    Builders(u64, &'static str),
    /// The next run follows one that is over, in this state.
    Follow(State),
    /// No run follows.
    Reset(u64),
    Fail(State),
    End(u64),
}

impl Leader {
    /// Creates a leader in state [`State::Unconfigured`]. With `autostart`, the first run after
    /// each `configure` begins as soon as all peers are ready.
    pub fn new(autostart: bool) -> Self {
        Self {
            autostart,
            status: LeaderStatus::default(),
            run: None,
            start: None,
            is_beginning: false,
            is_last_try: false,
            changes: Changes::default(),
            is_closing: false,
            has_ended: false,
            step: None,
            inputs: VecDeque::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Returns what operators see.
    pub const fn status(&self) -> &LeaderStatus {
        &self.status
    }

    /// Takes a request. [`LeaderOutput::Answer`] with the same number follows.
    pub fn handle_request(&mut self, number: u64, request: Request, now: Instant) {
        self.inputs.push_back(Input::Request(number, request));
        self.work(now);
    }

    /// Notes an event of the run that is open.
    pub fn handle_event(&mut self, event: RunEvent, now: Instant) {
        self.inputs.push_back(Input::Event(event));
        self.work(now);
    }

    /// Notes the result of the output that asked for one.
    pub fn handle_done(&mut self, done: Done, now: Instant) {
        match (self.step.take(), done) {
            (Some(Step::Configuring(number)), Done::System(result)) => match result {
                Ok(()) => self.close_run("an operator configured the system again", Goal::Configure(number)),
                Err(error) => self.answer_command(number, Err(refusal("configure", error))),
            },
            (Some(Step::Admitting(number, id)), Done::System(result)) => match result {
                Ok(()) => self.change_builders(number, id, "add-builder"),
                Err(error) => self.answer(number, Err(refusal("add-builder", error))),
            },
            (Some(Step::Changing(number, effect)), Done::Changed(result)) => {
                self.finish_change(number, effect, result);
            }
            (Some(Step::Closing(goal)), Done::Closed) => self.handle_closed(goal),
            (Some(Step::Opening(goal)), Done::Opened(result)) => self.handle_opened(goal, result),
            (step, _) => self.step = step,
        }
        self.work(now);
    }

    /// Notes why sources and builders left before the run, or cannot take part.
    pub fn handle_survey(&mut self, survey: &Survey) {
        if self.status.state != State::Configured {
            return;
        }
        let sources = survey.sources.iter().map(|seat| (seat.named(), seat.presence, &seat.parting));
        let builders = survey.builders.iter().map(|seat| (seat.named(), seat.presence, &seat.parting));
        let left = sources
            .chain(builders)
            .find(|(.., presence, parting)| *presence == Presence::Absent && !parting.is_empty());
        if let Some((named, _, parting)) = left {
            self.status.last_error = Some(format!(
                "{named} has left: {parting}; start it again once the cause is gone, which the end of its log names"
            ));
        }
    }

    /// Handles the passage of time: a start that waited in vain fails.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_some_and(|at| at <= now) {
            self.try_start(true);
        }
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let is_idle = self.step.is_none() && self.run.is_some() && !self.is_beginning;
        self.start.as_ref().filter(|_| is_idle)?.asked.map(|(_, until)| until)
    }

    /// Returns the next action.
    pub fn poll(&mut self) -> Option<LeaderOutput> {
        if let Some(output) = self.outputs.pop_front() {
            return Some(output);
        }
        let is_over = self.is_closing && self.run.is_none() && self.step.is_none();
        (is_over && !mem::replace(&mut self.has_ended, true)).then_some(LeaderOutput::Ended)
    }

    /// Checks the invariants, for tests.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        let state = self.status.state;
        let has_run = self.run.is_some() || self.step.is_some();
        assert!(has_run || matches!(state, State::Unconfigured | State::Failed) || self.is_closing);
        assert!(self.start.is_none() || (state == State::Configured && self.run.is_some()));
        assert!(!self.is_beginning || self.start.is_some(), "a run begins because of a start");
        assert!(self.step.is_some() || self.inputs.is_empty(), "an input waits only for a result");
    }

    /// Handles the inputs that wait, unless the leader waits for a result.
    fn work(&mut self, now: Instant) {
        while self.step.is_none()
            && let Some(input) = self.inputs.pop_front()
        {
            match input {
                Input::Request(number, request) => self.take(number, request, now),
                Input::Event(event) => self.hear(event),
            }
        }
    }

    /// Passes a request to the function that carries it out.
    fn take(&mut self, number: u64, request: Request, now: Instant) {
        match request {
            Request::Start(annotation) => self.take_start(number, annotation, now),
            Request::Command(Command::Start) => self.take_start(number, Annotation::default(), now),
            Request::Command(command) => self.command(number, command),
            Request::Rate(rate) => self.set_rate(number, rate),
            Request::Add(id) => self.change_builders_if_possible(number, id, "add-builder"),
            Request::Remove(id) => self.change_builders_if_possible(number, id, "remove-builder"),
            Request::Learn(source) => self.learn(number, source),
            Request::Owe(request) => self.change_owing(number, request),
            Request::Close(cause) => self.close(number, cause),
        }
    }

    /// Carries out a command other than a start, if the state allows it. The answer follows when
    /// the step is done.
    fn command(&mut self, number: u64, command: Command) {
        let next = match self.status.state.command(command) {
            Ok(next) => next,
            Err(refusal) => return self.answer_command(number, Err(refusal)),
        };
        let change = match command {
            Command::Configure => {
                return self.ask(Step::Configuring(number), LeaderOutput::Configure);
            }
            Command::Reset => return self.close_run("an operator reset the system", Goal::Reset(number)),
            Command::Pause => LeaderOutput::Change(RunChange::Pause),
            Command::Resume => LeaderOutput::Change(RunChange::Resume),
            // A start never comes here.
            Command::Stop | Command::Start => LeaderOutput::Stop("an operator stopped the run".to_owned()),
        };
        self.ask(Step::Changing(number, Effect::Command(command, next)), change);
    }

    /// Starts the run. The answer follows when the run has begun, or when it cannot begin.
    fn take_start(&mut self, number: u64, annotation: Annotation, now: Instant) {
        if !annotation.fits() {
            return self.answer(number, Err(too_long(&annotation)));
        }
        if let Err(refusal) = self.status.state.command(Command::Start) {
            return self.answer_command(number, Err(refusal));
        }
        if self.start.as_ref().is_some_and(|start| start.asked.is_some()) {
            let error = SystemError::new(
                "an earlier start",
                "it still waits for sources and builders",
                "wait some seconds, or see in `evbd ctl status` which of them are missing",
            );
            return self.answer(number, Err(refusal("start", error)));
        }
        self.status.annotation = annotation;
        self.start = Some(PendingStart { asked: Some((number, now + START_PATIENCE)) });
        self.try_start(false);
    }

    /// Begins the run if all peers are ready; else, with `now_or_never`, the start fails.
    fn try_start(&mut self, now_or_never: bool) {
        let (Some(run), Some(start)) = (&self.run, &self.start) else { return };
        // A run that starts by itself waits for its readouts.
        let waits = start.asked.is_none() && !run.progress.has_readouts;
        if self.is_beginning || waits {
            return;
        }
        self.is_last_try = now_or_never;
        self.is_beginning = true;
        self.outputs.push_back(LeaderOutput::Begin(self.status.annotation.clone()));
    }

    /// Handles the result of the run's beginning. A start that peers are missing for waits for them
    /// until its time is over.
    fn handle_begun(&mut self, result: Result<(), BeginError>, is_hosting: bool) {
        if !mem::take(&mut self.is_beginning) {
            return;
        }
        let outcome = match result {
            Ok(()) => {
                self.status.last_error = None;
                self.enter(State::Running);
                Ok(State::Running)
            }
            Err(BeginError::NotReady(reason)) if !self.is_last_try && may_pass(&reason) => return,
            Err(BeginError::NotReady(reason)) => {
                let named = |peer: Peer| {
                    self.run.as_ref().map_or_else(|| peer.to_string(), |run| run.plan.named(peer))
                };
                let mut error = not_ready(&reason, named);
                if !is_hosting {
                    "sources and builders of this process are still starting: try again in some seconds"
                        .clone_into(&mut error.remedy);
                }
                self.status.last_error = Some(error.to_string());
                Err(refusal("start", error))
            }
            Err(BeginError::Over(over)) => {
                let error = SystemError::new("the supervisor", over.to_string(), NEXT_RUN);
                Err(refusal("start", error))
            }
        };
        self.answer_start(outcome);
    }

    /// Ends the start that waits, with this answer.
    fn answer_start(&mut self, outcome: Result<State, Refusal>) {
        if let Some(PendingStart { asked: Some((number, _)) }) = self.start.take() {
            self.answer(number, outcome);
        }
    }

    /// Asks for something whose result the leader waits for.
    fn ask(&mut self, step: Step, output: LeaderOutput) {
        self.step = Some(step);
        self.outputs.push_back(output);
    }

    fn finish_command(&mut self, number: u64, next: State) {
        self.enter(next);
        self.answer(number, Ok(next));
    }

    /// Answers a command, and logs a refusal.
    fn answer_command(&mut self, number: u64, outcome: Result<State, Refusal>) {
        if let Err(refusal) = &outcome {
            tracing::info!(%refusal, "run control: {refusal}");
        }
        self.answer(number, outcome);
    }

    fn answer(&mut self, number: u64, outcome: Result<State, Refusal>) {
        self.outputs.push_back(LeaderOutput::Answer { number, outcome });
    }

    /// Enters a state, and logs the change if there is one.
    fn enter(&mut self, state: State) {
        let before = mem::replace(&mut self.status.state, state);
        if before != state {
            let run = self.run.as_ref().map(|run| run.progress.run.number());
            let named = run.filter(|run| *run > 0).map(|run| format!("run {run}"));
            let of = named.as_deref().unwrap_or("run control");
            let so = meaning(state);
            tracing::info!(from = %before, to = %state, run, "the state of {of} changes from {before} to {state}: {so}");
        }
    }
}

/// Returns what a state means for the run, for people.
const fn meaning(state: State) -> &'static str {
    match state {
        State::Unconfigured => "no run is open, and `evbd ctl configure` opens one",
        State::Configured => {
            "the next run is open, and waits for `evbd ctl start` (with autostart = true, the first run after `evbd ctl configure` starts by itself)"
        }
        State::Running => "the run takes triggers, and nothing needs to be done",
        State::Paused => {
            "the run takes no triggers until `evbd ctl resume`, or, if too few sources of a group take part, until enough of them do"
        }
        State::Stopping => "the last events of the run are built and written, then it ends by itself",
        State::Failed => "`evbd ctl status` says why, and what to do",
    }
}
