//! `evbd ctl`: run control from the command line, over the HTTP of [`crate::control`].

mod table;
mod client;

use std::{
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    thread::sleep,
    time::{Duration, Instant},
};

use clap::Subcommand;
use evb_config::{ControlConfig, complain, say, say_in_line};
use evb_core::units::{Frequency, parse_duration};
use serde_json::{Value, json};

pub(crate) use client::{AskError, Client, Streamed, address};
pub(crate) use table::meaning;

/// Exit code of a command that the daemon refused.
const REFUSED: u8 = 1;

/// Exit code if no daemon could be asked: none listens, the address or the token is wrong, or the
/// arguments are invalid.
const UNREACHABLE: u8 = 2;

/// Time between the requests of `--watch` and of commands that wait.
const LOOK: Duration = Duration::from_millis(500);

/// Arguments of `evbd ctl`: the address of run control and the request.
#[derive(clap::Args, Debug)]
pub(crate) struct CtlArguments {
    /// Address of run control of the daemon.
    #[arg(long, global = true, value_name = "http://HOST:PORT", conflicts_with = "config")]
    url: Option<String>,
    /// Take address and token from section `[control]` of this configuration file.
    #[arg(long, global = true)]
    config: Option<PathBuf>,
    /// File with the token, if the daemon requires one.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print the daemon's answer as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    ask: Ask,
}

#[derive(Subcommand, Clone, Debug)]
enum Ask {
    /// Show state, run, events, rates, sources and builders.
    Status {
        /// Show the status again and again, until interrupted.
        #[arg(long)]
        watch: bool,
        /// Time between two requests, with --watch.
        #[arg(long, value_parser = parse_duration, default_value = "1 s")]
        every: Duration,
    },
    /// Read the configuration (again), and open the next run to sources and builders.
    Configure,
    /// Begin the run.
    Start {
        /// Comment on the run, for its status and its summary.
        #[arg(long, default_value = "")]
        comment: String,
        /// Kind of the run, such as physics or calibration.
        #[arg(long, default_value = "")]
        kind: String,
    },
    /// Pause the run: take no triggers until `resume`.
    Pause,
    /// Resume the run: take triggers again.
    Resume,
    /// End the run, and wait until every event is settled.
    Stop {
        /// Return at once instead of waiting until every event is settled.
        #[arg(long)]
        no_wait: bool,
    },
    /// Discard the configuration, also after a failure.
    Reset,
    /// Add a builder to the run; `evbd run CONFIG --role builder:ID` starts the builder's process.
    AddBuilder {
        /// Id of the builder.
        id: u16,
    },
    /// Remove a builder: it gets no more events, and leaves when its events are settled.
    RemoveBuilder {
        /// Id of the builder.
        id: u16,
    },
    /// Take the present timestamps of a source as right, after its clock was changed on purpose.
    Learn {
        /// Id of the source.
        id: u16,
    },
    /// Exclude a source or a group: events are complete without it, and wait for it no more.
    Exclude(OwingArguments),
    /// Include an excluded source or group again.
    Include(OwingArguments),
    /// Set the trigger rate.
    Rate {
        /// Trigger rate with its unit, such as "2 kHz".
        rate: Frequency,
    },
}

/// Arguments of `exclude` and `include`: the source, the first event, and the reason.
#[derive(clap::Args, Clone, Debug)]
struct OwingArguments {
    #[command(subcommand)]
    what: Excludable,
    /// First event to which it applies; without it, the next event.
    #[arg(long, global = true, value_name = "EVENT")]
    from: Option<u64>,
    /// The reason, for those who read the record of the run.
    #[arg(long, global = true, default_value = "")]
    why: String,
}

#[derive(Subcommand, Clone, Debug)]
enum Excludable {
    /// One source.
    Source {
        /// Id or name of the source.
        source: String,
    },
    /// All sources of a group.
    Group {
        /// Name of the group.
        group: String,
    },
}

/// Runs `evbd ctl`.
pub(crate) fn main(arguments: &CtlArguments) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match (&error, arguments.json) {
                (AskError::Refused { answer, .. }, true) => say!("{answer:#}"),
                (refused @ (AskError::Refused { .. } | AskError::Config(_)), _) => complain!("{refused}"),
                (other, _) => complain!("error: {other}"),
            }
            match error {
                AskError::Refused { is_transition: true, .. } => REFUSED.into(),
                _ => UNREACHABLE.into(),
            }
        }
    }
}

