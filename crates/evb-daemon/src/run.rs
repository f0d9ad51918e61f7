//! `evbd run`: hosts roles until the run is over.

mod alone;
mod build;
mod unprotected;
mod needs;
mod progress;
mod roles;
mod signals;
mod host;
mod summary;
mod system;
mod controlled;
mod member;

use std::{
    fmt,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use evb::role::RoleError;
use evb_config::{
    Config, ControlConfig, Origin, Plain, Problems, Severity, admission,
    check::{self, Admitted, BAD_CONFIGURATION},
    is_loopback,
};
use evb_core::id::Peer;
use evb_host::{descriptors, here::host_name, memory::machine_memory};
use tokio::task::{JoinError, JoinSet};

pub use host::here;
pub(crate) use needs::of_host as needs_of_host;
pub use roles::RoleArgument;

use build::Shared;
use host::{Ended, Host};
use roles::Hosting;
use summary::{Detail, Publisher};

use crate::service::Service;

/// Arguments of `evbd run`.
#[derive(clap::Args, Debug)]
pub struct RunArguments {
    /// Configuration file.
    config: PathBuf,
    /// Host only this role: `supervisor`, `source:3` or `builder:1`. The option may be repeated;
    /// without this option, all roles are hosted.
    #[arg(long = "role")]
    roles: Vec<RoleArgument>,
    /// Host the roles whose addresses belong to this host: `listen` of the supervisor and of
    /// builders, `bind` or `host` of sources. The same command then serves every machine.
    #[arg(long, conflicts_with = "roles")]
    here: bool,
    /// Write the summary as JSON to this file; `{run}` in the file name stands for the run number,
    /// `{host}` for the name of this host.
    #[arg(long)]
    summary: Option<PathBuf>,
    /// Print neither progress nor the results at the end.
    #[arg(long)]
    quiet: bool,
    /// Print all results at the end: also latencies, network and hosts.
    #[arg(long, conflicts_with = "quiet")]
    verbose: bool,
    /// Stay after the run and take commands (`evbd ctl`), as with section `[control]` in the
    /// configuration. Processes without the supervisor join run after run.
    #[arg(long)]
    control: bool,
}

impl RunArguments {
    /// Returns how much of the results is printed.
    fn detail(&self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Nothing,
            (_, true) => Detail::All,
            _ => Detail::Usual,
        }
    }

    /// Returns the choice of roles that the process hosts.
    fn hosting(&self) -> Hosting {
        match (self.here, self.roles.as_slice()) {
            (true, _) => Hosting::Here,
            (false, []) => Hosting::All,
            (false, roles) => Hosting::Named(roles.to_vec()),
        }
    }
}

/// The reason why a run could not take place or be finished.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The operator must change something; no role was started.
    #[error("{0}")]
    Operator(String),
    /// The operator must change a key of the configuration, or this host; no role was started.
    #[error("{key}: {reason}; {remedy}")]
    Unmet {
        /// Path of the key.
        key: &'static str,
        /// Description of what is wrong.
        reason: String,
        /// Advice for the operator.
        remedy: String,
    },
    /// The operator must change the configuration, because files that roles need are missing or the
    /// hosts of roles are unclear; no role was started.
    #[error(transparent)]
    Refused(Problems),
    /// A role failed.
    #[error("{named}: {error}")]
    Role {
        /// Role that failed, with its name.
        named: String,
        /// Error of the role.
        error: Arc<RoleError>,
    },
    /// The supervisor failed.
    #[error("supervisor: {0}")]
    Supervisor(String),
    /// The task of a role crashed, which is a defect of evb.
    #[error(
        "a task of this process crashed, which is a fault of evb: {0}; start this process again, and report this with its log"
    )]
    Crashed(#[from] JoinError),
    /// An input could not be opened.
    #[error("{named}: {reason}")]
    Input {
        /// Source of the input, with its name.
        named: String,
        /// Description of the error.
        reason: String,
    },
    /// Another process hosts the system of a configuration whose addresses are on loopback.
    #[error(
        "every address in {} is on loopback, so its system belongs to one host and one process, and another process runs it already, \
         here or on a host that shares the file; end that one first, or, for a system of several hosts, write their network addresses",
        path.display()
    )]
    Taken {
        /// Path of the configuration.
        path: PathBuf,
    },
    /// The run is over and accounted for, but its summary could not be written.
    #[error("the summary of the run, whose events are not affected, could not be written to {}: {reason}; give this user the right to write there, or make room there, before the next run", path.display())]
    Summary {
        /// Path of the summary.
        path: PathBuf,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// The operating system refused a call.
    #[error(
        "this process ends, because the operating system refused it a thread, a timer or an open file: {0}; raise its limits, which `ulimit -a` shows, and start it again"
    )]
    System(#[from] io::Error),
}

