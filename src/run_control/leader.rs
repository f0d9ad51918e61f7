//! The leader's task: it carries requests and events of a run to the state machine
//! [`evb_core::run_control::leader`], and carries out what the machine decides.

mod published;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Display,
    future::{Future, pending},
    net::TcpListener,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use evb_core::{
    id::{BuilderId, SourceId},
    ledger::{EventCounts, RunReport},
    run_control::{
        Refusal, State,
        leader::{Done, Leader, LeaderOutput, Request, RunEvent},
    },
    supervisor::{BeginError, RunChange, RunOver, RunPlan},
    time::Instant,
    units::Frequency,
};
use evb_net::clock;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    LastRun, Sample, Shown, Status, System, SystemError, Totals, history::History, open_run::OpenRun,
    status::Speedometer,
};
use crate::supervisor::{SupervisorConfig, listen};

/// Number of earlier runs that the status lists besides the last one.
const EARLIER_RUNS: usize = 20;

/// Interval at which rates are computed.
const GLANCE: Duration = Duration::from_secs(1);

type Answer<T> = oneshot::Sender<T>;

/// A request that a handle sends to the leader.
pub(super) enum Ask {
    Request(Request, Answer<Result<State, Refusal>>),
    Status(Answer<Status>),
    History(u64, Answer<Vec<Sample>>),
}

pub(super) struct Driver<S> {
    system: S,
    leader: Leader,
    asks: mpsc::Receiver<Ask>,
    show: watch::Sender<Shown>,
    /// Requests that are not answered yet, by their numbers.
    askers: BTreeMap<u64, Answer<Result<State, Refusal>>>,
    /// Number of the last request.
    asked: u64,
    /// The listener and its address, kept over all runs.
    listener: Option<(String, TcpListener)>,
    run: Option<OpenRun>,
    /// The beginning of the run, until all peers have answered.
    beginning: Option<Beginning>,
    speed: Speedometer,
    history: History,
    last_run: Option<Arc<RunReport>>,
    /// Totals of all runs that are over.
    totals: Totals,
    /// Every run that is over, the latest first.
    over: VecDeque<LastRun>,
}

/// The future result of a run's beginning.
type Beginning = Pin<Box<dyn Future<Output = Result<(), BeginError>> + Send>>;

impl<S: System> Driver<S> {
    /// Creates the driver of a leader without a run. With `autostart`, the first run starts by
    /// itself.
    pub(super) fn new(
        system: S,
        autostart: bool,
        asks: mpsc::Receiver<Ask>,
        show: watch::Sender<Shown>,
    ) -> Self {
        Self {
            system,
            leader: Leader::new(autostart),
            asks,
            show,
            askers: BTreeMap::new(),
            asked: 0,
            listener: None,
            run: None,
            beginning: None,
            speed: Speedometer::default(),
            history: History::default(),
            last_run: None,
            totals: Totals::default(),
            over: VecDeque::new(),
        }
    }

    /// Leads runs until a `close` and the end of the run under way, or until the last handle is
    /// dropped.
    pub(super) async fn lead(mut self) {
        let mut glances = tokio::time::interval(GLANCE);
        glances.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut is_led = true;
        loop {
            while let Some(output) = self.leader.poll() {
                if output == LeaderOutput::Ended {
                    return self.show();
                }
                self.carry_out(output).await;
            }
            self.show();
            let due = self.leader.next_timeout();
            tokio::select! {
                // The beginning of a run comes before what the run does then.
                biased;
                result = begun(&mut self.beginning) => self.hear_begun(result),
                event = next(&mut self.run) => self.hear(event),
                () = until(due) => self.leader.handle_timeout(clock::now()),
                _ = glances.tick() => self.glance().await,
                ask = self.asks.recv(), if is_led => match ask {
                    Some(ask) => self.take(ask).await,
                    None => {
                        is_led = false;
                        self.request(Request::Close("the program that led the run has ended".to_owned()));
                    }
                },
            }
        }
    }

    /// Takes a question of a caller: a request goes to the leader, and the others are answered at
    /// once.
    async fn take(&mut self, ask: Ask) {
        // The caller may be gone, so failures to answer are ignored.
        match ask {
            Ask::Request(request, answer) => {
                self.askers.insert(self.asked + 1, answer);
                self.request(request);
            }
            Ask::Status(answer) => drop(answer.send(self.status().await)),
            Ask::History(after, answer) => drop(answer.send(self.history.after(after))),
        }
    }

    fn request(&mut self, request: Request) {
        self.asked += 1;
        self.leader.handle_request(self.asked, request, clock::now());
    }

    /// Carries out an output of the leader, and tells it the result.
    async fn carry_out(&mut self, output: LeaderOutput) {
        let done = match output {
            LeaderOutput::Answer { number, outcome } => {
                self.show();
                let asker = self.askers.remove(&number);
                return drop(asker.map(|answer| answer.send(outcome)));
            }
            LeaderOutput::Begin(annotation) => {
                let handle = self.run.as_ref().map(|run| run.handle.clone());
                self.beginning = handle
                    .map(|handle| -> Beginning { Box::pin(async move { handle.begin(annotation).await }) });
                return;
            }
            LeaderOutput::Bring(id) => {
                let Some(run) = &mut self.run else { return };
                let joining = self.system.join_builder(run.address, id);
                return joining.into_iter().for_each(|joining| run.join(joining));
            }
            LeaderOutput::Ended => return,
            LeaderOutput::Configure => Done::System(self.system.configure()),
            LeaderOutput::Admit(id) => Done::System(self.system.admit_builder(id)),
            LeaderOutput::Open { builders, rate, excluded } => {
                Done::Opened(self.open(builders, rate, excluded).await)
            }
            LeaderOutput::Change(change) => Done::Changed(self.change(change).await),
            LeaderOutput::Stop(cause) => Done::Changed(self.stop(&cause).await),
            LeaderOutput::Close(cause) => {
                self.beginning = None;
                // An error means that the run is over already and need not be stopped.
                let _ = self.stop(&cause).await;
                if let Some(run) = self.run.take() {
                    run.over().await;
                }
                Done::Closed
            }
        };
        self.leader.handle_done(done, clock::now());
    }

