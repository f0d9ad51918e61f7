//! [`RunControl`]: leads run after run in one process, by the table of [`evb_core::run_control`].
//!
//! A [`System`] provides the plan of each run and starts the sources and builders that live in this
//! process, if any; sources and builders of other processes register by themselves, again for each
//! run. [`RunControl`] is the handle for programs; `evbd` offers the same functions over HTTP.

mod history;
mod problems;
mod status;
mod open_run;
mod leader;
#[cfg(test)]
mod tests;

use std::{future::Future, net::SocketAddr, pin::Pin, sync::Arc};

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    ledger::RunReport,
    run_control::leader::Request,
    supervisor::OwingRequest,
    units::Frequency,
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    builder::Builder,
    role::{RoleError, RunOutcome},
    source::Source,
    supervisor::{RunPlan, SupervisorConfig},
    watch::Watch,
};
use leader::{Ask, Driver};

pub use crate::supervisor::LastRun;
pub use evb_core::ledger::Annotation;
pub use evb_core::run_control::{Command, Refusal, State, SystemError};
pub use history::{CauseFraction, Sample};
pub use problems::{Problem, Severity};
pub use status::{LiveRates, Status, Totals};

/// Number of requests that may wait for the leader.
const ASKS: usize = 64;

/// The future of a source or builder of this process that is joining a run.
///
/// ```
/// use evb::{
///     prelude::*,
///     run_control::{Joining, Role, SystemError},
/// };
///
/// /// Starts a builder of this process.
/// fn join_builder(supervisor: String, id: BuilderId) -> Joining {
///     Box::pin(async move {
///         let builder = Builder::connect(BuilderConfig::new(id, supervisor), NullSink).await;
///         builder.map(|builder| Role::Builder(id, builder)).map_err(|error| {
///             SystemError::new(format!("builder {id}"), error.to_string(), "read its log")
///         })
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The port is missing in this address.
/// let error = join_builder("daq0".to_owned(), BuilderId::new(1)).await.err();
/// assert_eq!(error.map(|error| error.refused_by).as_deref(), Some("builder 1"));
/// # Ok(())
/// # }
/// ```
pub type Joining = Pin<Box<dyn Future<Output = Result<Role, SystemError>> + Send>>;

/// A source or builder that takes part in a run.
#[derive(Clone, Debug)]
pub enum Role {
    /// A source.
    Source(SourceId, Source),
    /// A builder.
    Builder(BuilderId, Builder),
}

impl Role {
    /// Returns the source or builder as a [`Peer`].
    pub fn peer(&self) -> Peer {
        match self {
            Self::Source(id, _) => Peer::Source(*id),
            Self::Builder(id, _) => Peer::Builder(*id),
        }
    }

    /// Asks the supervisor to end the run.
    pub fn stop(&self, cause: &str) {
        match self {
            Self::Source(_, source) => source.request_run_end(cause),
            Self::Builder(_, builder) => builder.request_run_end(cause),
        }
    }

    /// Waits until the run of this role is over.
    ///
    /// # Errors
    /// The reason for which the role could not go on.
    pub async fn finished(&self) -> Result<RunOutcome, Arc<RoleError>> {
        match self {
            Self::Source(_, source) => source.finished().await,
            Self::Builder(_, builder) => builder.finished().await,
        }
    }
}

