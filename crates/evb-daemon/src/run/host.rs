//! The roles of one run in this process.

use std::{
    future::{Future as _, pending, poll_fn},
    sync::Arc,
    task::Poll,
};

use evb::{
    role::RunOutcome,
    run_control::{Problem, Role},
    supervisor::{Supervisor, SupervisorHandle},
};
use evb_config::{Config, complain};
use evb_core::{
    id::Peer,
    ledger::RunReport,
    supervisor::{FirstReadouts, RunState},
};
use evb_net::host;
use tokio::task::JoinSet;

use super::{
    RunError,
    build::{self, Shared},
    progress, roles,
    signals::Signals,
};
use crate::{
    hooks::{Hooks, Look},
    service::Service,
};

/// Runs a whole system in this process, without progress display or signals, and returns the closed
/// ledger.
pub fn here(config: Config) -> Result<RunReport, RunError> {
    let config = Arc::new(config);
    let hosted = roles::all(&config);
    let shared = Shared::default().prove(&config, &hosted)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut host = Host::start(Arc::clone(&config), &hosted, shared).await?;
        host.join_all().await?;
        host.outcome().await
    })?;
    match ended {
        Ended::Closed(report) => Ok(*report),
        Ended::Part(_) => Err(RunError::Supervisor(
            "the run ended without a report, which is a fault of evb: report it; `evbd verify` says what its event files hold".to_owned(),
        )),
    }
}

/// Raises the priority of the current thread, which is the supervisor's.
fn take_precedence() {
    match host::take_precedence() {
        Ok(how) => tracing::debug!(?how, "the supervisor has precedence over other programs"),
        Err(error) => {
            tracing::info!(%error, "the supervisor has no precedence over other programs, so it may be slow while this host is busy: {error}; the run goes on, and if other programs load this host, allow the user of evbd real-time priority 1 (`LimitRTPRIO=1` in its service), or nice {}", host::PRECEDENCE);
        }
    }
}

/// The results that a process has at the end of its run.
pub(super) enum Ended {
    /// The closed ledger, in the process that hosted the supervisor.
    Closed(Box<RunReport>),
    /// The counters of the process's roles, in a process without the supervisor.
    Part(Vec<(Peer, RunOutcome)>),
}

impl Ended {
    /// Returns true if no role of this process took part in a run that had begun.
    pub(super) fn never_began(&self) -> bool {
        match self {
            Self::Closed(_) => false,
            Self::Part(parts) => parts.iter().all(|(_, outcome)| outcome.report.is_none()),
        }
    }
}

/// The roles of one run that this process hosts.
pub(super) struct Host {
    supervisor: Option<(SupervisorHandle, tokio::task::JoinHandle<Result<RunReport, RunError>>)>,
    peers: JoinSet<Result<Role, RunError>>,
    joined: Vec<Role>,
    /// True once the end of the run was asked for.
    is_stopping: bool,
    /// Configuration, with the names of the roles and the number of events of the run, if any.
    config: Arc<Config>,
}

impl Host {
    /// Starts the supervisor, if this process hosts it, and lets all other roles join the run.
    pub(super) async fn start(
        config: Arc<Config>,
        hosted: &[Peer],
        shared: Shared,
    ) -> Result<Self, RunError> {
        let mut supervisor = None;
        if hosted.contains(&Peer::Supervisor) {
            let fault = |error: &dyn std::fmt::Display| RunError::Supervisor(error.to_string());
            let mut supervisor_config = build::supervisor(&config, &shared, hosted, None)?;
            supervisor_config.plan.first_readouts = FirstReadouts::Await;
            let bound = Supervisor::bind(supervisor_config).await.map_err(|error| fault(&error))?;
            // Other roles of the process would inherit the priority, so only a process with nothing
            // but the supervisor takes precedence.
            if *hosted == [Peer::Supervisor] && build::is_urgent(&config) {
                take_precedence();
            }
            let handle = bound.handle();
            let run =
                async move { bound.run().await.map_err(|error| RunError::Supervisor(error.to_string())) };
            supervisor = Some((handle, tokio::spawn(run)));
        }
        let mut peers = JoinSet::new();
        for peer in hosted.iter().copied().filter(|peer| *peer != Peer::Supervisor) {
            let (config, shared) = (Arc::clone(&config), shared.clone());
            peers.spawn(async move { build::join(&config, &shared, peer).await });
        }
        Ok(Self { supervisor, peers, joined: Vec::new(), is_stopping: false, config })
    }

