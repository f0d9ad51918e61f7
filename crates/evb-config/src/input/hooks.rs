//! `on_start` and `on_stop`: what is done with a source's boards when a run starts, and after its
//! end.

use std::{fmt, time::Duration};

use serde::Deserialize;

use super::GivenInput;
use crate::{
    forms::{As, Positive, seconds},
    frame::HexBytes,
    section::Section,
};

/// The actions with a source's boards when a run starts, and after its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Action for which the start of a run waits.
    pub on_start: Option<Hook>,
    /// Action after the end of a run.
    pub on_stop: Option<Hook>,
}

/// An action and its time limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The action.
    pub action: Action,
    /// Time within which it must be done.
    pub timeout: Duration,
}

/// An action at the start or the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A program runs, with these arguments.
    Run(Vec<String>),
    /// The board is sent these bytes on its connection.
    Send(Vec<u8>),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(words) => write!(f, "run {}", words.join(" ").escape_debug()),
            Self::Send(bytes) => {
                f.write_str("send the board")?;
                bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
            }
        }
    }
}

/// An action as the configuration gives it: a program, or bytes for the board.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("oneOf" = [{ "required": ["run"] }, { "required": ["send"] }])))]
pub(crate) struct GivenHook {
    /// The program, and its arguments. It gets JSON on its standard input.
    run: Option<Vec<String>>,
    /// Instead of `run`, bytes for the board on its connection, in hexadecimal.
    #[serde(default, with = "As::<HexBytes>")]
    send: Option<Vec<u8>>,
    /// The time after which it has failed.
    ///
    /// Default: `"10 s"`
    #[serde(default = "seconds::<10>", with = "As::<Positive<Duration>>")]
    timeout: Duration,
}

impl GivenInput {
    /// Removes and returns what is done when a run starts, and after its end.
    pub(crate) fn take_hooks(&mut self, source: &Section<'_>) -> Hooks {
        let (has_connection, on_start, on_stop) = match self {
            Self::Tcp { on_start, on_stop, .. } => (source.has("input.connect"), on_start, on_stop),
            Self::Unix { on_start, on_stop, .. } => (false, on_start, on_stop),
            Self::Stream { on_start, on_stop, .. } => (true, on_start, on_stop),
            Self::Udp(given) => (false, &mut given.on_start, &mut given.on_stop),
            Self::Generator { .. } | Self::Replay { .. } | Self::Pcap(_) => return Hooks::default(),
        };
        let hook = |key: &str, given: &mut Option<GivenHook>| {
            given.take().and_then(|given| given.checked(source, key, has_connection))
        };
        Hooks { on_start: hook("input.on_start", on_start), on_stop: hook("input.on_stop", on_stop) }
    }
}

impl GivenHook {
    /// Returns what to do, or notes what is wrong with it.
    fn checked(self, source: &Section<'_>, key: &str, has_connection: bool) -> Option<Hook> {
        let (run, send) = (format!("{key}.run"), format!("{key}.send"));
        let example = "run = [\"/opt/daq/arm\", \"--crate\", \"1\"]";
        if source.has(&run) && source.has(&send) {
            let reason = "`run` and `send` are both given, but evb does only one of the two: it runs a program, or sends bytes to the board";
            source.refuse(&send, reason, "remove `send`, or `run`");
        } else if source.has(&send) && !has_connection {
            let reason = "evb opens no connection to a board here, so it cannot send bytes (`send` is for `connect` and kind = \"stream\")";
            let remedy = "write `run` with a program that tells the board, in place of `send`";
            source.refuse(&send, reason, remedy);
        } else if !source.has(&run) && !source.has(&send) {
            let remedy = format!("add {example}, or send = \"ff00a5\" for a board to which evb connects");
            source.refuse(key, "neither `run` nor `send` says what to do", remedy);
        }
        let action = match (self.run, self.send) {
            (Some(words), _) => {
                check_program(source, &run, &words, example);
                Action::Run(words)
            }
            (None, Some(bytes)) => Action::Send(bytes),
            // What was given is wrong, and noted.
            (None, None) => return None,
        };
        Some(Hook { action, timeout: self.timeout })
    }
}

/// Refuses a program that no host can have.
pub(crate) fn check_program(source: &Section<'_>, key: &str, words: &[String], example: &str) {
    let remedy = format!("write the program and its arguments, such as {example}");
    let name = key.rsplit('.').next().unwrap_or(key);
    match words.first() {
        None => source.refuse(key, format!("the list `{name}` is empty"), remedy),
        Some(program) if program.is_empty() => {
            source.refuse(key, format!("the first text of `{name}`, the program, is empty"), remedy)
        }
        Some(program) if program.contains('/') && !program.starts_with('/') => {
            let reason = format!("where `{program}` is depends on the directory in which evbd starts");
            source.refuse(key, reason, "write a path that begins with `/`, or a name that is found in PATH");
        }
        Some(_) if words.iter().any(|word| word.contains('\0')) => {
            let reason = format!("a text of `{name}` has a NUL character, which no program can be given");
            source.refuse(key, reason, remedy);
        }
        Some(_) => {}
    }
}
