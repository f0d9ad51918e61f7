//! [`Supervisor`]: takes triggers, assigns events to builders, and closes the run's ledger.

mod registrations;
mod journal;
mod links;
mod trigger_port;
mod commands;
mod onlookers;
mod wall_clock;
mod last_run;
mod record;
mod record_notes;
mod state;
mod start_gate;
mod driver;
mod closing;
mod handle;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, io, net::SocketAddr, sync::Arc};

use evb_core::{
    id::{BuilderId, Epoch, RunId, SourceId},
    supervisor::{Keeper, Recovery, SupervisorCore, SupervisorRole},
};
use evb_net::{
    class::TrafficClass,
    clock,
    resolve::{ResolveError, resolve},
    security::Security,
};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, oneshot, watch},
};

pub(crate) use closing::refuse_late;
use commands::Commands;
use driver::Driver;
use journal::{Journal, writer::JournalWriter};
use onlookers::Onlookers;
pub(crate) use registrations::Registrations;
use start_gate::Asking;
use state::StateKeeper;
use trigger_port::TriggerPort;

use crate::role::TurnCounters;

pub use evb_core::{
    ledger::RunReport,
    supervisor::{
        AssignmentPolicy, BeginError, BuilderSurvey, ChangeError, NotReady, PlanError, Presence, Progress,
        RecoverError, RunOver, RunPlan, RunState, SourceLoss, SourceSurvey, Survey,
    },
    trigger::TriggerKind,
    units::Frequency,
};
pub use handle::{SteeringError, SupervisorHandle};
pub use journal::{JournalConfig, JournalError, JournalFsync, unfinished_run};
pub use last_run::LastRun;
pub use record::{
    CallEnd, HookCall, HookCounts, NotedProblem, RecordedConfiguration, RecordedFile, RecordedHooks,
    RunPoint, RunRecord, RunSeries,
};
pub use record_notes::RecordNotes;
pub use start_gate::{RunStart, StartGate};
pub use state::StateDir;
pub use trigger_port::TriggerInput;

/// Number of commands of handles that may wait.
const COMMANDS: usize = 256;

/// Configuration of a supervisor: its address and its run.
///
/// ```
/// use evb::{
///     prelude::*,
///     supervisor::{JournalConfig, JournalFsync},
/// };
///
/// let (sources, builders) = ([1, 2].map(SourceId::new), [1].map(BuilderId::new));
/// let epoch = SupervisorConfig::fresh_epoch();
/// let mut plan = RunPlan::new(RunNumber::new(42), epoch, sources.to_vec(), builders.to_vec());
/// plan.events = Some(1_000_000);
/// let mut config = SupervisorConfig::new("0.0.0.0:7000", plan);
/// let path = "/var/lib/evb/journal".into();
/// config.journal = Some(JournalConfig { path, fsync: JournalFsync::None });
/// assert_eq!(config.plan.check(), Ok(()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorConfig {
    /// Address at which sources and builders register: `host:port`; port 0 takes a free port.
    pub listen: String,
    /// The plan of the run.
    pub plan: RunPlan,
    /// Seed of random triggers.
    pub seed: u64,
    /// Journal from which another supervisor can go on with the run. If the journal contains a run
    /// that is not over, this supervisor goes on with that run, and takes run number and epoch from
    /// the journal instead of the plan.
    pub journal: Option<JournalConfig>,
    /// Directory in which the supervisor keeps the runs that it has led, so that their numbers are
    /// not used again.
    pub state: Option<StateDir>,
    /// Gate at which the run asks whether it may begin. A run waits there for at most
    /// [`RunPlan::begin_timeout`]; a recovered run does not ask again.
    pub gate: Option<StartGate>,
    /// Source of external triggers besides the handle; only with [`TriggerKind::External`].
    pub trigger_input: Option<TriggerInput>,
    /// Traffic class of the supervisor's packets to sources and builders.
    pub control: TrafficClass,
    /// Keys and certificates by which the supervisor and its peers authenticate each other.
    pub security: Security,
    /// Counter of the turns of the supervisor's event loop.
    pub turn_counters: TurnCounters,
}