/// The system whose runs the leader controls; the embedding program implements this trait.
///
/// ```
/// use evb::{
///     prelude::*,
///     run_control::{System, SystemError},
/// };
///
/// /// A source and a builder, which run in processes of their own.
/// struct Laboratory {
///     next_run: u32,
/// }
///
/// impl System for Laboratory {
///     fn configure(&mut self) -> Result<(), SystemError> {
///         Ok(())
///     }
///
///     fn plan(&mut self) -> Result<SupervisorConfig, SystemError> {
///         let (run, epoch) = (RunNumber::new(self.next_run), SupervisorConfig::fresh_epoch());
///         self.next_run += 1;
///         let plan =
///             RunPlan::new(run, epoch, vec![SourceId::new(1)], vec![BuilderId::new(1)]);
///         Ok(SupervisorConfig::new("0.0.0.0:7000", plan))
///     }
/// }
///
/// let mut laboratory = Laboratory { next_run: 42 };
/// assert_eq!(laboratory.plan()?.plan.run, RunNumber::new(42));
/// # Ok::<(), evb::run_control::SystemError>(())
/// ```
pub trait System: Send + 'static {
    /// Makes or reads the configuration, when `configure` is called. If this fails, run control
    /// keeps its state.
    ///
    /// # Errors
    /// The reason for which there is no configuration.
    fn configure(&mut self) -> Result<(), SystemError>;

    /// Returns the plan of the next run, with a number that no earlier run had. The leader calls
    /// this method when it opens a run to peers.
    ///
    /// # Errors
    /// The reason for which there can be no plan.
    fn plan(&mut self) -> Result<SupervisorConfig, SystemError>;

    /// Starts the sources and builders of the plan that live in this process. The supervisor
    /// already listens when the leader calls this.
    fn join(&mut self, _supervisor: SocketAddr, _plan: &RunPlan) -> Vec<Joining> {
        Vec::new()
    }

    /// Checks that a builder may be added to the current run: by default, any builder may.
    ///
    /// # Errors
    /// The reason for which this builder cannot take part.
    fn admit_builder(&mut self, _id: BuilderId) -> Result<(), SystemError> {
        Ok(())
    }

    /// Starts a builder that was added to the current run, if the builder lives in this process.
    fn join_builder(&mut self, _supervisor: SocketAddr, _id: BuilderId) -> Option<Joining> {
        None
    }

    /// Tells the system that a run is over and its ledger is closed.
    fn ended(&mut self, _report: &RunReport) {}
}

/// A handle to the leader, which controls the runs of this process. The handle is cheap to clone
/// and usable from any thread and runtime.
///
/// Leads one run of a [`System`] that sets the number of events:
///
/// ```
/// use evb::run_control::{RunControl, State};
/// # use evb::{
/// #     input::{FragmentSize, Generator},
/// #     prelude::*,
/// #     role::RoleError,
/// #     run_control::{Joining, Role, System, SystemError},
/// # };
/// #
/// # struct Laboratory;
/// #
/// # impl System for Laboratory {
/// #     fn configure(&mut self) -> Result<(), SystemError> {
/// #         Ok(())
/// #     }
/// #
/// #     fn plan(&mut self) -> Result<SupervisorConfig, SystemError> {
/// #         let (run, epoch) = (RunNumber::new(42), SupervisorConfig::fresh_epoch());
/// #         let plan = RunPlan::new(run, epoch, vec![SourceId::new(1)], vec![BuilderId::new(1)]);
/// #         Ok(SupervisorConfig::new("127.0.0.1:0", RunPlan { events: Some(1000), ..plan }))
/// #     }
/// #
/// #     fn join(&mut self, address: std::net::SocketAddr, _plan: &RunPlan) -> Vec<Joining> {
/// #         let failed = |error: RoleError| SystemError::new("a role", error.to_string(), "");
/// #         let (source, builder) = (SourceId::new(1), BuilderId::new(1));
/// #         let of_builder = BuilderConfig::new(builder, address.to_string());
/// #         let of_source = SourceConfig::new(source, address.to_string());
/// #         let size = FragmentSize::Fixed(Bytes::kib(1));
/// #         let readout = Generator::new(source, size, of_source.max_fragment, 1);
/// #         vec![
/// #             Box::pin(async move {
/// #                 let joined = Builder::connect(of_builder, NullSink).await;
/// #                 Ok(Role::Builder(builder, joined.map_err(failed)?))
/// #             }),
/// #             Box::pin(async move {
/// #                 let joined = Source::on_demand(of_source, readout).await;
/// #                 Ok(Role::Source(source, joined.map_err(failed)?))
/// #             }),
/// #         ]
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let control = RunControl::new(Laboratory, false);
/// control.configure().await?;
/// assert_eq!(control.start().await?, State::Running);
/// let report = control.settled().await.ok_or("no run has ended")?;
/// assert_eq!((report.run, report.events.complete), (42, 1000));
/// control.close("the shift is over").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RunControl {
    asks: mpsc::Sender<Ask>,
    shown: watch::Receiver<Shown>,
}

