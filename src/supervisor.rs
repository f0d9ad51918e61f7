//! [`Supervisor`]: takes triggers, assigns events to builders, and closes the run's ledger.

mod door;
mod journal;
mod links;
mod trigger_port;
mod commands;
mod onlookers;
mod driver;
mod farewell;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(test)]
mod tests;

use std::{io, net::SocketAddr};

use evb_core::{
    id::{BuilderId, Epoch},
    supervisor::{RecoverError, Recovery, SupervisorCore, SupervisorRole},
};
use evb_net::{
    class::TrafficClass,
    clock,
    resolve::{ResolveError, resolve},
    security::Security,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot, watch},
};

use commands::{Change, Command, Commands};
use door::Door;
use driver::Driver;
use journal::{Journal, keeper::Keeper};
use onlookers::Onlookers;
use trigger_port::TriggerPort;

use crate::role::Beats;

pub use evb_core::{
    ledger::RunReport,
    supervisor::{
        AssignmentPolicy, BuilderSurvey, ChangeError, NotReady, PlanError, Presence, Progress, RunPlan,
        RunState, SourceLoss, SourceSurvey, Survey,
    },
    trigger::TriggerKind,
    units::Frequency,
};
pub use journal::{JournalConfig, JournalError, JournalFsync, unfinished_run};
pub use trigger_port::TriggerInput;

/// Commands of handles that may wait.
const COMMANDS: usize = 256;

/// A supervisor's address and its run.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorConfig {
    /// Address at which sources and builders register: `host:port`; port 0 takes a free port.
    pub listen: String,
    /// The plan of the run.
    pub plan: RunPlan,
    /// Seed of random triggers.
    pub seed: u64,
    /// Journal from which another supervisor can go on with the run. If it contains a run that is
    /// not over, this supervisor goes on with that run, and number and epoch are those of the
    /// journal instead of the plan's.
    pub journal: Option<JournalConfig>,
    /// Source of external triggers besides the handle; only with [`TriggerKind::External`].
    pub trigger_input: Option<TriggerInput>,
    /// Traffic class of its packets to sources and builders.
    pub control: TrafficClass,
    /// Keys and certificates by which it and its peers authenticate each other.
    pub security: Security,
    /// Counts the turns of its loop.
    pub beats: Beats,
}

/// Reason for which a supervisor cannot work.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The plan is contradictory.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There is a trigger input, but the trigger is not external.
    #[error("a trigger input needs the trigger kind `external` or `multicast`; leave one of them out")]
    TriggerInput,
    /// An address that cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The address to listen on is not local, or it is taken.
    #[error(
        "cannot listen on {address}: {reason}; is another evbd running there, or the address of another host?"
    )]
    Listen {
        /// The address.
        address: String,
        /// The system's error.
        reason: io::Error,
    },
    /// The journal cannot be written, or its run cannot go on.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The multicast group cannot be joined.
    #[error(
        "cannot listen to the multicast group {group}: {reason}; check the group, the interface, and that it is up"
    )]
    Multicast {
        /// Group and port.
        group: SocketAddr,
        /// The system's error.
        reason: io::Error,
    },
    /// The system refused a timer.
    #[error("the system refused: {0}")]
    System(#[from] io::Error),
}

/// A listening supervisor; [`run`](Self::run) leads its run.
#[derive(Debug)]
pub struct Supervisor {
    driver: Driver,
    address: SocketAddr,
    trigger_address: Option<SocketAddr>,
    handle: SupervisorHandle,
    beats: Beats,
}

/// A handle to a running supervisor. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct SupervisorHandle {
    commands: mpsc::Sender<Command>,
    progress: watch::Receiver<Progress>,
}

/// The supervisor has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run is over")]
pub struct RunOver;