/// Carries out a subcommand: asks run control, and shows the answer.
fn run(arguments: &CtlArguments) -> Result<(), AskError> {
    let client = client(arguments)?;
    let post = |what: &str, body: Value| client.ask("POST", what, Some(body));
    match &arguments.ask {
        Ask::Status { watch: false, .. } => show(&client.ask("GET", "status", None)?, arguments.json),
        Ask::Status { watch: true, every } => watch(&client, *every, arguments.json)?,
        Ask::Stop { no_wait } => {
            let answer = post("stop", json!({}))?;
            if *no_wait {
                say(&answer, arguments.json);
            } else {
                settle(&client, arguments.json)?;
            }
        }
        Ask::Start { comment, kind } => {
            say(&post("start", json!({ "comment": comment, "kind": kind }))?, arguments.json);
        }
        Ask::AddBuilder { id } => {
            let words = format!(
                "builder {id} is added: it gets events as soon as its process has joined (`evbd run CONFIG --role builder:{id}`)"
            );
            done(&post("builders", json!({ "id": id }))?, arguments.json, &words);
        }
        Ask::RemoveBuilder { id } => {
            let words = format!(
                "builder {id} is removed: it gets no more events, and leaves when its events are settled"
            );
            done(&client.ask("DELETE", &format!("builders/{id}"), None)?, arguments.json, &words);
        }
        Ask::Learn { id } => {
            let words = format!("source {id}: its present timestamps count as right from now on");
            done(&post("learn", json!({ "source": id }))?, arguments.json, &words);
        }
        Ask::Exclude(asked) | Ask::Include(asked) => {
            let mut body = json!({ "from": asked.from, "why": asked.why });
            match &asked.what {
                Excludable::Source { source } => {
                    body["source"] = source.parse::<u16>().map_or_else(|_| json!(source), |id| json!(id));
                }
                Excludable::Group { group } => body["group"] = json!(group),
            }
            let answer = post(arguments.ask.name(), body)?;
            let (what, whose) = match &asked.what {
                Excludable::Source { .. } => (format!("source {} is", answer["source"]), "its"),
                Excludable::Group { group } => (format!("the sources of group {group} are"), "their"),
            };
            let from =
                asked.from.map_or_else(|| "the next event".to_owned(), |event| format!("event {event}"));
            let words = match &arguments.ask {
                Ask::Include(_) => format!("{what} included again, from {from} on"),
                _ => {
                    format!("{what} excluded: from {from} on, events are complete without {whose} fragments")
                }
            };
            done(&answer, arguments.json, &words);
        }
        Ask::Rate { rate } => {
            let body = json!({ "rate": rate.to_string() });
            let words = format!("the trigger rate is {rate} from now on");
            done(&client.ask("PUT", "trigger", Some(body))?, arguments.json, &words);
        }
        command => say(&post(command.name(), json!({}))?, arguments.json),
    }
    Ok(())
}

impl Ask {
    /// Returns the path below `/v1/` to which the subcommand is sent.
    fn name(&self) -> &'static str {
        match self {
            Self::Configure => "configure",
            Self::Start { .. } => "start",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Reset => "reset",
            Self::Stop { .. } => "stop",
            Self::Status { .. } => "status",
            Self::AddBuilder { .. } | Self::RemoveBuilder { .. } => "builders",
            Self::Learn { .. } => "learn",
            Self::Exclude(_) => "exclude",
            Self::Include(_) => "include",
            Self::Rate { .. } => "trigger",
        }
    }
}

/// Creates the client, with the address and the token from the arguments or the configuration.
fn client(arguments: &CtlArguments) -> Result<Client, AskError> {
    let control = match &arguments.config {
        Some(path) => {
            let loaded = evb_config::load(path).map_err(|error| AskError::Config(error.to_string()))?;
            loaded.config.control.unwrap_or_else(ControlConfig::usual)
        }
        None => ControlConfig::usual(),
    };
    let address = match &arguments.url {
        Some(url) => address(url)?,
        None => control.listen.clone(),
    };
    let token_file = arguments.token_file.clone().or(control.token_file);
    Client::new(address, token_file.as_deref())
}

fn say(answer: &Value, as_json: bool) {
    if as_json {
        say!("{answer:#}");
    } else {
        say!("{}", table::line(answer));
    }
}

/// Prints the answer to a command that was carried out: as JSON, or in the given words.
fn done(answer: &Value, as_json: bool, words: &str) {
    if as_json {
        say!("{answer:#}");
    } else {
        say!("{words}");
    }
}

fn show(status: &Value, as_json: bool) {
    if as_json {
        say!("{status:#}");
    } else {
        say_in_line!("{}", table::status(status));
    }
}

/// Shows the status until interrupted, or until the daemon is gone.
fn watch(client: &Client, every: Duration, as_json: bool) -> Result<(), AskError> {
    let terminal = std::io::stdout().is_terminal() && !as_json;
    loop {
        let status = client.ask("GET", "status", None)?;
        if terminal {
            // The escape codes move to the top left and clear to the end, which avoids flicker.
            // These codes are evb's own, so they go past the macro, which would escape them.
            let _ = std::io::stdout().write_all(b"\x1b[H\x1b[J");
        }
        if as_json {
            say!("{status}");
        } else {
            say_in_line!("{}", table::status(&status));
            if !terminal {
                say!();
            }
        }
        // A reader that has closed the pipe ends the watch.
        if std::io::stdout().flush().is_err() {
            return Ok(());
        }
        sleep(every);
    }
}

/// Waits until the run is over, and prints its outcome.
fn settle(client: &Client, as_json: bool) -> Result<(), AskError> {
    let since = Instant::now();
    let mut is_told = false;
    loop {
        let status = client.ask("GET", "status", None)?;
        if status["state"] != "Stopping" {
            if as_json {
                say!("{:#}", status["last_run"]);
            } else {
                say_in_line!("{}", table::outcome(&status));
            }
            return Ok(());
        }
        if !is_told && since.elapsed() > LOOK * 4 {
            is_told = true;
            complain!(
                "the run is stopping: {} events are still being built; this command waits for them (Ctrl-C ends the wait, not the run)",
                status["survey"]["outstanding"]
            );
        }
        sleep(LOOK / 5);
    }
}
