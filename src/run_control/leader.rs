//! The leader's task: it takes requests and events of a run, and changes state only by the table of
//! [`evb_core::run_control`].

// tidy: long because the state of the leader has one owner, and its table has many commands.

mod refusals;
mod changes;
mod published;

use std::{
    collections::VecDeque,
    fmt::Display,
    future::{Future, pending},
    net::TcpListener,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use evb_core::{
    id::{BuilderId, Peer},
    ledger::{Annotation, EventCounts, RunReport},
    run_control::{Command, Occurrence, Refusal, State},
    supervisor::{Progress, RunState},
    units::Frequency,
};
use evb_net::clock;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};

use changes::Changes;
use refusals::{SEE_STATUS, may_pass, not_ready, refusal, too_long};

use super::{
    LastRun, Sample, Shown, Status, System, SystemError, Totals,
    history::History,
    open_run::{OpenRun, RunEvent},
    status::Speedometer,
};
use crate::supervisor::{BeginError, listen};

/// Time for which a start waits for sources and builders that are about to register again after a
/// run.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// Number of earlier runs that the status lists besides the last one.
const EARLIER_RUNS: usize = 20;

/// Interval at which rates are computed.
const GLANCE: Duration = Duration::from_secs(1);

type Answer<T> = oneshot::Sender<T>;

/// A request that a handle sends to the leader.
pub(super) enum Ask {
    Command(Command, Answer<Result<State, Refusal>>),
    Start(Annotation, Answer<Result<State, Refusal>>),
    Rate(Frequency, Answer<Result<(), Refusal>>),
    Add(BuilderId, Answer<Result<(), Refusal>>),
    Remove(BuilderId, Answer<Result<(), Refusal>>),
    Status(Answer<Status>),
    History(u64, Answer<Vec<Sample>>),
    Close(String, Answer<()>),
}

pub(super) struct Leader<S> {
    system: S,
    autostart: bool,
    state: State,
    asks: mpsc::Receiver<Ask>,
    show: watch::Sender<Shown>,
    /// The listener and its address, kept over all runs.
    listener: Option<(String, TcpListener)>,
    run: Option<OpenRun>,
    /// True from the recovery of a run until it is known if the run was paused.
    recovers: bool,
    /// A start that waits for missing peers.
    start: Option<PendingStart>,
    /// The beginning of the run, until all peers have answered.
    beginning: Option<Beginning>,
    /// True if the start that waits has no time left.
    is_last_try: bool,
    changes: Changes,
    speed: Speedometer,
    history: History,
    /// The operators' annotation of the run that is under way, or of the next one.
    annotation: Annotation,
    last_run: Option<Arc<RunReport>>,
    /// Totals of all runs that are over.
    totals: Totals,
    /// Every run that is over, the latest first.
    over: VecDeque<LastRun>,
    last_error: Option<String>,
    runs: u64,
    closing: bool,
}

/// The future result of a run's beginning.
type Beginning = Pin<Box<dyn Future<Output = Result<(), BeginError>> + Send>>;

/// The time until which a start waits, and the channel for its answer; `None` if the run starts by
/// itself.
type PendingStart = (Instant, Option<Answer<Result<State, Refusal>>>);

impl<S: System> Leader<S> {
    pub(super) fn new(
        system: S,
        autostart: bool,
        asks: mpsc::Receiver<Ask>,
        show: watch::Sender<Shown>,
    ) -> Self {
        Self {
            system,
            autostart,
            state: State::Unconfigured,
            asks,
            show,
            listener: None,
            run: None,
            recovers: false,
            start: None,
            beginning: None,
            is_last_try: false,
            changes: Changes::default(),
            speed: Speedometer::default(),
            history: History::default(),
            annotation: Annotation::default(),
            last_run: None,
            totals: Totals::default(),
            over: VecDeque::new(),
            last_error: None,
            runs: 0,
            closing: false,
        }
    }

