//! The command line.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::{
    admission, check,
    config::{self, ConfigError},
    memory::machine_memory,
};

/// Exit code of a configuration that cannot start.
const BAD_CONFIGURATION: u8 = 2;

#[derive(Parser)]
#[command(
    name = "evbd",
    version,
    about = "The event builder: all fragments of one event on one machine, none dropped"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read a configuration, apply admission control and show the sums behind it.
    Check {
        /// The configuration.
        config: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check { config, json } => check(&config, json),
    }
}

fn check(path: &std::path::Path, json: bool) -> ExitCode {
    let loaded = match config::load(path) {
        Ok(loaded) => loaded,
        Err(error) => {
            match &error {
                ConfigError::Invalid(problems) if json => println!("{:#}", check::json(None, Some(problems))),
                _ => eprintln!("{error}"),
            }
            return BAD_CONFIGURATION.into();
        }
    };
    let (sums, problems) = admission::admit(&loaded, machine_memory());
    if json {
        println!("{:#}", check::json(Some((&loaded.config, &sums)), Some(&problems)));
    } else {
        print!("{}", check::text(&loaded.config, &sums));
        if !problems.is_empty() {
            eprintln!("\n{problems}");
        }
    }
    if problems.are_fatal() {
        return BAD_CONFIGURATION.into();
    }
    if !json {
        println!("\n{}: admitted", path.display());
    }
    ExitCode::SUCCESS
}
