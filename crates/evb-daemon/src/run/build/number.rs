//! The number of the next run, as far as the supervisor's process knows it before builders have
//! registered, and the directory in which the supervisor keeps earlier runs.

use std::{
    env,
    path::{Path, PathBuf},
};

use evb::supervisor::{StateDir, unfinished_run};
use evb_config::{Config, SinkEntry};
use evb_core::{
    id::{Peer, RunNumber},
    quantities::split_remedy,
};

use crate::run::RunError;

/// Run number if none is configured or known.
const FIRST_RUN: RunNumber = RunNumber::new(1);

/// Name of the state directory, if the configuration names none.
const STATE: &str = "evb-state";

/// A run number, and whether the run must have it.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Numbered {
    pub(in crate::run) run: RunNumber,
    pub(in crate::run) is_fixed: bool,
}

/// Returns the number that the next run has at least. A configured number is that of the run;
/// under run control it is only the least one. `last` is the number of the last run of this
/// process.
pub(in crate::run) fn next_number(
    config: &Config,
    state: Option<&StateDir>,
    last: Option<RunNumber>,
) -> Result<Numbered, RunError> {
    if let Some(path) = &config.supervisor.journal
        && let Some(run) = unfinished_run(path).map_err(|error| unusable(&error))?
    {
        return Ok(Numbered { run, is_fixed: true });
    }
    let unreadable = |state: &StateDir, error| RunError::Unmet {
        key: "supervisor.state",
        reason: format!("cannot read the state directory {}: {error}", state.path().display()),
        remedy: "make it readable for this user, or name another one with `supervisor.state`".to_owned(),
    };
    if let (Some(run), None) = (config.run.number, &config.control) {
        if let Some(state) = state {
            let ids = state.ids_of(run).map_err(|error| unreadable(state, error))?;
            if let Some(id) = ids.first() {
                let highest = state.highest().map_err(|error| unreadable(state, error))?;
                return Err(taken(run, &id.to_string(), state.path(), highest));
            }
        }
        return Ok(Numbered { run, is_fixed: true });
    }
    let kept = match state {
        Some(state) => state.highest().map_err(|error| unreadable(state, error))?,
        None => None,
    };
    let after = match kept.max(last) {
        Some(highest) => next(highest, state)?,
        None => FIRST_RUN,
    };
    Ok(Numbered { run: config.run.number.unwrap_or(FIRST_RUN).max(after), is_fixed: false })
}

/// Returns the number after the highest one.
fn next(highest: RunNumber, state: Option<&StateDir>) -> Result<RunNumber, RunError> {
    highest.number().checked_add(1).map(RunNumber::new).ok_or_else(|| {
        let place = state.map_or(String::new(), |state| format!(", as {} says", state.path().display()));
        RunError::Unmet {
            key: "run.number",
            reason: format!(
                "an earlier run has the number {highest}{place}, and there is no number after it"
            ),
            remedy: format!(
                "move that run's event files, and `run{highest}-*.json` of the state directory, elsewhere, or, without a section [control], set `run.number` to a free number"
            ),
        }
    })
}

/// Returns the error for a number that an earlier run has; `highest` is the highest number of all.
fn taken(run: RunNumber, id: &str, state: &Path, highest: Option<RunNumber>) -> RunError {
    let follows = highest.is_none_or(|highest| highest.number() < u32::MAX);
    let or = if follows { ", or leave it out to have the next free one" } else { "" };
    RunError::Unmet {
        key: "run.number",
        reason: format!("{} has an earlier run with the number {run} (run id {id})", state.display()),
        remedy: format!("choose another `run.number`{or}"),
    }
}

/// Turns the error of a journal that exists and cannot be continued into the operator's.
fn unusable(error: &impl std::fmt::Display) -> RunError {
    let text = error.to_string();
    let (reason, remedy) = split_remedy(&text);
    RunError::Unmet {
        key: "supervisor.journal",
        reason: format!("no run starts: {reason}"),
        remedy: remedy.unwrap_or_default().to_owned(),
    }
}

/// Returns the state directory: the configured one, or the one of the service, or one beside the
/// journal or the first event files of this host.
pub(in crate::run) fn state_dir(config: &Config, hosted: &[Peer]) -> Option<StateDir> {
    let given = config.supervisor.state.clone();
    let of_service = || {
        let listed = env::var_os("STATE_DIRECTORY").filter(|listed| !listed.is_empty())?;
        env::split_paths(&listed).next()
    };
    let beside = |path: &Path| path.parent().unwrap_or_else(|| Path::new("")).join(STATE);
    let by_journal = || config.supervisor.journal.as_deref().map(beside);
    let by_files = || {
        let mut builders = config.builders.iter().filter(|entry| hosted.contains(&Peer::Builder(entry.id)));
        builders.find_map(|entry| entry.sinks.iter().find_map(SinkEntry::directory)).map(beside)
    };
    let dir: Option<PathBuf> = given.or_else(of_service).or_else(by_journal).or_else(by_files);
    dir.map(StateDir::new)
}
