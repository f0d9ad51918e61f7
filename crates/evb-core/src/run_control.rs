//! Run control as one table: the effect of every command and every occurrence in every state. The
//! [`Leader`](leader::Leader) uses only [`State::after`], and `docs/reference/run-control.md` shows
//! the same table.

mod drawing;
pub mod leader;
#[cfg(test)]
mod tests;

use core::{fmt, str::FromStr};

use serde::Serialize;

pub use drawing::table;

use Outcome::{Becomes, Ignored, Refused};
use State::{Configured, Failed, Paused, Running, Stopping, Unconfigured};

/// State of a system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// No configuration is in force. Sources and builders cannot register yet.
    #[default]
    Unconfigured,
    /// The next run has its number. Sources and builders register for the run and connect.
    Configured,
    /// The supervisor accepts triggers.
    Running,
    /// The supervisor accepts no triggers, and everything else continues.
    Paused,
    /// The run accepts no more triggers. Events in progress are built and written, or reported as
    /// lost.
    Stopping,
    /// A run could not begin, or could not go on. The cause needs attention before the next run.
    Failed,
}

/// Command of a person or program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// Read the configuration and open the next run to sources and builders.
    Configure,
    /// Begin the run: accept triggers.
    Start,
    /// Accept no triggers until `resume`; that time is dead time.
    Pause,
    /// Accept triggers again after `pause`.
    Resume,
    /// End the run: accept no more triggers, and settle every event.
    Stop,
    /// Discard the configuration; this also ends the state `Failed`.
    Reset,
}

/// Occurrence that changes the state without a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occurrence {
    /// Every source and builder is registered, and all lanes are connected.
    PeersReady,
    /// The supervisor continues a run that it found in its journal.
    Recovered,
    /// The last trigger of the run has occurred: the run reached its number of events or its
    /// duration, or a peer requested the end.
    LastTrigger,
    /// The supervisor has paused the run by itself: a source has slipped, or too few sources of a
    /// group take part.
    PausedByItself,
    /// The supervisor has resumed a run that it had paused: enough sources of every group take
    /// part.
    ResumedByItself,
    /// Every event of the run is settled, and its ledger is closed.
    Drained,
    /// The run cannot begin, or cannot continue.
    Failure,
}

/// A command or an occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stimulus {
    /// A command was given.
    Command(Command),
    /// An occurrence was noticed.
    Occurrence(Occurrence),
}

/// Effect of a command or an occurrence on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The system changes to this state.
    Becomes(State),
    /// The state refuses the command.
    Refused {
        /// Reason of the refusal, as a sentence whose subject, the state, is left out.
        reason: &'static str,
        /// Advice: what the user can do instead.
        remedy: &'static str,
    },
    /// The occurrence does not matter in this state, and the state does not change.
    Ignored,
}

/// A refused request, with the reason and a remedy.
///
/// ```
/// use evb_core::run_control::{Command, State};
///
/// let refusal = State::Paused.command(Command::Start).err();
/// assert_eq!(
///     refusal.map(|refusal| refusal.to_string()).as_deref(),
///     Some(
///         "start refused by state Paused: the run is only paused; use resume to continue it"
///     ),
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{request} refused by {refused_by}: {reason}; {remedy}")]
pub struct Refusal {
    /// The refused request; mostly a command.
    pub request: String,
    /// The party that refused: the state, the configuration, a source or a builder.
    pub refused_by: String,
    /// Reason for the refusal.
    pub reason: String,
    /// Advice: what the user can do about the refusal.
    pub remedy: String,
}

/// Reason for which a run cannot be configured or started: its origin, a description, and advice.
///
/// ```
/// use evb_core::run_control::SystemError;
///
/// let error = SystemError::new("source 3", "its card has no power", "switch the crate on");
/// assert_eq!(error.to_string(), "source 3: its card has no power; switch the crate on");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{refused_by}: {reason}; {remedy}")]
pub struct SystemError {
    /// Origin of the refusal: the configuration, a source, a builder, …
    pub refused_by: String,
    /// Description of the problem.
    pub reason: String,
    /// Advice on how to solve the problem.
    pub remedy: String,
}

impl SystemError {
    /// Creates an error from its parts.
    pub fn new(refused_by: impl Into<String>, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { refused_by: refused_by.into(), reason: reason.into(), remedy: remedy.into() }
    }
}

impl State {
    /// All states, in the order in which a run passes them.
    pub const ALL: [Self; 6] = [Unconfigured, Configured, Running, Paused, Stopping, Failed];