/// The part of the status that changes rarely, for tasks that wait for a change.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// State of the system of sources, builders and supervisor.
    pub state: State,
    /// True if the local sources and builders have joined and the supervisor listens.
    pub is_hosting: bool,
    /// Ledger of the last run.
    pub last_run: Option<Arc<RunReport>>,
    /// Text of the last error.
    pub last_error: Option<String>,
}

impl RunControl {
    /// Starts a leader, in state [`State::Unconfigured`], on a task of the current runtime. With
    /// `autostart`, the first run after each [`configure`](Self::configure) begins as soon as all
    /// peers are ready.
    pub fn new(system: impl System, autostart: bool) -> Self {
        let (asks, asked) = mpsc::channel(ASKS);
        let (show, shown) = watch::channel(Shown::default());
        tokio::spawn(Driver::new(system, autostart, asked, show).lead());
        Self { asks, shown }
    }

    /// Makes the configuration effective and opens the next run to sources and builders.
    ///
    /// # Errors
    /// [`Refusal`]: the command is not allowed in this state, the configuration is wrong, or an
    /// address cannot be used.
    pub async fn configure(&self) -> Result<State, Refusal> {
        self.command(Command::Configure).await
    }

    /// Starts the run as soon as every source and builder is ready; waits some seconds for missing
    /// ones.
    ///
    /// # Errors
    /// [`Refusal`]: the command is not allowed in this state, or peers are missing.
    pub async fn start(&self) -> Result<State, Refusal> {
        self.command(Command::Start).await
    }

    /// Starts a run with an annotation, which appears in the status and in the run's report.
    ///
    /// # Errors
    /// [`Refusal`]: the command is not allowed in this state, peers are missing, or the annotation
    /// is too long.
    pub async fn start_with(&self, annotation: Annotation) -> Result<State, Refusal> {
        self.request("start", Request::Start(annotation)).await
    }

    /// Pauses the run: the run takes no triggers until it is resumed.
    ///
    /// # Errors
    /// [`Refusal`]: the command is not allowed in this state.
    pub async fn pause(&self) -> Result<State, Refusal> {
        self.command(Command::Pause).await
    }

    /// Resumes a paused run: the run takes triggers again.
    ///
    /// # Errors
    /// [`Refusal`]: the command is not allowed in this state.
    pub async fn resume(&self) -> Result<State, Refusal> {
        self.command(Command::Resume).await
    }

    /// Ends the run: the run takes no more triggers, and every event under way is settled. Returns
    /// when the end has begun; [`Self::settled`] waits until the end is complete.
    ///
    /// # Errors
    /// [`Refusal`]: the command is not allowed in this state.
    pub async fn stop(&self) -> Result<State, Refusal> {
        self.command(Command::Stop).await
    }

    /// Discards the configuration; also allowed after a failure.
    ///
    /// # Errors
    /// [`Refusal`]: the command is not allowed in this state.
    pub async fn reset(&self) -> Result<State, Refusal> {
        self.command(Command::Reset).await
    }

    /// Carries out a command of run control.
    ///
    /// # Errors
    /// [`Refusal`], with its origin, its reason, and advice.
    pub async fn command(&self, command: Command) -> Result<State, Refusal> {
        self.request(command.name(), Request::Command(command)).await
    }

    /// Sets the trigger rate of this run and of the runs that follow.
    ///
    /// # Errors
    /// [`Refusal`]: the command is not allowed in this state, or the trigger has no rate.
    pub async fn set_rate(&self, rate: Frequency) -> Result<(), Refusal> {
        self.request("rate", Request::Rate(rate)).await.map(drop)
    }

