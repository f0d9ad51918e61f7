//! The log: lines on standard error.
//!
//! | level | means |
//! |---|---|
//! | `ERROR` | data are lost |
//! | `WARN` | something is wrong, but has cost nothing so far |
//! | `INFO` | a run or a peer changes its state |
//! | `DEBUG`, `TRACE` | details for the search for a defect |

use std::env::{self, VarError};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Log lines as text for people.
    #[default]
    Text,
    /// Log lines as JSON, one object per line.
    Json,
}

/// Name of the environment variable that selects messages.
const VARIABLE: &str = "EVBD_LOG";

/// Messages that are shown by default: warnings and errors.
const USUAL: &str = "warn";

/// Words that stand for a level in a filter.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Starts the log. `EVBD_LOG` selects its messages; a text that selects nothing is told and not
/// used.
pub(crate) fn start(format: LogFormat) {
    let chosen = match env::var(VARIABLE) {
        Ok(text) => filter(&text),
        Err(VarError::NotPresent) => Ok(EnvFilter::new(USUAL)),
        Err(VarError::NotUnicode(_)) => Err("it is not UTF-8".to_owned()),
    };
    let (filter, fault) = match chosen {
        Ok(filter) => (filter, None),
        Err(fault) => (EnvFilter::new(USUAL), Some(fault)),
    };
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init();
        }
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    if let Some(fault) = fault {
        tracing::warn!("{VARIABLE} is not used, so that warnings and errors are shown: {fault}");
    }
}

/// Reads the selection of messages: levels and `TARGET=LEVEL`, with commas between them.
fn filter(text: &str) -> Result<EnvFilter, String> {
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(part));
        // The library takes any other word for the name of a module, and shows all its messages.
        if !is_level && !part.contains(['=', '[']) && !part.starts_with("evb") {
            let levels = LEVELS.join(", ");
            return Err(format!("`{}` is no level; the levels are {levels}", part.escape_default()));
        }
    }
    EnvFilter::try_new(text).map_err(|error| format!("{error}; give a level, or TARGET=LEVEL, as evb=debug"))
}

#[cfg(test)]
mod tests;