    /// Waits for the end of the run; a signal asks for the end.
    pub(super) async fn finish(
        &mut self,
        quiet: bool,
        service: &Service,
        hooks: &Hooks,
    ) -> Result<Ended, RunError> {
        let mut signals = Signals::new()?;
        let watched = self.supervisor.as_ref().map(|(handle, _)| handle.clone());
        let watched = watched.map(|handle| tokio::spawn(watch(handle, hooks.clone())));
        let display = self.supervisor.as_ref().filter(|_| !quiet).map(|(handle, _)| handle.clone());
        let display = display.map(|handle| tokio::spawn(progress::show(handle, self.config.run.events)));
        // A signal asks the roles to stop, and the loop waits for their end once more.
        let ended = loop {
            let end = async {
                self.join_all().await?;
                service.ready();
                self.outcome().await
            };
            tokio::select! {
                ended = end => break ended,
                () = signals.next() => {}
            }
            service.stopping();
            if !self.stop("interrupted by a signal").await {
                complain!("interrupted before this process had joined a run: it ends, and no event is lost");
                break Ok(Ended::Part(Vec::new()));
            }
        };
        if let Some(watched) = watched {
            watched.abort();
        }
        if let Some(display) = display {
            display.abort();
            // The error only says that the task was aborted.
            let _ = display.await;
        }
        ended
    }

    /// Returns a function that describes the run's progress in a line.
    pub(super) fn look(&self) -> impl Fn() -> String + use<> {
        let progress = self.supervisor.as_ref().map(|(handle, _)| handle.progress());
        move || match &progress {
            Some(progress) => progress::line(&progress.latest()),
            None => "taking part in a run, whose progress the supervisor's process shows".to_owned(),
        }
    }

    /// Waits until all roles have joined, or the run is over: then the others cannot join any more.
    pub(super) async fn join_all(&mut self) -> Result<(), RunError> {
        let Self { supervisor, peers, joined, is_stopping, config } = self;
        loop {
            let over = async {
                match supervisor {
                    // The end and its error are those of the task, for which `outcome` waits.
                    Some((handle, _)) => drop(handle.finished().await),
                    // A run that goes on may need the roles that have not joined yet.
                    None if *is_stopping => drop(finished(config, joined).await),
                    None => pending().await,
                }
            };
            let next = tokio::select! {
                next = peers.join_next() => next,
                () = over => None,
            };
            let Some(role) = next else { return Ok(()) };
            match role? {
                Ok(role) => joined.push(role),
                Err(error) if *is_stopping => {
                    tracing::info!(%error, "the run ended before a role of this process had joined it, so nothing needs to be done now; only if that role does not join the next run either, act on this: {error}");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the end of the run. If a role fails during the run, the others go on.
    pub(super) async fn outcome(&mut self) -> Result<Ended, RunError> {
        let Some((handle, run)) = &mut self.supervisor else {
            let (parts, failures) = finished(&self.config, &self.joined).await;
            return failures.into_iter().next().map_or(Ok(Ended::Part(parts)), Err);
        };
        let progress = handle.progress();
        let has_begun = || progress.latest().state != RunState::Configured;
        let (_, failures) = tokio::select! {
            error = fails_before(has_begun, &self.config, &self.joined) => return Err(error),
            ended = finished(&self.config, &self.joined) => ended,
        };
        let mut report = run.await??;
        if !failures.is_empty() {
            report.exit_code = report.exit_code.max(1);
            report.problems.extend(failures.iter().map(ToString::to_string));
        }
        Ok(Ended::Closed(Box::new(report)))
    }

    /// Asks for the end of the run. Returns false if no role of this process has joined a run.
    pub(super) async fn stop(&mut self, cause: &str) -> bool {
        self.is_stopping = true;
        match &self.supervisor {
            // An error means that the run is over already.
            Some((handle, _)) => drop(handle.request_run_end(cause).await),
            None if self.joined.is_empty() => return false,
            // One request is enough during a run; before the run, each role must ask.
            None => self.joined.iter().for_each(|role| role.stop(cause)),
        }
        true
    }
}

/// Tells the hook `problem` of the problems of a run.
async fn watch(handle: SupervisorHandle, hooks: Hooks) {
    let look = || async {
        let survey = handle.survey().await.ok()?;
        Some(Look { run: survey.run, run_id: survey.run_id, problems: Problem::of(&survey) })
    };
    hooks.watch(look).await;
}

/// Waits until all roles have finished, and returns their outcomes and their errors.
async fn finished(config: &Config, roles: &[Role]) -> (Vec<(Peer, RunOutcome)>, Vec<RunError>) {
    let (mut parts, mut failures) = (Vec::new(), Vec::new());
    for role in roles {
        let peer = role.peer();
        match role.finished().await {
            Ok(outcome) => parts.push((peer, outcome)),
            Err(error) => failures.push(RunError::Role { named: build::named(config, peer), error }),
        }
    }
    (parts, failures)
}

/// Waits until a role fails before the run `has_begun`; in this case, the other roles would wait
/// for the failed role forever.
async fn fails_before(has_begun: impl Fn() -> bool, config: &Config, roles: &[Role]) -> RunError {
    let mut ends: Vec<_> = roles.iter().map(|role| (role.peer(), Box::pin(role.finished()))).collect();
    poll_fn(|cx| {
        let mut failed = None;
        ends.retain_mut(|(peer, end)| match end.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(Err(error)) if failed.is_none() && !has_begun() => {
                failed = Some(RunError::Role { named: build::named(config, *peer), error });
                false
            }
            Poll::Ready(_) => false,
        });
        failed.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
