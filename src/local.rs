//! [`LocalSystem`]: an event builder with all its roles in one process.

use std::sync::Arc;

use evb_core::{
    id::{BuilderId, Peer, RunNumber, SourceId},
    ledger::RunReport,
    trigger::TriggerKind,
    units::Bytes,
};
use evb_net::pacing::Transport;

use crate::{
    builder::{Builder, BuilderConfig},
    role::RoleError,
    sink::Sink,
    source::{Readout, Source, SourceConfig},
    supervisor::{RunPlan, Supervisor, SupervisorConfig, SupervisorError, SupervisorHandle},
};

/// The address at which all roles listen: any free port of loopback.
const ANY_PORT: &str = "127.0.0.1:0";

/// Sources, builders and a supervisor in one process, connected over loopback: for tests, examples
/// and notebooks, and for readout on a single computer.
///
/// ```
/// use evb::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let run = LocalSystem::new(2, 1).events(1).start(|_| NullSink).await?;
/// for source in run.sources() {
///     source.push(Fragment::new(EventId::FIRST, Timestamp::new(0), "detector data")).await?;
/// }
/// assert_eq!(run.finished().await?.events.complete, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LocalSystem {
    plan: RunPlan,
    /// Configuration of every source and every builder; only the ids differ.
    source: SourceConfig,
    builder: BuilderConfig,
    /// Expected size of fragments, if known.
    fragment: Option<Bytes>,
}

/// The run of a [`LocalSystem`]. Dropping this handle changes nothing: the run goes on to its end,
/// or to [`Self::abort`].
///
/// ```
/// use evb::{
///     input::{FragmentSize, Generator},
///     prelude::*,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let size = FragmentSize::Fixed(Bytes::kib(1));
/// # let readout = |source| Generator::new(source, size, Bytes::kib(1), 1);
/// let run = LocalSystem::new(2, 1).start_on_demand(readout, |_| NullSink).await?;
/// let mut progress = run.supervisor().progress();
/// progress.wait_for(|now| now.events.complete >= 100).await;
/// run.request_run_end("a hundred events are enough").await;
/// let events = run.finished().await?.events;
/// assert_eq!(events.triggered, events.complete);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LocalRun {
    supervisor: SupervisorHandle,
    sources: Vec<Source>,
    builders: Vec<Builder>,
}

/// Reason for which a [`LocalSystem`] does not start, or for which its run has no ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// The supervisor failed.
    #[error("the supervisor of the local system failed: {0}")]
    Supervisor(#[from] SupervisorError),
    /// A source or builder failed to join.
    #[error("{peer}: {reason}")]
    Role {
        /// The source or builder that failed.
        peer: Peer,
        /// The reason for which the source or builder failed.
        #[source]
        reason: RoleError,
    },
}

impl LocalSystem {
    /// Describes a system with sources 1 to `sources` and builders 1 to `builders`, over TCP, whose
    /// triggers come as fast as possible until the run is stopped.
    pub fn new(sources: u16, builders: u16) -> Self {
        let sources = (1..=sources).map(SourceId::new).collect();
        let builders = (1..=builders).map(BuilderId::new).collect();
        let epoch = SupervisorConfig::fresh_epoch();
        Self {
            plan: RunPlan::new(RunNumber::new(1), epoch, sources, builders),
            source: SourceConfig::new(SourceId::new(1), ""),
            builder: BuilderConfig::new(BuilderId::new(1), ""),
            fragment: None,
        }
    }

    /// Ends the run after `count` events.
    pub fn events(mut self, count: u64) -> Self {
        self.plan.events = Some(count);
        self
    }

    /// Sets the kind of trigger. With [`TriggerKind::External`], [`SupervisorHandle::trigger`]
    /// gives the triggers.
    pub fn trigger(mut self, kind: TriggerKind) -> Self {
        self.plan.trigger = kind;
        self
    }

    /// States the usual size of a fragment. The builders get as many slots as evbd would give them
    /// for events of that size: [`RunPlan::usual_slots`].
    pub fn fragments_of(mut self, size: Bytes) -> Self {
        self.fragment = Some(size);
        self
    }

    /// Sets the transport of the lanes.
    pub fn transport(mut self, transport: Transport) -> Self {
        self.source.transport = transport;
        self.builder.transport = transport;
        self
    }

    /// Changes other settings of the run's plan.
    pub fn with_plan(mut self, change: impl FnOnce(&mut RunPlan)) -> Self {
        change(&mut self.plan);
        self
    }