/// Reason for which a supervisor cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// The plan is contradictory.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A trigger input is configured, but the trigger is not external.
    #[error(
        "a trigger input needs a trigger of kind `external` or `multicast`; change the trigger, or leave the input out"
    )]
    TriggerInput,
    /// An address that cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The address to listen on is not local, or it is taken.
    #[error(
        "cannot listen on {address}: {reason}; give a free address of this host, or stop the program that uses this one"
    )]
    Listen {
        /// The address that cannot be listened on.
        address: String,
        /// The operating system's error.
        reason: io::Error,
    },
    /// The journal cannot be written, or its run cannot go on.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The multicast group cannot be joined.
    #[error(
        "cannot listen to the multicast group {group}: {reason}; check `group` and `interface` of the trigger, and that this interface is up (`ip address`)"
    )]
    Multicast {
        /// Address and port of the group.
        group: SocketAddr,
        /// The operating system's error.
        reason: io::Error,
    },
    /// The operating system refused a timer.
    #[error(
        "the operating system refused the supervisor a timer, a thread or a file: {0}; raise the limits of this process, which `ulimit -a` shows"
    )]
    System(#[from] io::Error),
    /// The embedding program aborted the supervisor, or dropped it before the run was over.
    #[error("the program that embeds the supervisor aborted it; start it again if that was not intended")]
    Aborted,
}

/// A supervisor that listens; [`run`](Self::run) leads its run.
///
/// Dropping the supervisor, or the future of [`run`](Self::run), has the same effect as killing its
/// process.
///
/// ```
/// use evb::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sources, builders) = (vec![SourceId::new(1)], vec![BuilderId::new(1)]);
/// let plan =
///     RunPlan::new(RunNumber::new(1), SupervisorConfig::fresh_epoch(), sources, builders);
/// let supervisor = Supervisor::bind(SupervisorConfig::new("127.0.0.1:0", plan)).await?;
/// let (address, handle) = (supervisor.address().to_string(), supervisor.handle());
/// let run = tokio::spawn(supervisor.run());
/// let builder = BuilderConfig::new(BuilderId::new(1), &address);
/// let _builder = Builder::connect(builder, NullSink).await?;
/// let _source = Source::connect(SourceConfig::new(SourceId::new(1), &address)).await?;
/// handle.request_run_end("the example is over").await?;
/// assert_eq!(run.await??.events.lost, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Supervisor {
    driver: Driver,
    handle: SupervisorHandle,
    ended: watch::Sender<Option<Arc<RunReport>>>,
    turn_counters: TurnCounters,
}

impl SupervisorConfig {
    /// Creates a configuration with seed 1 and no trigger input.
    pub fn new(listen: impl Into<String>, plan: RunPlan) -> Self {
        Self {
            listen: listen.into(),
            plan,
            seed: 1,
            journal: None,
            state: None,
            gate: None,
            trigger_input: None,
            control: TrafficClass::default(),
            security: Security::None,
            turn_counters: TurnCounters::default(),
        }
    }

