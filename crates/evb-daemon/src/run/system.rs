//! A system described by a configuration file, for run control.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use evb_config::{Config, Origin, check};
use evb_host::memory::machine_memory;

use super::{
    RunError,
    build::{self, Shared},
    roles::{self, Hosting},
    summary::Publisher,
};
use evb::{
    run_control::{Joining, System, SystemError},
    supervisor::{RunPlan, SupervisorConfig},
};
use evb_core::{
    id::{BuilderId, Peer, RunNumber},
    ledger::RunReport,
    quantities::split_remedy,
    supervisor::FirstReadouts,
};

/// The system that a configuration file describes. Every `configure` reads the file again.
pub(super) struct FromFile {
    path: PathBuf,
    hosting: Hosting,
    /// Configuration in force; the first configuration was read before any role started.
    config: Arc<Config>,
    /// Origin of the first configuration, until that configuration is in force.
    fresh: Option<Origin>,
    hosted: Vec<Peer>,
    shared: Shared,
    last: Option<RunNumber>,
    publisher: Publisher,
}

impl FromFile {
    pub(super) fn new(
        path: PathBuf,
        hosting: Hosting,
        (config, origin): (Arc<Config>, Origin),
        shared: Shared,
        publisher: Publisher,
    ) -> Self {
        Self { path, hosting, config, fresh: Some(origin), hosted: Vec::new(), shared, last: None, publisher }
    }

    /// Returns the configuration of the next run: the one of the start for the first run, then the
    /// file as it is now.
    fn read(&mut self) -> Result<(Arc<Config>, Origin), SystemError> {
        if let Some(origin) = self.fresh.take() {
            return Ok((Arc::clone(&self.config), origin));
        }
        let admitted = check::admit(&self.path, machine_memory());
        let admitted = admitted.map_err(|error| refused(&error, "correct the file, then configure again"))?;
        if !admitted.warnings.is_empty() {
            tracing::warn!(
                "the configuration {} has warnings, and is used all the same; each says what to do:\n{}",
                self.path.display(),
                admitted.warnings
            );
        }
        Ok((Arc::new(admitted.config), admitted.origin))
    }

    /// Returns the future of a source or builder of this process that joins a run.
    fn joining(&self, peer: Peer) -> Joining {
        let (config, shared) = (Arc::clone(&self.config), self.shared.clone());
        Box::pin(async move {
            let joined = build::join(&config, &shared, peer).await;
            joined.map_err(|error| {
                let named = build::named(&config, peer);
                let text = error.in_short();
                let (reason, remedy) = split_remedy(&text);
                SystemError::new(named, reason, remedy.unwrap_or("correct that before the next run"))
            })
        })
    }
}

/// Name of the configuration in refusals, as the party that refused.
pub(super) const THE_CONFIGURATION: &str = "the configuration";

fn refused(error: &dyn std::fmt::Display, remedy: &str) -> SystemError {
    SystemError::new(THE_CONFIGURATION, error.to_string(), remedy)
}

/// Returns the refusal of a configuration whose roles this host cannot host.
fn unmet(error: RunError, file: &Path) -> SystemError {
    match error {
        RunError::Unmet { key, reason, remedy } => {
            SystemError::new(THE_CONFIGURATION, format!("{key}: {reason}"), remedy + ", then configure again")
        }
        other => refused(&other, &format!("correct {} or this host, then configure again", file.display())),
    }
}

impl System for FromFile {
    /// Reads the file, and checks that this process can host its roles.
    fn configure(&mut self) -> Result<(), SystemError> {
        let (config, origin) = self.read()?;
        let fault = |error: RunError| unmet(error, &self.path);
        let hosted = roles::hosted(&self.hosting, &config, &origin).map_err(fault)?;
        let shared = Shared { is_controlled: true, text: origin.text(), ..self.shared.clone() };
        let shared = shared.prove(&config, &hosted).map_err(fault)?;
        if let Some(choice) = &shared.executor {
            let (by, reason) = (choice.executor.offload(), &choice.reason);
            tracing::info!(%by, reason, "the sources of this process keep the configured rates, with offload `{by}`: {reason}; nothing needs to be done, and `evbd doctor` shows how exact that is, and the other choices");
        }
        self.publisher.note_files(&config, &hosted);
        (self.config, self.hosted, self.shared) = (config, hosted, shared);
        Ok(())
    }

    /// Returns the supervisor's configuration for the next run.
    fn plan(&mut self) -> Result<SupervisorConfig, SystemError> {
        let mut supervisor = build::supervisor(&self.config, &self.shared, &self.hosted, self.last)
            .map_err(|error| unmet(error, &self.path))?;
        if self.config.control.as_ref().is_some_and(|control| control.require_readout) {
            supervisor.plan.first_readouts = FirstReadouts::Refuse;
        }
        Ok(supervisor)
    }

    /// Joins the roles of this process that have a part in the run.
    fn join(&mut self, _supervisor: SocketAddr, plan: &RunPlan) -> Vec<Joining> {
        let takes_part = |peer: &Peer| match peer {
            Peer::Supervisor => false,
            Peer::Source(id) => plan.sources.contains(id),
            Peer::Builder(id) => plan.builders.contains(id),
        };
        self.hosted.iter().copied().filter(takes_part).map(|peer| self.joining(peer)).collect()
    }

    /// Succeeds if the file has this builder.
    fn admit_builder(&mut self, id: BuilderId) -> Result<(), SystemError> {
        // The file may have been changed since `configure`, and processes of builders read it
        // again.
        let admitted = check::admit(&self.path, machine_memory());
        let admitted = admitted.map_err(|error| refused(&error, "correct the file, then add the builder"))?;
        if admitted.config.builders.iter().any(|entry| entry.id == id) {
            return Ok(());
        }
        let reason = format!("{} has no builder {id}", self.path.display());
        let remedy = format!(
            "add a `[[builder]]` with `id = {id}` to the file on every host, then repeat `evbd ctl add-builder {id}`"
        );
        Err(SystemError::new(THE_CONFIGURATION, reason, remedy))
    }

    fn join_builder(&mut self, _supervisor: SocketAddr, id: BuilderId) -> Option<Joining> {
        let builder = Peer::Builder(id);
        self.hosted.contains(&builder).then(|| self.joining(builder))
    }

    fn ended(&mut self, report: &RunReport) {
        self.last = Some(RunNumber::new(report.run));
        self.shared.hooks.tell_end(report);
        if let Err(error) = self.publisher.publish(report) {
            tracing::warn!(%error, "{error}");
        }
    }
}
