//! What `evbd check` prints: the system at a glance and the sums behind admission, for people and as JSON.

mod letters;
mod planned;
mod text;
mod json;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use evb_core::units::{Bytes, parse_duration};

pub use json::json;
pub use text::text;

use crate::{
    admission::{self, ROUND_TRIPS, Sums},
    config::{self, Config, ConfigError, Origin, Problems},
    memory::machine_memory,
};

/// Exit code of a configuration that cannot start.
pub const BAD_CONFIGURATION: u8 = 2;

/// What to check.
#[derive(clap::Args, Debug)]
pub struct CheckArguments {
    /// The configuration.
    config: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The time from a grant to its data, if it was measured (the summary of a run has it as `grant_delay_us`); 20, 60 and 200 µs by
    /// default.
    #[arg(long, value_parser = parse_duration)]
    rtt: Vec<Duration>,
}

/// Runs the command.
pub(crate) fn main(arguments: &CheckArguments) -> ExitCode {
    let loaded = match config::load(&arguments.config) {
        Ok(loaded) => loaded,
        Err(error) => {
            match &error {
                ConfigError::Invalid(problems) if arguments.json => {
                    println!("{:#}", json(None, Some(problems)))
                }
                _ => eprintln!("{error}"),
            }
            return BAD_CONFIGURATION.into();
        }
    };
    let round_trips = if arguments.rtt.is_empty() { &ROUND_TRIPS[..] } else { &arguments.rtt };
    let (sums, problems) = admission::admit(&loaded, machine_memory());
    if arguments.json {
        println!("{:#}", json(Some((&loaded.config, &sums, round_trips)), Some(&problems)));
    } else {
        print!("{}", text(&loaded.config, &sums, round_trips));
        if !problems.is_empty() {
            eprintln!("\n{problems}");
        }
    }
    if problems.are_fatal() {
        return BAD_CONFIGURATION.into();
    }
    if !arguments.json {
        println!("\n{}: admitted", arguments.config.display());
    }
    ExitCode::SUCCESS
}

/// A configuration that may start.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The configuration.
    pub config: Config,
    /// What it asks for.
    pub sums: Sums,
    /// What the user should know; none of it is an error.
    pub warnings: Problems,
    /// Finds a key's line.
    pub origin: Origin,
}

/// Reads a configuration and applies admission control: what every command that takes one does first.
/// `machine_memory` is what this machine has ([`crate::memory::machine_memory`]).
pub fn admit(path: &Path, machine_memory: Option<Bytes>) -> Result<Admitted, ConfigError> {
    let loaded = config::load(path)?;
    let (sums, problems) = admission::admit(&loaded, machine_memory);
    if problems.are_fatal() {
        return Err(problems.into());
    }
    Ok(Admitted { config: loaded.config, sums, warnings: problems, origin: loaded.origin })
}
