//! `evbd check`: admission control, and the roles of this host.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use evb_config::{
    Config, ConfigError, Loaded, Origin, Problems,
    admission::{self, GrantPaths, Machine, planning},
    check::{BAD_CONFIGURATION, head, json, text},
    complain, roles_in_words, say, say_in_line,
};
use evb_core::{id::Peer, units::parse_duration};

use crate::{descriptors, here::Locations, memory::machine_memory};

/// Arguments of `evbd check`.
#[derive(clap::Args, Debug)]
pub struct CheckArguments {
    /// Configuration file.
    config: PathBuf,
    /// Print all sums: also of each port, link and role.
    #[arg(long, conflicts_with = "json")]
    verbose: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Show which roles `evbd run --here` hosts on this host, and the hosts of all other roles.
    /// Check also the files and devices of this host that its roles need.
    #[arg(long)]
    here: bool,
    /// Time from a grant to its data, if known; by default, the check assumes 20, 60 and 200 µs.
    #[arg(long, value_parser = parse_duration, conflicts_with = "path")]
    rtt: Vec<Duration>,
    /// File with a measured grant path: the summary of a run, or the output of `evbd doctor
    /// --json`.
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,
}

/// Runs `evbd check`. The function `needs` returns what the given roles need and this host lacks.
pub fn main(
    arguments: &CheckArguments,
    needs: impl FnOnce(&Config, &Origin, &[Peer]) -> Problems,
) -> ExitCode {
    let loaded = match load(&arguments.config, arguments.json) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let paths = match GrantPaths::of(arguments.path.as_deref(), &arguments.rtt) {
        Ok(paths) => paths,
        Err(error) => return refused(&error),
    };
    let machine = Machine { memory: machine_memory(), descriptors: Some(descriptors::hard_limit()) };
    let (sums, problems) = admission::admit(&loaded, machine);
    let locations = arguments.here.then(|| Locations::of(&loaded.config));
    let problems = match &locations {
        Some(locations) => problems.and(needs(&loaded.config, &loaded.origin, &locations.here())),
        None => problems,
    };
    let nowhere = locations.as_ref().and_then(|locations| not_hosted(locations, &loaded.origin));
    let is_refused = problems.are_fatal() || nowhere.is_some();
    if arguments.json {
        let mut object = json(Some((&loaded.config, &sums, &paths)), Some(&problems));
        if let Some(locations) = &locations {
            object["here"] = locations.json();
        }
        say!("{object:#}");
    } else {
        say!(
            "{}: {}",
            arguments.config.display(),
            if is_refused { "refused, for the errors below" } else { "admitted" }
        );
        let planning = planning(&loaded.config, &sums, &paths);
        say_in_line!("{}", head(&loaded.config, &sums, &planning));
        if arguments.verbose {
            say_in_line!("\n{}", text(&loaded.config, &sums, &planning));
        }
        if let Some(locations) = &locations {
            say_in_line!("\n{}", locations.page());
        }
        if !arguments.verbose {
            say!("\n--verbose shows all sums: of each port, link and role.");
        }
        if !problems.is_empty() {
            complain!("\n{problems}");
        }
    }
    if let Some(reason) = nowhere {
        complain!("\n{reason}");
    }
    for (host, (roles, reason)) in locations.iter().flat_map(Locations::unknown) {
        complain!(
            "warning: {}: the host `{host}` is {reason}; if it is this host, correct the name, DNS or /etc/hosts, or a run may miss these roles; if it is another, nothing needs to be done here",
            roles_in_words(&roles)
        );
    }
    if is_refused { BAD_CONFIGURATION.into() } else { ExitCode::SUCCESS }
}

/// Loads a configuration. Where this fails, prints the problems, as JSON if `as_json` is true, and
/// returns the exit code.
pub(crate) fn load(path: &Path, as_json: bool) -> Result<Loaded, ExitCode> {
    evb_config::load(path).map_err(|error| {
        match &error {
            ConfigError::Invalid(problems) if as_json => say!("{:#}", json(None, Some(problems))),
            _ => complain!("{error}"),
        }
        BAD_CONFIGURATION.into()
    })
}

/// Prints why the command line or the configuration is refused, and returns the exit code.
pub(crate) fn refused(error: &dyn fmt::Display) -> ExitCode {
    complain!("error: {error}");
    BAD_CONFIGURATION.into()
}

/// Returns the reason why `evbd run --here` would not start on this host; `None` if it would.
fn not_hosted(locations: &Locations<'_>, origin: &Origin) -> Option<String> {
    let problems = locations.problems(origin);
    if problems.are_fatal() {
        Some(problems.to_string())
    } else if locations.here().is_empty() {
        Some(format!("error: {}", locations.nobody_here(origin.file())))
    } else {
        None
    }
}
