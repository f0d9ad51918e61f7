//! `evbd run`: hosts roles until the run is over.

mod build;
mod progress;
mod roles;
mod summary;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use evb::{
    builder::Builder,
    role::{RoleError, RunOutcome},
    source::Source,
    supervisor::{Supervisor, SupervisorHandle},
};
use evb_core::{id::Peer, ledger::RunReport};
use evb_net::pacing::Choice;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};

pub(crate) use build::{lane_frames, shaping};
pub use roles::RoleArgument;

use crate::{
    check::{self, Admitted, BAD_CONFIGURATION},
    config::Config,
    memory::machine_memory,
};

/// What the command line says.
#[derive(clap::Args, Debug)]
pub struct RunArguments {
    /// The configuration.
    config: PathBuf,
    /// Host only this role: `supervisor`, `source:3` or `builder:1`. May be given several times; all roles by default.
    #[arg(long = "role")]
    roles: Vec<RoleArgument>,
    /// Write the summary as JSON to this file.
    #[arg(long)]
    summary: Option<PathBuf>,
    /// No progress on the terminal, and no table at the end.
    #[arg(long)]
    quiet: bool,
}

/// Why a run could not take place or be finished.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The operator's: nothing was started.
    #[error("error: {0}")]
    Operator(String),
    /// A role could not go on.
    #[error("{peer}: {error}")]
    Role {
        /// Which role.
        peer: Peer,
        /// Why.
        error: Arc<RoleError>,
    },
    /// The supervisor could not go on.
    #[error("supervisor: {0}")]
    Supervisor(String),
    /// An input could not be opened.
    #[error("source {id}: {reason}")]
    Input {
        /// Whose.
        id: evb_core::id::SourceId,
        /// Why.
        reason: String,
    },
    /// The system refused something.
    #[error("the system refused: {0}")]
    System(#[from] std::io::Error),
}

/// Runs the command.
pub fn main(arguments: &RunArguments) -> ExitCode {
    let admitted = match check::admit(&arguments.config, machine_memory()) {
        Ok(admitted) => admitted,
        Err(error) => {
            eprintln!("{error}");
            return BAD_CONFIGURATION.into();
        }
    };
    if !admitted.warnings.is_empty() {
        eprintln!("{}", admitted.warnings);
    }
    match run(arguments, admitted) {
        Ok(code) => code.into(),
        Err(error @ RunError::Operator(_)) => {
            eprintln!("{error}");
            BAD_CONFIGURATION.into()
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &RunArguments, admitted: Admitted) -> Result<u8, RunError> {
    let config = Arc::new(admitted.config);
    let hosted = roles::hosted(&arguments.roles, &config)?;
    let number = build::run_number(&config, &hosted)?;
    let executor = build::executor(&config, &hosted)?;
    if let Some(choice) = executor.as_ref().filter(|_| !arguments.quiet) {
        eprintln!("departures are kept by {}: {}", choice.executor.offload(), choice.reason);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut host = Host::start(Arc::clone(&config), &hosted, number, executor).await?;
        let ended = host.finish(arguments.quiet).await?;
        summary::publish(&ended, arguments.summary.as_deref(), arguments.quiet)
    })
}

/// Runs a whole system in this process, without progress or signals, and returns its closed ledger.
pub(crate) fn here(config: Config) -> Result<RunReport, RunError> {
    let config = Arc::new(config);
    let hosted = roles::hosted(&[], &config)?;
    let number = build::run_number(&config, &hosted)?;
    let executor = build::executor(&config, &hosted)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut host = Host::start(Arc::clone(&config), &hosted, number, executor).await?;
        host.join_all().await?;
        host.outcome().await
    })?;
    match ended {
        Ended::Closed(report) => Ok(*report),
        Ended::Part(_) => Err(RunError::Supervisor("it was not hosted".to_owned())),
    }
}

/// What this process knows when its run is over.
enum Ended {
    /// It hosted the supervisor: the closed ledger.
    Closed(Box<RunReport>),
    /// It hosted others: the counters of its roles.
    Part(Vec<(Peer, RunOutcome)>),
}

