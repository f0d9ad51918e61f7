//! The log: lines on standard error.
//!
//! | level | means |
//! |---|---|
//! | `ERROR` | data are lost |
//! | `WARN` | something is wrong, but has cost nothing so far |
//! | `INFO` | a run or a peer changes its state |
//! | `DEBUG`, `TRACE` | details for the search for a defect |

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

/// Starts the log. `EVBD_LOG` selects its messages; by default, warnings and errors.
pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env("EVBD_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init();
        }
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
