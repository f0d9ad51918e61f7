//! A run that is open to peers, from its first registration until its supervisor and roles have
//! ended.

use std::{
    future::pending,
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use evb_core::{id::Peer, ledger::RunReport, run_control::leader::RunEvent, supervisor::Progress};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use super::{Joining, Role, SystemError};
use crate::{
    role::{RoleError, RunOutcome},
    supervisor::{
        Registrations, RunPlan, Supervisor, SupervisorConfig, SupervisorError, SupervisorHandle, refuse_late,
    },
    watch::Watch,
};

pub(super) struct OpenRun {
    pub(super) handle: SupervisorHandle,
    /// Address at which the run's supervisor listens.
    pub(super) address: SocketAddr,
    /// The plan, with the builders and the excluded sources of a recovered run.
    pub(super) plan: RunPlan,
    progress: Watch<Progress>,
    /// Task of the supervisor; `None` when the task has ended.
    supervisor: Option<Leading>,
    report: Option<RunReport>,
    joining: JoinSet<Result<Role, SystemError>>,
    roles: JoinSet<(Peer, Result<RunOutcome, Arc<RoleError>>)>,
    /// Task that refuses connections after the supervisor's end.
    late: JoinSet<()>,
}

/// The task of a supervisor. Its result is the report, and the port for connections that come after
/// its end.
type Leading = JoinHandle<Result<(RunReport, Registrations), SupervisorError>>;

impl OpenRun {
    /// Opens a run at a duplicate of the given listener.
    pub(super) async fn open(
        listener: &TcpListener,
        config: SupervisorConfig,
        join: impl FnOnce(SocketAddr, &RunPlan) -> Vec<Joining>,
    ) -> Result<Self, SupervisorError> {
        let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
        let mut plan = config.plan.clone();
        let supervisor = Supervisor::on(listener, config).await?;
        plan.builders = supervisor.builders();
        plan.excluded = supervisor.excluded();
        let (handle, address) = (supervisor.handle(), supervisor.address());
        let mut joining = JoinSet::new();
        for role in join(address, &plan) {
            joining.spawn(role);
        }
        Ok(Self {
            progress: handle.progress(),
            handle,
            address,
            plan,
            supervisor: Some(tokio::spawn(supervisor.lead())),
            report: None,
            joining,
            roles: JoinSet::new(),
            late: JoinSet::new(),
        })
    }

    /// Adds a role that is joining.
    pub(super) fn join(&mut self, role: Joining) {
        self.joining.spawn(role);
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.latest()
    }

    pub(super) fn is_hosting(&self) -> bool {
        self.joining.is_empty()
    }

    /// Returns the next event of the run. Cancel safe: no event is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> RunEvent {
        loop {
            if self.supervisor.is_none() && self.joining.is_empty() && self.roles.is_empty() {
                if let Some(report) = self.report.take() {
                    return RunEvent::Over(Arc::new(report));
                }
                return pending().await;
            }
            tokio::select! {
                ended = ended(&mut self.supervisor) => {
                    self.supervisor = None;
                    match ended {
                        Ok((report, registrations)) => {
                            // The run has ended, so roles that are still joining are given up.
                            self.joining.abort_all();
                            self.report = Some(report);
                            self.late.spawn(refuse_late(registrations));
                        }
                        Err(reason) => return RunEvent::Broken(reason),
                    }
                }
                Some(joined) = self.joining.join_next() => match joined {
                    Ok(Ok(role)) => {
                        let peer = role.peer();
                        self.roles.spawn(async move { (peer, role.finished().await) });
                        return RunEvent::Joined { peer, is_hosting: self.is_hosting() };
                    }
                    Ok(Err(error)) => return RunEvent::NotJoined(error),
                    Err(error) if error.is_cancelled() && self.report.is_some() => {}
                    Err(error) => return RunEvent::Broken(crashed(&error)),
                },
                Some(finished) = self.roles.join_next() => match finished {
                    Ok((peer, Ok(_))) => return RunEvent::RoleLeft(peer),
                    Ok((peer, Err(error))) => return RunEvent::RoleEnded(peer, error.to_string()),
                    Err(error) => return RunEvent::Broken(crashed(&error)),
                },
                Some(progress) = self.progress.next(), if self.supervisor.is_some() => {
                    return RunEvent::Progress(progress);
                }
            }
        }
    }

    /// Waits for the end of the run and ignores all other events; roles that have not joined yet
    /// are aborted.
    pub(super) async fn over(mut self) {
        self.joining.shutdown().await;
        loop {
            match self.next().await {
                RunEvent::Over(_) | RunEvent::Broken(_) => return,
                _ => {}
            }
        }
    }
}

/// Returns the words for a task that crashed.
fn crashed(error: &JoinError) -> String {
    format!("a task of this process crashed, which is a fault of evb: {error}; report this with the log")
}

/// Waits for the end of the supervisor's run; for ever if this process has no supervisor.
async fn ended(supervisor: &mut Option<Leading>) -> Result<(RunReport, Registrations), String> {
    match supervisor {
        Some(run) => match run.await {
            Ok(Ok(led)) => Ok(led),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(crashed(&error)),
        },
        None => pending().await,
    }
}
