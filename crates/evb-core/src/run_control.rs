//! Run control as one table: what every command and every occurrence does in every state. Whoever leads runs asks
//! [`State::after`] and nothing else, and `docs/reference/run-control.md` shows the same table.

mod drawing;
#[cfg(test)]
mod tests;

use core::{fmt, str::FromStr};

use serde::Serialize;

pub use drawing::table;

use Outcome::{Becomes, Ignored, Refused};
use State::{Configured, Failed, Paused, Running, Stopping, Unconfigured};

/// Where a system stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// No configuration is in force. Sources and builders wait outside.
    #[default]
    Unconfigured,
    /// The next run has its number; sources and builders register for it and connect.
    Configured,
    /// Triggers are taken.
    Running,
    /// Triggers are not taken, everything else goes on.
    Paused,
    /// No more triggers; what is under way is built and written, or named.
    Stopping,
    /// A run could not begin, or could not go on. Somebody should know before the next one.
    Failed,
}

/// What people and programs may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// Read the configuration and open the next run to sources and builders.
    Configure,
    /// Take triggers.
    Start,
    /// Take no triggers for a while; that time is dead time.
    Pause,
    /// Take triggers again.
    Resume,
    /// End the run: settle every event.
    Stop,
    /// Give the configuration up, after a failure too.
    Reset,
}

/// What comes about without a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occurrence {
    /// Every source and builder is registered, and all lanes are connected.
    PeersReady,
    /// The supervisor goes on with a run that its journal tells of.
    Recovered,
    /// The run has had its last trigger: by its number of events, its duration, or a peer's wish.
    LastTrigger,
    /// Every event of the run is settled, and its ledger is closed.
    Drained,
    /// The run cannot begin, or cannot go on.
    Failure,
}

/// A command, or an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stimulus {
    /// Asked for.
    Command(Command),
    /// Come about.
    Occurrence(Occurrence),
}

/// What a stimulus does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// This is the state now.
    Becomes(State),
    /// The command is refused by the state.
    Refused {
        /// Why, as a sentence without its subject, which is the state.
        reason: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// The occurrence is of no meaning here, and changes nothing.
    Ignored,
}

/// What was asked for and is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{request} refused by {refused_by}: {reason}; {remedy}")]
pub struct Refusal {
    /// What was asked for: a command, or another wish.
    pub request: String,
    /// Who said no: the state, the configuration, a source or builder.
    pub refused_by: String,
    /// Why.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl State {
    /// All states, in the order of a run.
    pub const ALL: [Self; 6] = [Unconfigured, Configured, Running, Paused, Stopping, Failed];

