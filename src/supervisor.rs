//! [`Supervisor`]: takes triggers, assigns events to builders, and closes the run's ledger.

mod door;
mod links;
mod trigger_port;
mod driver;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(test)]
mod tests;

use std::{io, net::SocketAddr};

use evb_core::{id::Epoch, supervisor::SupervisorCore};
use evb_net::{
    class::TrafficClass,
    clock,
    resolve::{ResolveError, resolve},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};

use door::Door;
use driver::{Command, Driver};
use trigger_port::TriggerPort;

pub use evb_core::{
    ledger::RunReport,
    supervisor::{AssignmentPolicy, PlanError, Progress, RunPlan, RunState},
    trigger::TriggerKind,
};
pub use trigger_port::TriggerInput;

/// How many commands of handles may wait.
const COMMANDS: usize = 256;

/// Where a supervisor listens, and what run it leads.
#[derive(Clone, Debug, PartialEq)]
pub struct SupervisorConfig {
    /// Where sources and builders register: `host:port`; port 0 takes a free one.
    pub listen: String,
    /// What the run is to be.
    pub plan: RunPlan,
    /// Fixes random triggers.
    pub seed: u64,
    /// Where external triggers come from, beside the handle; only with [`TriggerKind::External`].
    pub trigger_input: Option<TriggerInput>,
    /// How its packets to sources and builders are marked.
    pub control: TrafficClass,
}

/// Why a supervisor cannot work.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The plan makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A trigger input beside a trigger that is not external.
    #[error("a trigger input needs the trigger kind `external` or `multicast`; leave one of them out")]
    TriggerInput,
    /// An address that cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The address to listen on is not ours, or taken.
    #[error(
        "cannot listen on {address}: {reason}; is another evbd running there, or the address of another host?"
    )]
    Listen {
        /// The address.
        address: String,
        /// The system's words.
        reason: io::Error,
    },
    /// The multicast group cannot be joined.
    #[error(
        "cannot listen to the multicast group {group}: {reason}; check the group, the interface, and that it is up"
    )]
    Multicast {
        /// Group and port.
        group: SocketAddr,
        /// The system's words.
        reason: io::Error,
    },
    /// The system refused a timer.
    #[error("the system refused: {0}")]
    System(#[from] io::Error),
}

/// A supervisor that listens; [`run`](Self::run) leads its run.
#[derive(Debug)]
pub struct Supervisor {
    driver: Driver,
    address: SocketAddr,
    trigger_address: Option<SocketAddr>,
    handle: SupervisorHandle,
}

/// Talks to a running supervisor. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SupervisorHandle {
    commands: mpsc::Sender<Command>,
    progress: watch::Receiver<Progress>,
}

/// The supervisor has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run is over")]
pub struct RunOver;

impl SupervisorConfig {
    /// With seed 1 and no trigger input.
    pub fn new(listen: impl Into<String>, plan: RunPlan) -> Self {
        Self { listen: listen.into(), plan, seed: 1, trigger_input: None, control: TrafficClass::default() }
    }

    /// An epoch that no earlier start of a supervisor had, as long as the host's clock is not turned back.
    pub fn fresh_epoch() -> Epoch {
        Epoch::new(clock::wall_clock_micros())
    }
}

impl Supervisor {
    /// Listens, so that peers can register as soon as it runs. The time for them to come begins now.
    ///
    /// # Errors
    /// [`SupervisorError`]: the plan, or an address.
    pub async fn bind(mut config: SupervisorConfig) -> Result<Self, SupervisorError> {
        if config.trigger_input.is_some() && config.plan.trigger != TriggerKind::External {
            return Err(SupervisorError::TriggerInput);
        }
        if config.plan.boot_id.is_empty() {
            config.plan.boot_id = evb_net::host::boot_id();
        }
        let addresses = resolve(&config.listen).await?;
        let fault = |reason| SupervisorError::Listen { address: config.listen.clone(), reason };
        let listener = TcpListener::bind(&addresses[..]).await.map_err(fault)?;
        let address = listener.local_addr().map_err(fault)?;
        let triggers = match &config.trigger_input {
            Some(input) => Some(TriggerPort::open(input).await?),
            None => None,
        };
        let trigger_address = triggers.as_ref().and_then(TriggerPort::address);
        let (commands, command_queue) = mpsc::channel(COMMANDS);
        let (progress_sender, progress) = watch::channel(Progress::default());
        let roster = (config.plan.sources.clone(), config.plan.builders.clone());
        let core = SupervisorCore::new(config.plan, config.seed, clock::now())?;
        let driver = Driver::new(
            core,
            roster,
            Door::new(listener, config.control),
            triggers,
            command_queue,
            progress_sender,
        )?;
        Ok(Self { driver, address, trigger_address, handle: SupervisorHandle { commands, progress } })
    }

    /// Where it listens for sources and builders.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for external triggers, if it does.
    pub fn trigger_addr(&self) -> Option<SocketAddr> {
        self.trigger_address
    }

    /// For triggers, the end, and a look at it.
    pub fn handle(&self) -> SupervisorHandle {
        self.handle.clone()
    }

    /// Leads the run until its ledger is closed.
    ///
    /// # Errors
    /// None at present: a run that fails has a report that says so.
    pub async fn run(self) -> Result<RunReport, SupervisorError> {
        drop(self.handle);
        Ok(*self.driver.run().await)
    }
}

impl SupervisorHandle {
    /// External triggers: so many events happened now. Counts unless the run is running and its trigger is external.
    ///
    /// # Errors
    /// [`RunOver`].
    pub async fn trigger(&self, count: u64) -> Result<(), RunOver> {
        self.commands.send(Command::Trigger(count)).await.map_err(|_| RunOver)
    }

    /// Ends the run: no more triggers, everything outstanding is settled.
    ///
    /// # Errors
    /// [`RunOver`]: it has ended already.
    pub async fn stop(&self, cause: impl Into<String>) -> Result<(), RunOver> {
        self.commands.send(Command::Stop(cause.into())).await.map_err(|_| RunOver)
    }

    /// How far the run is: a counter snapshot, some times a second.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }
}