    /// Returns the state's name, which people and programs use.
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

    /// Returns the entry of the table for a state and a stimulus.
    pub const fn after(self, stimulus: Stimulus) -> Outcome {
        match stimulus {
            Stimulus::Command(command) => self.commanded(command),
            Stimulus::Occurrence(occurrence) => self.occurred(occurrence),
        }
    }

    /// Returns what a command does in this state: the next state, or a refusal with its remedy.
    const fn commanded(self, command: Command) -> Outcome {
        match (self, command) {
            (Unconfigured | Configured, Command::Configure) => Becomes(Configured),
            (Running | Paused, Command::Configure) => {
                refused("a run is under way", "stop it first, and configure when its last events are written")
            }
            (Configured, Command::Start) => Becomes(Running),
            (Running, Command::Start) => {
                refused("a run is under way already", "stop it first, or leave it running")
            }
            (Paused, Command::Start) => refused("the run is only paused", "use resume to continue it"),
            // An operator may pause a run that paused by itself; the supervisor knows.
            (Running | Paused, Command::Pause) => Becomes(Paused),
            (Paused, Command::Resume) => Becomes(Running),
            (Running, Command::Resume) => refused("the run is not paused", "nothing needs to be done"),
            (Running | Paused, Command::Stop) => Becomes(Stopping),
            (Configured, Command::Pause | Command::Resume | Command::Stop) => {
                refused("no run is under way", "use start to begin the next one")
            }
            (Configured | Failed, Command::Reset) => Becomes(Unconfigured),
            (Unconfigured, Command::Reset) => refused(
                "no configuration is in force, so there is nothing to reset",
                "use configure to put one in force",
            ),
            (Running | Paused, Command::Reset) => {
                refused("a run is under way, and its events would be lost", "stop it first")
            }
            (Unconfigured, Command::Start | Command::Pause | Command::Resume | Command::Stop) => {
                refused("no configuration is in force", "configure, then start")
            }
            (Stopping, _) => refused(
                "the run is stopping: its last events are built and written",
                "wait until the state is Configured; the status shows how many are left",
            ),
            (Failed, _) => refused(
                "the last run failed",
                "read the reason and the remedy in the status, then reset, configure and start",
            ),
        }
    }

    /// Returns what an occurrence does in this state. An occurrence that is no news in this state
    /// is ignored.
    const fn occurred(self, occurrence: Occurrence) -> Outcome {
        match (self, occurrence) {
            (Configured, Occurrence::PeersReady) => Becomes(Configured),
            (Configured, Occurrence::Recovered) => Becomes(Running),
            (Running, Occurrence::PausedByItself) => Becomes(Paused),
            (Paused, Occurrence::ResumedByItself) => Becomes(Running),
            (Running | Paused, Occurrence::LastTrigger) => Becomes(Stopping),
            // A run without a trigger may end before its state has been read.
            (Running | Paused | Stopping, Occurrence::Drained) => Becomes(Configured),
            (Configured | Running | Paused | Stopping, Occurrence::Failure) => Becomes(Failed),
            (_, _) => Ignored,
        }
    }

    /// Returns the state after a command.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the state refuses the command.
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

    /// Returns the state after an occurrence.
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
    /// All commands, in the order of their use in a run.
    pub const ALL: [Self; 6] =
        [Self::Configure, Self::Start, Self::Pause, Self::Resume, Self::Stop, Self::Reset];

    /// Returns the command's name, which people and programs use.
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
    pub const ALL: [Self; 7] = [
        Self::PeersReady,
        Self::Recovered,
        Self::PausedByItself,
        Self::ResumedByItself,
        Self::LastTrigger,
        Self::Drained,
        Self::Failure,
    ];

    /// Returns the occurrence's name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PeersReady => "all peers ready",
            Self::Recovered => "recovered",
            Self::PausedByItself => "paused by itself",
            Self::ResumedByItself => "resumed by itself",
            Self::LastTrigger => "last trigger",
            Self::Drained => "drained",
            Self::Failure => "failure",
        }
    }
}

impl Stimulus {
    /// Returns all stimuli: commands, then occurrences.
    pub fn all() -> impl Iterator<Item = Self> {
        Command::ALL.map(Self::Command).into_iter().chain(Occurrence::ALL.map(Self::Occurrence))
    }

    /// Returns the name of the command or occurrence, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command(command) => command.name(),
            Self::Occurrence(occurrence) => occurrence.name(),
        }
    }
}

/// Error for a text that is not the name of a command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a command; use configure, start, pause, resume, stop or reset")]
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