    /// The word for people and programs.
    pub const fn name(self) -> &'static str {
        match self {
            Unconfigured => "Unconfigured",
            Configured => "Configured",
            Running => "Running",
            Paused => "Paused",
            Stopping => "Stopping",
            Failed => "Failed",
        }
    }

    /// The table.
    pub const fn after(self, stimulus: Stimulus) -> Outcome {
        match stimulus {
            Stimulus::Command(command) => self.commanded(command),
            Stimulus::Occurrence(occurrence) => self.occurred(occurrence),
        }
    }

    const fn commanded(self, command: Command) -> Outcome {
        match (self, command) {
            (Unconfigured | Configured, Command::Configure) => Becomes(Configured),
            (Running | Paused, Command::Configure) => {
                refused("a run is under way", "stop it first: its events are settled, then configure")
            }
            (Configured, Command::Start) => Becomes(Running),
            (Running, Command::Start) => {
                refused("a run is under way already", "stop it first, or leave it running")
            }
            (Paused, Command::Start) => refused("the run is only paused", "resume goes on with it"),
            (Running, Command::Pause) => Becomes(Paused),
            (Paused, Command::Pause) => refused("the run is paused already", "resume goes on with it"),
            (Paused, Command::Resume) => Becomes(Running),
            (Running, Command::Resume) => refused("the run is not paused", "nothing is to be done"),
            (Running | Paused, Command::Stop) => Becomes(Stopping),
            (Configured, Command::Pause | Command::Resume | Command::Stop) => {
                refused("no run is under way", "start begins the next one")
            }
            (Configured | Failed, Command::Reset) => Becomes(Unconfigured),
            (Unconfigured, Command::Reset) => refused("there is nothing to give up", "configure comes next"),
            (Running | Paused, Command::Reset) => {
                refused("a run is under way, and its events would be lost", "stop it first")
            }
            (Unconfigured, Command::Start | Command::Pause | Command::Resume | Command::Stop) => {
                refused("no configuration is in force", "configure, then start")
            }
            (Stopping, _) => refused(
                "the run is being drained: its last events are built and written",
                "wait until the state is Configured; the status shows what is outstanding",
            ),
            (Failed, _) => refused(
                "the last run failed; the status says why",
                "mend the cause, then reset, configure and start",
            ),
        }
    }

    const fn occurred(self, occurrence: Occurrence) -> Outcome {
        match (self, occurrence) {
            (Configured, Occurrence::PeersReady) => Becomes(Configured),
            (Configured, Occurrence::Recovered) => Becomes(Running),
            (Running | Paused, Occurrence::LastTrigger) => Becomes(Stopping),
            // A run without a trigger may be over before anybody looked.
            (Running | Paused | Stopping, Occurrence::Drained) => Becomes(Configured),
            (Configured | Running | Paused | Stopping, Occurrence::Failure) => Becomes(Failed),
            (_, _) => Ignored,
        }
    }

    /// The state after a command.
    ///
    /// # Errors
    /// The state's [`Refusal`].
    pub fn command(self, command: Command) -> Result<Self, Refusal> {
        match self.after(Stimulus::Command(command)) {
            Becomes(state) => Ok(state),
            Refused { reason, remedy } => Err(Refusal {
                request: command.to_string(),
                refused_by: format!("state {self}"),
                reason: reason.to_owned(),
                remedy: remedy.to_owned(),
            }),
            Ignored => Ok(self),
        }
    }

    /// The state after an occurrence.
    #[must_use]
    pub fn occur(self, occurrence: Occurrence) -> Self {
        match self.after(Stimulus::Occurrence(occurrence)) {
            Becomes(state) => state,
            Refused { .. } | Ignored => self,
        }
    }
}

const fn refused(reason: &'static str, remedy: &'static str) -> Outcome {
    Refused { reason, remedy }
}

impl Command {
    /// All commands, in the order of their use.
    pub const ALL: [Self; 6] =
        [Self::Configure, Self::Start, Self::Pause, Self::Resume, Self::Stop, Self::Reset];

    /// The word for people and programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configure => "configure",
            Self::Start => "start",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Stop => "stop",
            Self::Reset => "reset",
        }
    }
}

impl Occurrence {
    /// All occurrences.
    pub const ALL: [Self; 5] =
        [Self::PeersReady, Self::Recovered, Self::LastTrigger, Self::Drained, Self::Failure];

    /// The words for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PeersReady => "all peers ready",
            Self::Recovered => "recovered",
            Self::LastTrigger => "last trigger",
            Self::Drained => "drained",
            Self::Failure => "failure",
        }
    }
}

impl Stimulus {
    /// All of them: commands, then occurrences.
    pub fn all() -> impl Iterator<Item = Self> {
        Command::ALL.map(Self::Command).into_iter().chain(Occurrence::ALL.map(Self::Occurrence))
    }

    /// The words for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command(command) => command.name(),
            Self::Occurrence(occurrence) => occurrence.name(),
        }
    }
}

/// There is no such command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no command; there are configure, start, pause, resume, stop and reset")]
pub struct UnknownCommand(String);

impl FromStr for Command {
    type Err = UnknownCommand;

    fn from_str(text: &str) -> Result<Self, UnknownCommand> {
        let known = Self::ALL.into_iter().find(|command| command.name() == text);
        known.ok_or_else(|| UnknownCommand(text.chars().take(40).collect()))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