    /// Adds a builder to this run and to the runs that follow. The builder has to register by
    /// itself.
    ///
    /// # Errors
    /// [`Refusal`]: the command is not allowed in this state, or the builder takes part already.
    pub async fn add_builder(&self, id: BuilderId) -> Result<(), Refusal> {
        self.request("add-builder", Request::Add(id)).await.map(drop)
    }

    /// Removes a builder: the builder gets no more events, and leaves when its events are settled.
    ///
    /// # Errors
    /// [`Refusal`]: the command is not allowed in this state, or the builder does not take part.
    pub async fn remove_builder(&self, id: BuilderId) -> Result<(), Refusal> {
        self.request("remove-builder", Request::Remove(id)).await.map(drop)
    }

    /// Takes the present timestamps of a source as the right ones, after its clock was changed on
    /// purpose. The report of the run mentions it.
    ///
    /// # Errors
    /// [`Refusal`]: no run is under way, or the timestamps of this source are not compared.
    pub async fn learn(&self, id: SourceId) -> Result<(), Refusal> {
        self.request("learn", Request::Learn(id)).await.map(drop)
    }

    /// Excludes a source from this run and from the runs that follow, or includes it again. Events
    /// are complete without an excluded source.
    ///
    /// # Errors
    /// [`Refusal`]: no run is open, the run has no such source or it is excluded already, no other
    /// source would owe fragments, or the first event is decided already.
    pub async fn change_owing(&self, request: OwingRequest) -> Result<(), Refusal> {
        let name = if request.excludes { "exclude" } else { "include" };
        self.request(name, Request::Owe(request)).await.map(drop)
    }

    /// Returns the complete status of the system and its run.
    ///
    /// # Errors
    /// [`Refusal`]: the leader has ended.
    pub async fn status(&self) -> Result<Status, Refusal> {
        self.ask("status", Ask::Status).await
    }

    /// Returns the samples of the last hour, one per second, that follow the sample number `after`.
    ///
    /// # Errors
    /// [`Refusal`]: the leader has ended.
    pub async fn history(&self, after: u64) -> Result<Vec<Sample>, Refusal> {
        self.ask("history", |answer| Ask::History(after, answer)).await
    }

    /// Ends a run that is under way, and then the leader.
    ///
    /// # Errors
    /// [`Refusal`]: the leader has ended already.
    pub async fn close(&self, cause: &str) -> Result<(), Refusal> {
        self.request("close", Request::Close(cause.to_owned())).await.map(drop)
    }

    /// Returns a watch of the state, and of the last run's results.
    pub fn watch(&self) -> Watch<Shown> {
        Watch::new(self.shown.clone())
    }

    /// Waits until no run is under way, and returns the ledger of the last run, if there was one.
    pub async fn settled(&self) -> Option<Arc<RunReport>> {
        let mut shown = self.shown.clone();
        let over =
            |shown: &Shown| matches!(shown.state, State::Unconfigured | State::Configured | State::Failed);
        match shown.wait_for(over).await {
            Ok(shown) => shown.last_run.clone(),
            // The receiver fails only when the leader has ended, so no run is under way.
            Err(_) => self.shown.borrow().last_run.clone(),
        }
    }

    async fn request(&self, name: &str, request: Request) -> Result<State, Refusal> {
        self.ask(name, |answer| Ask::Request(request, answer)).await?
    }

    /// Sends a question to the leader, and waits for the answer.
    async fn ask<T>(&self, request: &str, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, Refusal> {
        let (answer, answered) = oneshot::channel();
        let gone = || Refusal {
            request: request.to_owned(),
            refused_by: "the evbd process".to_owned(),
            reason: "it is ending".to_owned(),
            remedy: "wait until it has ended, then start evbd again".to_owned(),
        };
        self.asks.send(ask(answer)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}