impl RunError {
    /// Returns the reason in one line, for a message that names the role itself.
    fn in_short(&self) -> String {
        match self {
            Self::Role { error, .. } => error.to_string(),
            Self::Input { reason, .. } => reason.clone(),
            Self::Unmet { key, reason, remedy } => format!("{key}: {reason}; {remedy}"),
            Self::Refused(problems) => {
                let fatal = problems.iter().filter(|problem| problem.severity == Severity::Error);
                fatal
                    .map(|problem| format!("{}; {}", problem.reason, problem.remedy))
                    .collect::<Vec<_>>()
                    .join("; ")
            }
            other => other.to_string(),
        }
    }
}

/// Runs `evbd run`.
pub fn main(arguments: &RunArguments) -> ExitCode {
    let admitted = match check::admit(&arguments.config, machine_memory()) {
        Ok(admitted) => admitted,
        Err(error) => {
            say(&error);
            return BAD_CONFIGURATION.into();
        }
    };
    if !admitted.warnings.is_empty() {
        say(&admitted.warnings);
    }
    match run(arguments, admitted) {
        Ok(code) => code.into(),
        Err(RunError::Refused(problems)) => {
            say(&problems);
            BAD_CONFIGURATION.into()
        }
        Err(error) => {
            say(&format_args!("error: {error}"));
            match error {
                RunError::Operator(_) | RunError::Unmet { .. } => BAD_CONFIGURATION.into(),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Prints to standard error. If standard error is closed or its disk is full, the run goes on.
fn say(what: &dyn fmt::Display) {
    let _ = writeln!(Plain(io::stderr().lock()), "{what}");
}

/// Tells the user that a system on loopback is confined to this host, and prevents a second process
/// from hosting it.
fn on_loopback(arguments: &RunArguments, config: &Config) -> Result<Option<alone::Claim>, RunError> {
    // Builders and sources are on loopback too, because the check of the configuration refuses a
    // mixture.
    if !arguments.here || !is_loopback(&config.supervisor.listen.host) {
        return Ok(None);
    }
    let claim = alone::claim(&arguments.config)?;
    let name = host_name();
    let words = format!(
        "every address in {} is on loopback: the whole system is on this host, {name}, in this process; nothing needs to be done, unless it is to have several hosts: then write their network addresses",
        arguments.config.display()
    );
    tracing::info!(host = name, "{words}");
    if !arguments.quiet {
        say(&words);
    }
    Ok(Some(claim))
}

/// Raises the limit of file descriptors, and refuses roles that need more than the hard limit.
fn enough_descriptors(config: &Config, origin: &Origin, hosted: &[Peer]) -> Result<(), RunError> {
    let limit = descriptors::raise().unwrap_or_else(|error| {
        tracing::warn!(
            %error,
            "this process cannot raise its limit of {} open files: {error}; if it starts, nothing needs to be done, and if not, raise the limit with `ulimit -n`, or LimitNOFILE= of its service",
            descriptors::soft_limit()
        );
        descriptors::soft_limit()
    });
    let problems = admission::too_few_descriptors(config, origin, hosted, limit);
    if problems.are_fatal() { Err(RunError::Refused(problems)) } else { Ok(()) }
}

/// Runs the roles that the arguments ask of this host, in a runtime of their own.
fn run(arguments: &RunArguments, admitted: Admitted) -> Result<u8, RunError> {
    let mut config = admitted.config;
    if arguments.control {
        config.control.get_or_insert_with(ControlConfig::usual);
    }
    let config = Arc::new(config);
    let hosted = roles::hosted(&arguments.hosting(), &config, &admitted.origin)?;
    let _claim = on_loopback(arguments, &config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(host_roles(arguments, config, admitted.origin, hosted));
    // A file that does not open, or a name that is not resolved, must not hold the process back.
    runtime.shutdown_background();
    ended
}

/// Finds out whether the roles can be hosted here.
fn prepare(
    arguments: &RunArguments,
    config: &Config,
    origin: &Origin,
    hosted: &[Peer],
) -> Result<(Publisher, Shared), RunError> {
    enough_descriptors(config, origin, hosted)?;
    let missing = needs::missing(config, origin, hosted);
    if missing.are_fatal() {
        return Err(RunError::Refused(missing));
    }
    unprotected::warnings(config).iter().for_each(|warning| tracing::warn!("{warning}"));
    let mut publisher = Publisher::new(arguments.summary.clone(), arguments.detail())?;
    publisher.note_files(config, hosted);
    let shared = Shared { text: origin.text(), ..Shared::default() };
    // Where this process leads run after run, each `configure` proves it.
    let leads = config.control.is_some() && hosted.contains(&Peer::Supervisor);
    Ok((publisher, if leads { shared } else { shared.prove(config, hosted)? }))
}

/// Prepares the roles, hosts them in the way that the configuration asks, and ends what they share.
async fn host_roles(
    arguments: &RunArguments,
    config: Arc<Config>,
    origin: Origin,
    hosted: Vec<Peer>,
) -> Result<u8, RunError> {
    let (publisher, shared) = match prepare(arguments, &config, &origin, &hosted) {
        Ok(prepared) => prepared,
        Err(error) => {
            decline_all(&config, &hosted, &error.in_short()).await;
            return Err(error);
        }
    };
    let (inputs, hooks, taps) = (shared.inputs.clone(), shared.hooks.clone(), shared.taps.clone());
    let filters = shared.filters.clone();
    let ended = match config.control.clone() {
        Some(control) if hosted.contains(&Peer::Supervisor) => {
            controlled::run(arguments, (config, origin), &control, shared, publisher).await
        }
        Some(_) => member::run(arguments, config, hosted, shared, publisher).await,
        None => host_run(arguments, config, hosted, shared, publisher).await,
    };
    tokio::join!(inputs.end(signals::another()), hooks.end(signals::another()));
    taps.end();
    filters.end();
    ended
}

/// Hosts the roles of one run.
async fn host_run(
    arguments: &RunArguments,
    config: Arc<Config>,
    hosted: Vec<Peer>,
    shared: Shared,
    publisher: Publisher,
) -> Result<u8, RunError> {
    if let Some(choice) = shared.executor.as_ref().filter(|_| !arguments.quiet) {
        say(&format_args!(
            "the sources of this process keep the configured rates, with offload `{}`: {}; nothing needs to be done, and `evbd doctor` shows how exact that is, and the other choices",
            choice.executor.offload(),
            choice.reason
        ));
    }
    let service = Service::from_environment(shared.turn_counters.clone());
    let hooks = shared.hooks.clone();
    let mut host = Host::start(config, &hosted, shared).await?;
    let look = host.look();
    let ended = tokio::select! {
        ended = host.finish(arguments.quiet, &service, &hooks) => ended?,
        () = service.attend(|| std::future::ready(look())) => return Ok(0),
    };
    if let Ended::Closed(report) = &ended {
        hooks.tell_end(report);
    }
    publisher.publish_end(&ended)
}

/// Tells the supervisor, if it is another process, why no role of this process takes part.
async fn decline_all(config: &Arc<Config>, hosted: &[Peer], reason: &str) {
    if hosted.contains(&Peer::Supervisor) {
        return;
    }
    let Ok(security) = build::security(config) else { return };
    let mut declining = JoinSet::new();
    for peer in hosted.iter().copied() {
        let (config, security, reason) = (Arc::clone(config), security.clone(), reason.to_owned());
        declining.spawn(async move { build::decline(&config, &security, peer, reason).await });
    }
    declining.join_all().await;
}