    async fn change(&mut self, change: RunChange) -> Result<(), String> {
        let run = self.run.as_ref().ok_or_else(|| RunOver.to_string())?;
        run.handle.change(change).await.map_err(|error| error.to_string())
    }

    async fn stop(&mut self, cause: &str) -> Result<(), String> {
        let run = self.run.as_ref().ok_or_else(|| RunOver.to_string())?;
        run.handle.request_run_end(cause).await.map_err(|error| error.to_string())
    }

    /// Tells the leader that the run has begun, or why not.
    fn hear_begun(&mut self, result: Result<(), BeginError>) {
        self.beginning = None;
        if result.is_ok() {
            self.speed = Speedometer::from(clock::now(), EventCounts::default());
        }
        let is_hosting = self.run.as_ref().is_some_and(OpenRun::is_hosting);
        self.leader.handle_event(RunEvent::Begun { result, is_hosting }, clock::now());
    }

    /// Tells the leader of an event of the run, and notes what the event changes here.
    fn hear(&mut self, event: RunEvent) {
        let before = self.leader.status().state;
        match &event {
            RunEvent::Over(report) => {
                self.run = None;
                self.note_end(report);
            }
            RunEvent::Broken(_) => self.run = None,
            // What follows from an event may depend on the progress of the run.
            _ => {
                let latest = self.run.as_ref().map(|run| RunEvent::Progress(run.progress()));
                latest.into_iter().for_each(|latest| self.leader.handle_event(latest, clock::now()));
            }
        }
        self.leader.handle_event(event, clock::now());
        let after = self.leader.status().state;
        let is_recovered = before == State::Configured && matches!(after, State::Running | State::Paused);
        if let Some(run) = self.run.as_ref().filter(|_| is_recovered) {
            self.speed = Speedometer::from(clock::now(), run.progress().events);
        }
    }

    /// Notes the ledger of a run that is over.
    fn note_end(&mut self, report: &Arc<RunReport>) {
        self.system.ended(report);
        self.totals.add(&report.events, &report.dead_time, report.bytes.payload);
        self.over.push_front(LastRun::from(&**report));
        self.over.truncate(EARLIER_RUNS);
        self.last_run = Some(Arc::clone(report));
    }

    /// Opens the next run to peers, at the listener that is kept.
    async fn open(
        &mut self,
        builders: Option<Vec<BuilderId>>,
        rate: Option<Frequency>,
        excluded: BTreeMap<SourceId, String>,
    ) -> Result<Box<RunPlan>, SystemError> {
        let mut config = self.system.plan()?;
        config.plan.hold = true;
        config.plan.excluded.extend(excluded);
        if let Some(builders) = builders {
            config.plan.builders = builders;
        }
        let supervisor = |error: &dyn Display| {
            SystemError::new("the supervisor", error.to_string(), "until then, no run can be opened")
        };
        if self.listener.as_ref().is_none_or(|(address, _)| *address != config.listen) {
            self.listener = None;
            let listener = listen(&config.listen).await.map_err(|error| supervisor(&error))?;
            let listener = listener.into_std().map_err(|error| {
                supervisor(&format_args!("cannot keep its listener: {error}; raise `ulimit -n`"))
            })?;
            self.listener = Some((config.listen.clone(), listener));
        }
        self.read_earlier_runs(&config);
        let Some((_, listener)) = &self.listener else {
            return Err(supervisor(
                &"it has lost its listener, which is a fault of evb: report it with the logs",
            ));
        };
        let system = &mut self.system;
        let opened = OpenRun::open(listener, config, |address, plan| system.join(address, plan)).await;
        let run = self.run.insert(opened.map_err(|error| supervisor(&error))?);
        if let Some(rate) = rate {
            // The same rate was accepted for this trigger before, so it is accepted again.
            drop(run.handle.set_rate(rate).await);
        }
        self.speed = Speedometer::default();
        Ok(Box::new(run.plan.clone()))
    }

    /// Lists the runs that earlier processes have led.
    fn read_earlier_runs(&mut self, config: &SupervisorConfig) {
        let Some(state) = config.state.as_ref().filter(|_| self.over.is_empty()) else { return };
        match state.latest(EARLIER_RUNS) {
            Ok(runs) => self.over.extend(runs),
            Err(error) => {
                tracing::warn!(%error, "cannot read the earlier runs in the state directory {}, so run control does not list them: {error}; let the user of this evbd read it", state.path().display())
            }
        }
    }

    /// Publishes the state, if it has changed.
    fn show(&self) {
        let is_hosting = self.run.as_ref().is_some_and(OpenRun::is_hosting);
        let status = self.leader.status();
        self.show.send_if_modified(|shown| {
            let same_run = match (&shown.last_run, &self.last_run) {
                (None, None) => true,
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                _ => false,
            };
            let same = same_run
                && shown.state == status.state
                && shown.is_hosting == is_hosting
                && shown.last_error == status.last_error;
            if !same {
                *shown = Shown {
                    state: status.state,
                    is_hosting,
                    last_run: self.last_run.clone(),
                    last_error: status.last_error.clone(),
                };
            }
            !same
        });
    }
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
        Some(deadline) => tokio::time::sleep(deadline.since(clock::now())).await,
        None => pending().await,
    }
}