/// Reason for which a run is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SteeringError {
    /// The run cannot be changed like this.
    #[error(transparent)]
    Refused(#[from] ChangeError),
    /// The supervisor has ended.
    #[error(transparent)]
    Over(#[from] RunOver),
}

/// Reason for which a run that its plan holds back does not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// A source or builder is missing, or the run has begun already.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The supervisor has ended.
    #[error(transparent)]
    Over(#[from] RunOver),
}

impl SupervisorConfig {
    /// Creates a configuration with seed 1 and no trigger input.
    pub fn new(listen: impl Into<String>, plan: RunPlan) -> Self {
        Self {
            listen: listen.into(),
            plan,
            seed: 1,
            journal: None,
            trigger_input: None,
            control: TrafficClass::default(),
            security: Security::None,
            beats: Beats::default(),
        }
    }

    /// Returns an epoch that no earlier start of a supervisor had, provided that the host's clock
    /// is not turned back.
    pub fn fresh_epoch() -> Epoch {
        Epoch::new(clock::wall_clock_micros())
    }
}

impl Supervisor {
    /// Listens, so that peers can register as soon as it runs. Their time to register begins now.
    ///
    /// # Errors
    /// [`SupervisorError`]: the plan, or an address.
    pub async fn bind(config: SupervisorConfig) -> Result<Self, SupervisorError> {
        let listener = listen(&config.listen).await?;
        Self::on(listener, config).await
    }

    /// Uses an existing listener, which may serve many runs. `config.listen` is not used.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub async fn on(listener: TcpListener, mut config: SupervisorConfig) -> Result<Self, SupervisorError> {
        if config.trigger_input.is_some() && config.plan.trigger != TriggerKind::External {
            return Err(SupervisorError::TriggerInput);
        }
        if config.plan.boot_id.is_empty() {
            config.plan.boot_id = evb_net::host::boot_id();
        }
        let address = listener.local_addr()?;
        let triggers = match &config.trigger_input {
            Some(input) => Some(TriggerPort::open(input).await?),
            None => None,
        };
        let trigger_address = triggers.as_ref().and_then(TriggerPort::address);
        let (commands, command_queue) = mpsc::channel(COMMANDS);
        let (progress_sender, progress) = watch::channel(Progress::default());
        let (core, journal) = begin(config.plan, config.seed, config.journal)?;
        let journal = journal.map(|journal| Keeper::new(Box::new(journal))).transpose()?;
        let name = journal.as_ref().map(|journal| journal.path().display().to_string());
        let driver = Driver::new(
            SupervisorRole::new(core, name),
            journal,
            Door::new(listener, config.control, config.security),
            triggers,
            Commands::new(command_queue),
            Onlookers::new(progress_sender),
        )?;
        let handle = SupervisorHandle { commands, progress };
        Ok(Self { driver, address, trigger_address, handle, beats: config.beats })
    }

    /// Returns the address at which it listens for sources and builders.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address at which it listens for external triggers, if it does.
    pub fn trigger_addr(&self) -> Option<SocketAddr> {
        self.trigger_address
    }

    /// Returns a handle that steers and observes the run.
    pub fn handle(&self) -> SupervisorHandle {
        self.handle.clone()
    }

    /// Leads the run until its ledger is closed.
    ///
    /// # Errors
    /// None at present: the report of a failed run states the failure.
    pub async fn run(self) -> Result<RunReport, SupervisorError> {
        drop(self.handle);
        Ok(*self.beats.count("supervisor".to_owned(), farewell::lead(self.driver)).await)
    }
}

/// Creates the core of a new run, or of the journal's run if that is not over.
fn begin(
    mut plan: RunPlan,
    seed: u64,
    journal: Option<JournalConfig>,
) -> Result<(SupervisorCore, Option<Journal>), SupervisorError> {
    let Some(config) = journal else { return Ok((SupervisorCore::new(plan, seed, clock::now())?, None)) };
    plan.journal = true;
    let mut recovery = Recovery::new(plan.clone());
    let mut journal = Journal::open(config, |entry| recovery.read(&entry))?;
    let path = journal.path().to_owned();
    match recovery.finish(clock::now()) {
        Ok(core) => Ok((core, Some(journal))),
        Err(RecoverError::Empty | RecoverError::Over(_)) => {
            journal.clear().map_err(|reason| JournalError::Io { action: "write", path, reason })?;
            Ok((SupervisorCore::new(plan, seed, clock::now())?, Some(journal)))
        }
        Err(reason) => Err(JournalError::Unusable { path, reason }.into()),
    }
}

