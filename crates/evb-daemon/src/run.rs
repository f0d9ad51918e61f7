//! `evbd run`: hosts roles until the run is over.

mod build;
mod doors;
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
use evb_core::id::Peer;

pub(crate) use build::lane_frames;
pub(crate) use host::here;
pub use roles::RoleArgument;

use build::Shared;
use host::Host;
use summary::Publisher;

use crate::{
    check::{self, Admitted, BAD_CONFIGURATION},
    config::{ControlConfig, Problems},
    memory::machine_memory,
    service::Service,
};

/// What the command line says.
#[derive(clap::Args, Debug)]
pub struct RunArguments {
    /// The configuration.
    config: PathBuf,
    /// Host only this role: `supervisor`, `source:3` or `builder:1`. May be given several times; all roles by default.
    #[arg(long = "role")]
    roles: Vec<RoleArgument>,
    /// Write the summary as JSON to this file; `{run}` in its name stands for the run number.
    #[arg(long)]
    summary: Option<PathBuf>,
    /// No progress on the terminal, and no table at the end.
    #[arg(long)]
    quiet: bool,
    /// Stay after the run and take commands (`evbd ctl`), as with a section `[control]` in the configuration. Processes without
    /// the supervisor join run after run.
    #[arg(long)]
    control: bool,
}

/// Why a run could not take place or be finished.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The operator's: nothing was started.
    #[error("error: {0}")]
    Operator(String),
    /// The operator's: nothing was started, for files that roles need are not there.
    #[error(transparent)]
    Needs(Problems),
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
    /// The run is over and accounted for, and its summary is in no file.
    #[error("the summary could not be written to {}: {reason}; what the run built is not touched by that", path.display())]
    Summary {
        /// Where it should be.
        path: PathBuf,
        /// Why it is not.
        reason: io::Error,
    },
    /// The system refused something.
    #[error("the system refused: {0}")]
    System(#[from] io::Error),
}

/// Runs the command.
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
        Err(error @ (RunError::Operator(_) | RunError::Needs(_))) => {
            say(&error);
            BAD_CONFIGURATION.into()
        }
        Err(error) => {
            say(&format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Says something on standard error. Where that is closed or full, the run does not end for it.
fn say(what: &dyn fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{what}");
}

fn run(arguments: &RunArguments, admitted: Admitted) -> Result<u8, RunError> {
    let mut config = admitted.config;
    if arguments.control {
        config.control.get_or_insert_with(ControlConfig::usual);
    }
    let config = Arc::new(config);
    let hosted = roles::hosted(&arguments.roles, &config)?;
    // Run control takes what passes by itself for that, such as a disk that is not mounted yet, and the key as the operator's to mend.
    let needed = if config.control.is_some() { &[][..] } else { &hosted[..] };
    let missing = needs::missing(&config, &admitted.origin, needed);
    if missing.are_fatal() {
        return Err(RunError::Needs(missing));
    }
    doors::open_doors(&config).iter().for_each(|door| tracing::warn!("{door}"));
    let publisher = Publisher::new(arguments.summary.clone(), arguments.quiet)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &config.control {
        Some(control) if hosted.contains(&Peer::Supervisor) => {
            let control = control.clone();
            return runtime.block_on(controlled::run(arguments, config, &control, publisher));
        }
        Some(_) => return runtime.block_on(member::run(arguments, config, publisher)),
        None => {}
    }
    let number = build::run_number(&config, &hosted)?;
    let shared = Shared { executor: build::executor(&config, &hosted)?.map(Arc::new), ..Shared::default() };
    if let Some(choice) = shared.executor.as_ref().filter(|_| !arguments.quiet) {
        say(&format_args!("departures are kept by {}: {}", choice.executor.offload(), choice.reason));
    }
    runtime.block_on(async {
        let service = Service::from_environment(shared.beats.clone());
        let mut host = Host::start(config, &hosted, number, shared).await?;
        let look = host.look();
        let ended = tokio::select! {
            ended = host.finish(arguments.quiet, &service) => ended?,
            () = service.attend(|| std::future::ready(look())) => return Ok(0),
        };
        publisher.publish_end(&ended)
    })
}