/// The roles of this process.
struct Host {
    supervisor: Option<(SupervisorHandle, tokio::task::JoinHandle<Result<RunReport, RunError>>)>,
    peers: JoinSet<Result<(Peer, Joined), RunError>>,
    joined: Vec<(Peer, Joined)>,
    /// How many events the run is to have, if that is said.
    events: Option<u64>,
}

/// A role that takes part.
#[derive(Clone)]
enum Joined {
    Source(Source),
    Builder(Builder),
}

impl Joined {
    fn stop(&self, cause: &str) {
        match self {
            Self::Source(source) => source.stop(cause),
            Self::Builder(builder) => builder.stop(cause),
        }
    }

    async fn finished(&self) -> Result<RunOutcome, Arc<RoleError>> {
        match self {
            Self::Source(source) => source.finished().await,
            Self::Builder(builder) => builder.finished().await,
        }
    }
}

impl Host {
    async fn start(
        config: Arc<Config>,
        hosted: &[Peer],
        number: Option<evb_core::id::RunNumber>,
        executor: Option<Choice>,
    ) -> Result<Self, RunError> {
        let executor = executor.map(Arc::new);
        let mut supervisor = None;
        if hosted.contains(&Peer::Supervisor) {
            let fault = |error: &dyn std::fmt::Display| RunError::Supervisor(error.to_string());
            let bound =
                Supervisor::bind(build::supervisor(&config, number)).await.map_err(|error| fault(&error))?;
            let handle = bound.handle();
            let run =
                async move { bound.run().await.map_err(|error| RunError::Supervisor(error.to_string())) };
            supervisor = Some((handle, tokio::spawn(run)));
        }
        let mut peers = JoinSet::new();
        for peer in hosted.iter().copied().filter(|peer| *peer != Peer::Supervisor) {
            let (config, executor) = (Arc::clone(&config), executor.clone());
            peers.spawn(async move { Ok((peer, build::join(&config, executor.as_deref(), peer).await?)) });
        }
        Ok(Self { supervisor, peers, joined: Vec::new(), events: config.run.events })
    }

    /// Waits for the end of the run, through signals.
    async fn finish(&mut self, quiet: bool) -> Result<Ended, RunError> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let display = self.supervisor.as_ref().filter(|_| !quiet).map(|(handle, _)| handle.clone());
        let display = display.map(|handle| tokio::spawn(progress::show(handle, self.events)));
        let mut signals = 0;
        let ended = loop {
            let end = async {
                self.join_all().await?;
                self.outcome().await
            };
            tokio::select! {
                ended = end => break ended,
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            signals += 1;
            if signals > 1 {
                eprintln!("interrupted again: leaving at once; the ledger stays open");
                std::process::exit(130);
            }
            eprintln!("stopping: no more triggers, then what is under way is built (again to leave at once)");
            self.stop("interrupted by a signal").await;
        };
        if let Some(display) = display {
            display.abort();
            // Aborted on purpose.
            let _ = display.await;
        }
        ended
    }

    async fn join_all(&mut self) -> Result<(), RunError> {
        while let Some(joined) = self.peers.join_next().await {
            let joined = joined.map_err(|error| RunError::Supervisor(error.to_string()))?;
            self.joined.push(joined?);
        }
        Ok(())
    }

    async fn outcome(&mut self) -> Result<Ended, RunError> {
        let mut parts = Vec::new();
        for (peer, joined) in &self.joined {
            let peer = *peer;
            let outcome = joined.finished().await.map_err(|error| RunError::Role { peer, error })?;
            parts.push((peer, outcome));
        }
        match &mut self.supervisor {
            Some((_, run)) => {
                let report = run.await.map_err(|error| RunError::Supervisor(error.to_string()))??;
                Ok(Ended::Closed(Box::new(report)))
            }
            None => Ok(Ended::Part(parts)),
        }
    }

    async fn stop(&self, cause: &str) {
        match (&self.supervisor, self.joined.first()) {
            // Over already is as good.
            (Some((handle, _)), _) => drop(handle.stop(cause).await),
            (None, Some((_, joined))) => joined.stop(cause),
            // Nothing has joined a run yet.
            (None, None) => std::process::exit(130),
        }
    }
}