/// Listens for sources and builders at `host:port`.
///
/// # Errors
/// [`SupervisorError`]: the address.
pub async fn listen(address: &str) -> Result<TcpListener, SupervisorError> {
    let addresses = resolve(address).await?;
    let fault = |reason| SupervisorError::Listen { address: address.to_owned(), reason };
    evb_net::control::listen(&addresses).await.map_err(fault)
}

impl SupervisorHandle {
    /// Reports `count` external triggers that happened now. They are ignored unless the run takes
    /// triggers and its trigger kind is external.
    ///
    /// # Errors
    /// [`RunOver`].
    pub async fn trigger(&self, count: u64) -> Result<(), RunOver> {
        self.commands.send(Command::Trigger(count)).await.map_err(|_| RunOver)
    }

    /// Ends the run: there are no more triggers, and all outstanding events are settled.
    ///
    /// # Errors
    /// [`RunOver`]: it has ended already.
    pub async fn stop(&self, cause: impl Into<String>) -> Result<(), RunOver> {
        self.commands.send(Command::Stop(cause.into())).await.map_err(|_| RunOver)
    }

    /// Lets a run begin that its plan holds back ([`RunPlan::hold`]).
    ///
    /// # Errors
    /// [`BeginError`]: peers are missing, or the run is over.
    pub async fn begin(&self) -> Result<(), BeginError> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(Command::Begin(answer)).await.map_err(|_| RunOver)?;
        Ok(answered.await.map_err(|_| RunOver)??)
    }

    /// Pauses the run. External triggers are inhibited meanwhile, and the run's own trigger is
    /// stopped.
    ///
    /// # Errors
    /// [`SteeringError`]: it is not running, paused already, or over.
    pub async fn pause(&self) -> Result<(), SteeringError> {
        self.change(Change::Pause).await
    }

    /// Resumes the run: it takes triggers again.
    ///
    /// # Errors
    /// [`SteeringError`]: it is not paused, or over.
    pub async fn resume(&self) -> Result<(), SteeringError> {
        self.change(Change::Resume).await
    }

    /// Sets the mean rate of the run's own trigger, from now on.
    ///
    /// # Errors
    /// [`SteeringError`]: its trigger has no rate, or it is over.
    pub async fn set_rate(&self, rate: Frequency) -> Result<(), SteeringError> {
        self.change(Change::SetRate(rate)).await
    }

    /// Adds a builder to the run, which may be running already.
    ///
    /// # Errors
    /// [`SteeringError`]: it takes part already, there are too many, or it is over.
    pub async fn add_builder(&self, id: BuilderId) -> Result<(), SteeringError> {
        self.change(Change::AddBuilder(id)).await
    }

    /// Removes a builder: it gets no more events, and leaves when it has none left.
    ///
    /// # Errors
    /// [`SteeringError`]: there is none of that number, it is the last one, or it is over.
    pub async fn remove_builder(&self, id: BuilderId) -> Result<(), SteeringError> {
        self.change(Change::RemoveBuilder(id)).await
    }

    async fn change(&self, change: Change) -> Result<(), SteeringError> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(Command::Change(change, answer)).await.map_err(|_| RunOver)?;
        Ok(answered.await.map_err(|_| RunOver)??)
    }

    /// Returns the state of every source and builder.
    ///
    /// # Errors
    /// [`RunOver`].
    pub async fn survey(&self) -> Result<Survey, RunOver> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(Command::Survey(answer)).await.map_err(|_| RunOver)?;
        answered.await.map_err(|_| RunOver)
    }

    /// Returns a watch of the run's progress: a snapshot of its counters, updated some times a
    /// second.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }
}