    /// Changes the configuration of the sources. The [`LocalSystem`] overwrites ids and addresses.
    pub fn with_sources(mut self, change: impl FnOnce(&mut SourceConfig)) -> Self {
        change(&mut self.source);
        self
    }

    /// Changes the configuration of the builders. The [`LocalSystem`] overwrites ids and addresses.
    pub fn with_builders(mut self, change: impl FnOnce(&mut BuilderConfig)) -> Self {
        change(&mut self.builder);
        self
    }

    /// Starts the system; the program pushes the fragments of [`LocalRun::sources`]. `sink` makes
    /// the sink of each builder.
    ///
    /// Cancel safety: dropping the future gives the start up; roles that have joined by then wait
    /// for the other roles and end with an error.
    ///
    /// # Errors
    /// [`LocalError`]: the plan is invalid, or the operating system refuses a thread or a port.
    pub async fn start<S: Sink>(self, sink: impl FnMut(BuilderId) -> S) -> Result<LocalRun, LocalError> {
        self.join(sink, async |config| Source::connect(config).await).await
    }

    /// Starts the system with readout that makes each fragment when a builder asks for it.
    ///
    /// Cancel safety: the same as for [`Self::start`].
    ///
    /// # Errors
    /// The same errors as [`Self::start`].
    pub async fn start_on_demand<S: Sink, R: Readout>(
        self,
        mut readout: impl FnMut(SourceId) -> R,
        sink: impl FnMut(BuilderId) -> S,
    ) -> Result<LocalRun, LocalError> {
        self.join(sink, async |config| {
            let readout = readout(config.id);
            Source::on_demand(config, readout).await
        })
        .await
    }

    /// Starts the supervisor, the builders, and then the sources by `connect`.
    async fn join<S: Sink>(
        self,
        mut sink: impl FnMut(BuilderId) -> S,
        mut connect: impl AsyncFnMut(SourceConfig) -> Result<Source, RoleError>,
    ) -> Result<LocalRun, LocalError> {
        let Self { mut plan, source, builder, fragment } = self;
        if let Some(size) = fragment {
            let event = size * plan.sources.len() as u64;
            plan.slots = RunPlan::usual_slots(event, builder.shaping.budget().unwrap_or(event));
        }
        let supervisor = Supervisor::start(SupervisorConfig::new(ANY_PORT, plan.clone())).await?;
        let address = supervisor.address().to_string();
        let failed = |peer| move |reason| LocalError::Role { peer, reason };
        let mut run = LocalRun { supervisor, sources: Vec::new(), builders: Vec::new() };
        for id in plan.builders {
            let (supervisor, rotation) = (address.clone(), id.number().into());
            let config = BuilderConfig { id, supervisor, rotation, ..builder.clone() };
            run.builders.push(Builder::connect(config, sink(id)).await.map_err(failed(Peer::Builder(id)))?);
        }
        for id in plan.sources {
            let config = SourceConfig { id, supervisor: address.clone(), ..source.clone() };
            run.sources.push(connect(config).await.map_err(failed(Peer::Source(id)))?);
        }
        Ok(run)
    }
}

impl LocalRun {
    /// Returns the sources, in the order of their ids from 1.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Returns the builders, in the order of their ids from 1.
    pub fn builders(&self) -> &[Builder] {
        &self.builders
    }

    /// Returns the handle that steers and observes the run.
    pub fn supervisor(&self) -> &SupervisorHandle {
        &self.supervisor
    }

    /// Ends the run: it takes no more triggers, and every event under way is built or named in the
    /// ledger.
    pub async fn request_run_end(&self, cause: &str) {
        // An error means that the run has ended already.
        let _ = self.supervisor.request_run_end(cause).await;
    }

    /// Waits until the ledger is closed and every sink has closed, and returns the ledger. The
    /// ledger shows the events that a failed source or builder cost.
    ///
    /// Cancel safety: a call that is dropped changes nothing.
    ///
    /// # Errors
    /// [`LocalError::Supervisor`]: the supervisor was aborted.
    pub async fn finished(&self) -> Result<Arc<RunReport>, LocalError> {
        let report = self.supervisor.finished().await;
        for builder in &self.builders {
            let _ = builder.finished().await;
        }
        for source in &self.sources {
            let _ = source.finished().await;
        }
        Ok(report?)
    }

    /// Ends all roles at once, as if the process were killed.
    pub fn abort(&self) {
        self.supervisor.abort();
        self.builders.iter().for_each(Builder::abort);
        self.sources.iter().for_each(Source::abort);
    }
}