    /// Returns a new id of a run, from the operating system's random numbers.
    ///
    /// # Errors
    /// The operating system's error, if it has no random numbers.
    pub fn fresh_run_id() -> io::Result<RunId> {
        let mut bytes = [0; 16];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        match RunId::from_bytes(bytes) {
            id if filled == bytes.len() && id.is_known() => Ok(id),
            _ => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    /// Returns an epoch that no earlier start of a supervisor had, provided that the host's clock
    /// is not turned back.
    pub fn fresh_epoch() -> Epoch {
        Epoch::new(clock::wall_clock_micros())
    }
}

impl Supervisor {
    /// Listens, so that peers can register as soon as [`run`](Self::run) is called. The peers' time
    /// limit for registration starts now.
    ///
    /// # Errors
    /// [`SupervisorError`]: the plan is contradictory, or an address cannot be used.
    pub async fn bind(config: SupervisorConfig) -> Result<Self, SupervisorError> {
        let listener = listen(&config.listen).await?;
        Self::on(listener, config).await
    }

    /// Starts a supervisor on a thread of its own, as [`Source`](crate::Source) and
    /// [`Builder`](crate::Builder) have one. Dropping all handles changes nothing: the supervisor
    /// leads the run to its end, or until [`SupervisorHandle::abort`].
    ///
    /// Cancel safety: dropping the future before it is ready ends the supervisor.
    ///
    /// # Errors
    /// The same errors as [`Self::bind`].
    pub async fn start(config: SupervisorConfig) -> Result<SupervisorHandle, SupervisorError> {
        let (bound, has_bound) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        crate::threads::start("supervisor", move || {
            runtime.block_on(async {
                let supervisor = match Self::bind(config).await {
                    Ok(supervisor) => supervisor,
                    Err(error) => return drop(bound.send(Err(error))),
                };
                if bound.send(Ok(supervisor.handle())).is_ok() {
                    // The result is ignored, because the handles receive it through a channel.
                    let _ = supervisor.run().await;
                }
            });
        })?;
        has_bound.await.unwrap_or(Err(SupervisorError::Aborted))
    }

    /// Uses an existing listener, which may serve many runs. `config.listen` is not used.
    pub(crate) async fn on(
        listener: TcpListener,
        mut config: SupervisorConfig,
    ) -> Result<Self, SupervisorError> {
        if config.trigger_input.is_some() && config.plan.trigger != TriggerKind::External {
            return Err(SupervisorError::TriggerInput);
        }
        if config.plan.boot_id.is_empty() {
            config.plan.boot_id = evb_net::host::boot_id();
        }
        if !config.plan.run_id.is_known() {
            config.plan.run_id = SupervisorConfig::fresh_run_id()?;
        }
        config.plan.asks_permission = config.gate.is_some();
        let address = listener.local_addr()?;
        let triggers = match &config.trigger_input {
            Some(input) => Some(TriggerPort::open(input).await?),
            None => None,
        };
        let trigger_address = triggers.as_ref().and_then(TriggerPort::address);
        let (commands, command_queue) = mpsc::channel(COMMANDS);
        let (progress_sender, progress) = watch::channel(Progress::default());
        let peers = config.plan.sources.len() + config.plan.builders.len();
        let mut state = config.state.map(StateKeeper::new).transpose()?;
        let (core, journal) = begin(config.plan, config.seed, config.journal)?;
        state.iter_mut().for_each(|state| state.resume(&core));
        let journal = journal.map(|journal| JournalWriter::new(Box::new(journal))).transpose()?;
        let name = journal.as_ref().map(|journal| journal.path().display().to_string());
        let keeper = name.map(|name| Keeper::new(name, Keeper::COMPACT_AT));
        let driver = Driver::new(
            SupervisorRole::new(core, keeper),
            journal,
            Registrations::new(listener, peers, config.control, config.security),
            triggers,
            Commands::new(command_queue),
            Onlookers::new(progress_sender),
            (state, Asking::new(config.gate)),
        )?;
        let (ended, report) = watch::channel(None);
        let abort = Arc::new(Notify::new());
        let handle = SupervisorHandle { commands, progress, address, trigger_address, report, abort };
        Ok(Self { driver, handle, ended, turn_counters: config.turn_counters })
    }

    /// Returns the address at which the supervisor listens for sources and builders.
    pub fn address(&self) -> SocketAddr {
        self.handle.address()
    }

    /// Returns the address at which the supervisor listens for external triggers, if it has such an
    /// input.
    pub fn trigger_address(&self) -> Option<SocketAddr> {
        self.handle.trigger_address()
    }

    /// Returns the builders that take part, which are those of a recovered run.
    pub(crate) fn builders(&self) -> Vec<BuilderId> {
        self.driver.role.builders()
    }

    /// Returns the excluded sources, which are those of a recovered run, with the reasons.
    pub(crate) fn excluded(&self) -> BTreeMap<SourceId, String> {
        self.driver.role.excluded()
    }

    /// Returns a handle that steers and observes the run.
    pub fn handle(&self) -> SupervisorHandle {
        self.handle.clone()
    }

    /// Leads the run until its ledger is closed, on the task of the caller.
    ///
    /// Cancel safety: dropping the future has the same effect as killing the supervisor's process.
    ///
    /// # Errors
    /// [`SupervisorError::Aborted`]. Failures of the run itself appear in the report.
    pub async fn run(self) -> Result<RunReport, SupervisorError> {
        self.lead().await.map(|(report, _)| report)
    }

    /// Does as [`Self::run`], and also returns the port at which peers register.
    pub(crate) async fn lead(self) -> Result<(RunReport, Registrations), SupervisorError> {
        let Self { driver, handle, ended, turn_counters } = self;
        let aborted = Arc::clone(&handle.abort);
        drop(handle);
        let (report, registrations) = tokio::select! {
            biased;
            led = turn_counters.count("supervisor".to_owned(), closing::lead(driver)) => led,
            () = aborted.notified() => return Err(SupervisorError::Aborted),
        };
        ended.send_replace(Some(Arc::from(report.clone())));
        Ok((*report, registrations))
    }
}

/// Creates the core of a new run, or of the run in the journal if that run is not over.
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
pub(crate) async fn listen(address: &str) -> Result<TcpListener, SupervisorError> {
    let addresses = resolve(address).await?;
    let fault = |reason| SupervisorError::Listen { address: address.to_owned(), reason };
    evb_net::control::listen(&addresses).await.map_err(fault)
}
