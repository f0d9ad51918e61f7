//! The log: lines on standard error.
//!
//! | level | means |
//! |---|---|
//! | `ERROR` | data are lost |
//! | `WARN` | something is not as it should be, and nothing is lost by it so far |
//! | `INFO` | a run or a peer changes its state |
//! | `DEBUG`, `TRACE` | for those who look for a defect |

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Begins the log. `EVBD_LOG` chooses what is in it, by default warnings and worse.
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