    /// Leads runs until a `close` and the end of the run under way, or until the last handle is
    /// dropped.
    pub(super) async fn lead(mut self) {
        let mut glances = tokio::time::interval(GLANCE);
        glances.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                ask = self.asks.recv() => match ask {
                    Some(ask) => self.take(ask).await,
                    None => self.close("the program that led the run has ended").await,
                },
                event = next(&mut self.run) => self.hear(event).await,
                () = until(self.start.as_ref().map(|(until, _)| *until)), if self.beginning.is_none() => {
                    self.try_start(true);
                }
                result = begun(&mut self.beginning) => self.handle_begun(result),
                _ = glances.tick() => self.glance().await,
            }
            if self.closing && self.run.is_none() {
                self.show();
                return;
            }
            self.show();
        }
    }

    async fn take(&mut self, ask: Ask) {
        // The caller may be gone, so failures to answer are ignored.
        match ask {
            Ask::Command(Command::Start, answer) => self.start(Annotation::default(), answer),
            Ask::Start(annotation, answer) => self.start(annotation, answer),
            Ask::History(after, answer) => drop(answer.send(self.history.after(after))),
            Ask::Command(command, answer) => {
                let outcome = self.command(command).await;
                if let Err(refusal) = &outcome {
                    tracing::info!(%refusal, "run control refused a command: {refusal}");
                }
                drop(answer.send(outcome));
            }
            Ask::Rate(rate, answer) => drop(answer.send(self.set_rate(rate).await)),
            Ask::Add(id, answer) => drop(answer.send(self.change_builders("add-builder", id).await)),
            Ask::Remove(id, answer) => drop(answer.send(self.change_builders("remove-builder", id).await)),
            Ask::Status(answer) => drop(answer.send(self.status().await)),
            Ask::Close(cause, answer) => {
                self.close(&cause).await;
                let _ = answer.send(());
            }
        }
    }

    async fn command(&mut self, command: Command) -> Result<State, Refusal> {
        let next = self.state.command(command)?;
        let refused = |by: &dyn Display, error: &dyn Display, remedy: &str| Refusal {
            request: command.to_string(),
            refused_by: by.to_string(),
            reason: error.to_string(),
            remedy: remedy.to_owned(),
        };
        match (command, &self.run) {
            (Command::Configure, _) => {
                self.system.configure().map_err(|error| refusal(command.name(), error))?;
                self.give_up_open_run("configured again").await;
                self.changes = Changes::default();
                if let Err(error) = self.open().await {
                    // The previous run is closed by now, so no run is left that could be started.
                    self.fail(format!("the run cannot be opened to sources and builders: {error}")).await;
                    return Err(refusal(command.name(), error));
                }
                if self.autostart {
                    self.start = Some((far_away(), None));
                }
            }
            (Command::Reset, _) => {
                self.give_up_open_run("reset").await;
                self.last_error = None;
            }
            (Command::Pause, Some(run)) => {
                let paused = run.handle.pause().await;
                paused.map_err(|error| refused(&"the supervisor", &error, SEE_STATUS))?;
            }
            (Command::Resume, Some(run)) => {
                let resumed = run.handle.resume().await;
                resumed.map_err(|error| refused(&"the supervisor", &error, SEE_STATUS))?;
            }
            (Command::Stop, Some(run)) => {
                let stopped = run.handle.request_run_end("stopped by run control").await;
                stopped.map_err(|error| refused(&"the supervisor", &error, "nothing needs to be done"))?;
            }
            (Command::Start, _) | (_, None) => {}
        }
        self.recovers = false;
        self.enter(next);
        Ok(next)
    }

    /// Starts the run. The answer follows when the run has begun, or when it cannot begin.
    fn start(&mut self, annotation: Annotation, answer: Answer<Result<State, Refusal>>) {
        if !annotation.fits() {
            return drop(answer.send(Err(too_long())));
        }
        if let Err(refusal) = self.state.command(Command::Start) {
            tracing::info!(%refusal, "run control refused a command: {refusal}");
            return drop(answer.send(Err(refusal)));
        }
        if matches!(&self.start, Some((_, Some(_)))) {
            let reason = "a start is waiting for sources and builders already";
            return drop(answer.send(Err(refusal(
                "start",
                SystemError::new(
                    "an earlier start",
                    reason,
                    "wait some seconds; the status shows who is missing",
                ),
            ))));
        }
        self.annotation = annotation;
        self.start = Some((Instant::now() + START_PATIENCE, Some(answer)));
        self.try_start(false);
    }

    /// Begins the run if all peers are ready; else, with `now_or_never`, the start fails.
    fn try_start(&mut self, now_or_never: bool) {
        let (Some(run), Some(_)) = (&self.run, &self.start) else {
            self.start = None;
            return;
        };
        // A run that starts by itself waits for its readouts.
        let is_automatic = matches!(self.start, Some((_, None)));
        if self.beginning.is_some() || (is_automatic && !run.progress().has_readouts) {
            return;
        }
        self.is_last_try = now_or_never;
        let (handle, annotation) = (run.handle.clone(), self.annotation.clone());
        self.beginning = Some(Box::pin(async move { handle.begin(annotation).await }));
    }

    /// Handles the result of the run's beginning. A start that peers are missing for waits for them
    /// until its time is over.
    fn handle_begun(&mut self, result: Result<(), BeginError>) {
        self.beginning = None;
        let is_hosting = self.run.as_ref().is_some_and(OpenRun::is_hosting);
        let outcome = match result {
            Ok(()) => {
                self.speed = Speedometer::from(clock::now(), EventCounts::default());
                self.last_error = None;
                self.enter(State::Running);
                Ok(State::Running)
            }
            Err(BeginError::NotReady(reason)) if !self.is_last_try && may_pass(&reason) => return,
            Err(BeginError::NotReady(reason)) => {
                let mut error = not_ready(&reason);
                if !is_hosting {
                    "sources and builders of this process are still starting: try again"
                        .clone_into(&mut error.remedy);
                }
                self.last_error = Some(error.to_string());
                Err(refusal("start", error))
            }
            Err(BeginError::Over(over)) => {
                let error = SystemError::new("the supervisor", over.to_string(), SEE_STATUS);
                Err(refusal("start", error))
            }
        };
        if let Some((_, Some(answer))) = self.start.take() {
            drop(answer.send(outcome));
        }
    }

    async fn hear(&mut self, event: RunEvent) {
        match event {
            RunEvent::Progress(progress) => self.follow(progress),
            RunEvent::Hosting => self.try_start(false),
            // A recovered run goes on without the roles that this process cannot start.
            RunEvent::NotJoined(error) if self.is_under_way() => {
                tracing::warn!(%error, "the recovered run goes on without a role that this process cannot start: {error}; remove the cause before the next run");
                self.last_error = Some(error.to_string());
            }
            RunEvent::NotJoined(error) => self.fail(error.to_string()).await,
            RunEvent::RoleEnded(peer, error) => self.report_failed(peer, &error),
            RunEvent::RoleLeft(peer) => self.bring_back(peer),
            RunEvent::Broken(reason) => {
                self.run = None;
                self.fail(format!("the run ended early: {reason}; the log says more")).await;
            }
            RunEvent::Over(report) => self.settle(*report).await,
        }
    }

    fn is_under_way(&self) -> bool {
        matches!(self.state, State::Running | State::Paused | State::Stopping)
    }

    fn follow(&mut self, progress: Progress) {
        match (progress.state, self.state) {
            (RunState::Configured, State::Configured) if progress.ready => {
                self.enter(self.state.occur(Occurrence::PeersReady));
                self.try_start(false);
            }
            // The leader goes on with a recovered run, which needs no second start.
            (RunState::Recovering | RunState::Running | RunState::Paused, State::Configured)
                if self.beginning.is_none() =>
            {
                self.enter(self.state.occur(Occurrence::Recovered));
                self.recovers = true;
                self.speed = Speedometer::from(clock::now(), progress.events);
                if let Some((_, Some(answer))) = self.start.take() {
                    drop(answer.send(Ok(State::Running)));
                }
            }
            (RunState::Stopping, State::Running | State::Paused) => {
                self.enter(self.state.occur(Occurrence::LastTrigger));
            }
            _ => {}
        }
        if self.recovers && progress.state != RunState::Recovering {
            self.recovers = false;
            if progress.state == RunState::Paused {
                self.enter(State::Paused);
            }
        }
    }

    /// Logs the failure of a source or builder of this process; all other roles go on.
    fn report_failed(&mut self, peer: Peer, error: &dyn Display) {
        let named = self.run.as_ref().map_or_else(|| peer.to_string(), |run| run.plan.named(peer));
        self.last_error = Some(format!("{named}: {error}"));
        tracing::warn!(peer = named, %error, "{named} failed during its run, and the other roles go on: {error}; remove the cause before the next run");
    }

    async fn settle(&mut self, report: RunReport) {
        self.run = None;
        self.runs += 1;
        self.annotation = Annotation::default();
        self.system.ended(&report);
        let failure = match self.state {
            // The run ended before it was started.
            State::Configured => Some(report.verdict.clone()),
            _ => report.failure.clone(),
        };
        let number = report.run;
        tracing::info!(run = number, "run {number} is over: {}", report.verdict);
        if report.exit_code != 0 {
            self.last_error = Some(format!("run {number}: {}", report.verdict));
        }
        self.totals.add(&report.events, &report.dead_time, report.bytes.payload);
        self.over.push_front(LastRun::from(&report));
        self.over.truncate(EARLIER_RUNS);
        self.last_run = Some(Arc::new(report));
        if let Some(failure) = failure {
            return self.fail(format!("run {number}: {failure}")).await;
        }
        let next = self.state.occur(Occurrence::Drained);
        if !self.closing
            && let Err(error) = self.open().await
        {
            return self.fail(format!("the next run cannot be opened: {error}")).await;
        }
        self.enter(next);
    }

    async fn fail(&mut self, cause: String) {
        tracing::warn!(
            cause,
            "run control is in state Failed: {cause}; remove the cause, then use `reset` and `configure`"
        );
        let failed = self.state.occur(Occurrence::Failure);
        if let Some((_, Some(answer))) = self.start.take() {
            let error =
                SystemError::new("the system", cause.clone(), "fix the cause, then reset and configure");
            drop(answer.send(Err(refusal("start", error))));
        }
        self.last_error = Some(cause.clone());
        self.give_up_open_run(&cause).await;
        self.enter(failed);
    }

    /// Opens the next run to peers, at the listener that is kept.
    async fn open(&mut self) -> Result<(), SystemError> {
        let mut config = self.system.plan()?;
        config.plan.hold = true;
        if let Some(builders) = &self.changes.builders {
            config.plan.builders.clone_from(builders);
        }
        let supervisor = |error: &dyn Display| {
            SystemError::new("the supervisor", error.to_string(), "correct the configuration, then configure")
        };
        if self.listener.as_ref().is_none_or(|(address, _)| *address != config.listen) {
            self.listener = None;
            let listener = listen(&config.listen).await.map_err(|error| supervisor(&error))?;
            let listener = listener.into_std().map_err(|error| supervisor(&error))?;
            self.listener = Some((config.listen.clone(), listener));
        }
        if let Some(state) = config.state.as_ref().filter(|_| self.over.is_empty()) {
            match state.latest(EARLIER_RUNS) {
                Ok(runs) => self.over.extend(runs),
                Err(error) => {
                    tracing::warn!(%error, "cannot read the earlier runs in the state directory {}, so run control does not list them: {error}; make it readable", state.path().display())
                }
            }
        }
        let Some((_, listener)) = &self.listener else { return Ok(()) };
        let number = config.plan.run;
        let system = &mut self.system;
        let opened = OpenRun::open(listener, config, |address, plan| system.join(address, plan)).await;
        let run = self.run.insert(opened.map_err(|error| supervisor(&error))?);
        if let Some(rate) = self.changes.rate {
            // The same rate was accepted for this trigger before, so it is accepted again.
            drop(run.handle.set_rate(rate).await);
        }
        self.speed = Speedometer::default();
        tracing::info!(run = %number, "run {number} is open to sources and builders");
        Ok(())
    }

    /// Closes a run that has not begun, or has failed.
    async fn give_up_open_run(&mut self, cause: &str) {
        if let Some((_, Some(answer))) = self.start.take() {
            let error = SystemError::new("a later command", cause, "configure, then start");
            drop(answer.send(Err(refusal("start", error))));
        }
        self.beginning = None;
        if let Some(run) = self.run.take() {
            // An error means that the run is over already and need not be stopped.
            let _ = run.handle.request_run_end(cause).await;
            run.over().await;
        }
    }

    /// Ends the run that is under way; the leader ends when the run is settled.
    async fn close(&mut self, cause: &str) {
        self.closing = true;
        match (&self.run, self.state) {
            (Some(run), State::Running | State::Paused) => {
                // An error means that the run is over already and need not be stopped.
                let _ = run.handle.request_run_end(cause).await;
                self.enter(State::Stopping);
            }
            (Some(_), State::Stopping) => {}
            _ => {
                self.give_up_open_run(cause).await;
                self.enter(State::Unconfigured);
            }
        }
    }

    fn enter(&mut self, state: State) {
        if self.state != state {
            let run = self.run.as_ref().map(|run| run.progress().run.number());
            tracing::info!(from = %self.state, to = %state, run, "the state of run control changes from {} to {state}", self.state);
            self.state = state;
        }
    }

    fn show(&self) {
        let is_hosting = self.run.as_ref().is_some_and(OpenRun::is_hosting);
        self.show.send_if_modified(|shown| {
            let same_run = match (&shown.last_run, &self.last_run) {
                (None, None) => true,
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                _ => false,
            };
            let same = same_run
                && shown.state == self.state
                && shown.is_hosting == is_hosting
                && shown.last_error == self.last_error;
            if !same {
                *shown = Shown {
                    state: self.state,
                    is_hosting,
                    last_run: self.last_run.clone(),
                    last_error: self.last_error.clone(),
                };
            }
            !same
        });
    }
}

fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(60 * 60 * 24 * 365)
}

async fn next(run: &mut Option<OpenRun>) -> RunEvent {
    match run {
        Some(run) => run.next().await,
        None => pending().await,
    }
}

async fn begun(beginning: &mut Option<Beginning>) -> Result<(), BeginError> {
    match beginning {
        Some(beginning) => beginning.await,
        None => pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => pending().await,
    }
}
