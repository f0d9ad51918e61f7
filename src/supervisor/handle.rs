//! [`SupervisorHandle`]: steers and observes a run.

use std::{net::SocketAddr, sync::Arc};

use evb_core::{
    id::{BuilderId, SourceId},
    ledger::{Annotation, RunReport},
    supervisor::{BeginError, ChangeError, Progress, RunChange, RunOver, Survey},
    units::Frequency,
};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::{SupervisorError, commands::HandleCommand};
use crate::watch::Watch;

/// A handle to a running supervisor. The handle is cheap to clone, and usable from any thread and
/// runtime. Dropping a handle changes nothing.
///
/// Cancel safety: a call that is dropped before it is ready may have been carried out.
#[derive(Clone, Debug)]
pub struct SupervisorHandle {
    pub(super) commands: mpsc::Sender<HandleCommand>,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) address: SocketAddr,
    pub(super) trigger_address: Option<SocketAddr>,
    pub(super) report: watch::Receiver<Option<Arc<RunReport>>>,
    pub(super) abort: Arc<Notify>,
}

/// Reason for which a run was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SteeringError {
    /// The supervisor refused the change.
    #[error(transparent)]
    Refused(#[from] ChangeError),
    /// The supervisor has ended.
    #[error(transparent)]
    Over(#[from] RunOver),
}

impl SupervisorHandle {
    /// Reports `count` external triggers that happened now. The triggers are ignored unless the run
    /// takes triggers and its trigger kind is external.
    ///
    /// # Errors
    /// [`RunOver`]: the run is over.
    pub async fn trigger(&self, count: u64) -> Result<(), RunOver> {
        self.commands.send(HandleCommand::Trigger(count)).await.map_err(|_| RunOver)
    }

    /// Ends the run: the run takes no more triggers, and all outstanding events are settled.
    /// Returns when the request is sent; [`Self::finished`] waits for the end.
    ///
    /// # Errors
    /// [`RunOver`]: the run has ended already.
    pub async fn request_run_end(&self, cause: impl Into<String>) -> Result<(), RunOver> {
        self.commands.send(HandleCommand::Stop(cause.into())).await.map_err(|_| RunOver)
    }

    /// Lets a run begin whose plan holds it back ([`RunPlan::hold`](super::RunPlan::hold)). Returns
    /// when every peer has prepared for the first event, and the run takes triggers.
    ///
    /// # Errors
    /// [`BeginError`]: peers are missing or cannot take part, or the run is over.
    pub async fn begin(&self, annotation: Annotation) -> Result<(), BeginError> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(HandleCommand::Begin(annotation, answer)).await.map_err(|_| RunOver)?;
        Ok(answered.await.map_err(|_| RunOver)??)
    }

    /// Pauses the run. During the pause, external triggers are inhibited, and the run's own trigger
    /// is stopped.
    ///
    /// # Errors
    /// [`SteeringError`]: the run is not running, paused already, or over.
    pub async fn pause(&self) -> Result<(), SteeringError> {
        self.change(RunChange::Pause).await
    }

    /// Resumes a paused run: the run takes triggers again.
    ///
    /// # Errors
    /// [`SteeringError`]: the run is not paused, or it is over.
    pub async fn resume(&self) -> Result<(), SteeringError> {
        self.change(RunChange::Resume).await
    }

    /// Sets the mean rate of the run's own trigger.
    ///
    /// # Errors
    /// [`SteeringError`]: the run's trigger has no rate, or the run is over.
    pub async fn set_rate(&self, rate: Frequency) -> Result<(), SteeringError> {
        self.change(RunChange::SetRate(rate)).await
    }

    /// Adds a builder to the run, which may be running already.
    ///
    /// # Errors
    /// [`SteeringError`]: the builder takes part already, there are too many builders, or the run
    /// is over.
    pub async fn add_builder(&self, id: BuilderId) -> Result<(), SteeringError> {
        self.change(RunChange::AddBuilder(id)).await
    }

    /// Removes a builder: the builder gets no more events, and leaves when its events are settled.
    ///
    /// # Errors
    /// [`SteeringError`]: no builder of that number takes part, it is the last builder, or the run
    /// is over.
    pub async fn remove_builder(&self, id: BuilderId) -> Result<(), SteeringError> {
        self.change(RunChange::RemoveBuilder(id)).await
    }

    /// Takes the present timestamps of a source as the right ones, after its clock was changed on
    /// purpose.
    ///
    /// # Errors
    /// [`SteeringError`]: the timestamps of this source are not compared, the run takes no
    /// triggers, or it is over.
    pub async fn learn(&self, id: SourceId) -> Result<(), SteeringError> {
        self.change(RunChange::Learn(id)).await
    }

    pub(crate) async fn change(&self, change: RunChange) -> Result<(), SteeringError> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(HandleCommand::Change(change, answer)).await.map_err(|_| RunOver)?;
        Ok(answered.await.map_err(|_| RunOver)??)
    }

    /// Returns the state of every source and builder.
    ///
    /// # Errors
    /// [`RunOver`]: the run is over.
    pub async fn survey(&self) -> Result<Survey, RunOver> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(HandleCommand::Survey(answer)).await.map_err(|_| RunOver)?;
        answered.await.map_err(|_| RunOver)
    }

    /// Returns a watch of the run's progress: a snapshot of its counters, updated some times a
    /// second.
    pub fn progress(&self) -> Watch<Progress> {
        Watch::new(self.progress.clone())
    }

    /// Returns the address at which the supervisor listens for sources and builders.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address at which the supervisor listens for external triggers, if it has such an
    /// input.
    pub fn trigger_address(&self) -> Option<SocketAddr> {
        self.trigger_address
    }

    /// Waits until the ledger is closed, and returns the run's report with the ledger.
    ///
    /// Cancel safety: a call that is dropped changes nothing, and any number of calls may wait.
    ///
    /// # Errors
    /// [`SupervisorError::Aborted`]: the supervisor was aborted.
    pub async fn finished(&self) -> Result<Arc<RunReport>, SupervisorError> {
        let mut report = self.report.clone();
        let closed = report.wait_for(Option::is_some).await.map_err(|_| SupervisorError::Aborted)?;
        closed.clone().ok_or(SupervisorError::Aborted)
    }

    /// Ends the supervisor at once, as if its process were killed: the run's ledger is not closed.
    /// With a journal, another supervisor can go on with the run.
    pub fn abort(&self) {
        self.abort.notify_one();
    }
}
