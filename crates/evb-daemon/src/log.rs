//! The log: lines on standard error.
//!
//! | level | means |
//! |---|---|
//! | `ERROR` | data are lost |
//! | `WARN` | something is wrong, but has cost nothing so far |
//! | `INFO` | a run or a peer changes its state |
//! | `DEBUG`, `TRACE` | details for the search for a defect |

mod repeats;
mod text;

use std::{
    env::{self, VarError},
    io,
};

use clap::ValueEnum;
use evb_core::id::Peer;
use tracing::Span;
use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use self::{repeats::Repeats, text::Text};

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

/// Target of the spans that name roles, so that a filter for another module leaves the names.
const WHO: &str = "evb::who";

/// The log; dropping it writes the lines that are held back.
pub(crate) struct Log(Option<Repeats>);

impl Drop for Log {
    fn drop(&mut self) {
        self.0.iter().for_each(Repeats::finish);
    }
}

/// Starts the log. `EVBD_LOG` selects its messages; a text that selects nothing is told and not
/// used.
pub(crate) fn start(format: LogFormat) -> Log {
    let chosen = match env::var(VARIABLE) {
        Ok(text) => filter(&text),
        Err(VarError::NotPresent) => Ok(EnvFilter::new(USUAL)),
        Err(VarError::NotUnicode(_)) => Err("it is not UTF-8; give a level, such as info".to_owned()),
    };
    let (filter, fault) = match chosen {
        Ok(filter) => (filter, None),
        Err(fault) => (EnvFilter::new(USUAL), Some(fault)),
    };
    let filter = match format!("{WHO}=error").parse() {
        Ok(names) => filter.add_directive(names),
        Err(_) => filter,
    };
    let log = match format {
        LogFormat::Text => {
            let has_colours = io::IsTerminal::is_terminal(&io::stderr())
                && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            let repeats = Repeats::new(io::stderr(), has_colours);
            tracing_subscriber::registry().with(filter).with(Text::new(repeats.clone())).init();
            Log(Some(repeats))
        }
        LogFormat::Json => {
            let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
            log.json().flatten_event(true).init();
            Log(None)
        }
    };
    if let Some(fault) = fault {
        tracing::warn!(
            "the environment variable {VARIABLE} cannot be used, so the log shows only warnings and errors, and nothing else changes: {fault}"
        );
    }
    log
}

/// Returns the span of a role with the given name: each line within it begins with the role.
pub(crate) fn role(peer: Peer, name: &str) -> Span {
    tracing::error_span!(target: WHO, "role", who = peer.named(name))
}

/// Reads the selection of messages: levels and `TARGET=LEVEL`, with commas between them.
fn filter(text: &str) -> Result<EnvFilter, String> {
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let is_level = LEVELS.iter().any(|level| level.eq_ignore_ascii_case(part));
        // The library takes any other word for the name of a module, and shows all its messages.
        if !is_level && !part.contains(['=', '[']) && !part.starts_with("evb") {
            let levels = LEVELS.join(", ");
            return Err(format!(
                "`{}` is no level; the levels are {levels}: give one of them",
                part.escape_default()
            ));
        }
    }
    EnvFilter::try_new(text).map_err(|error| format!("{error}; give a level, or TARGET=LEVEL, as evb=debug"))
}

#[cfg(test)]
mod tests;
