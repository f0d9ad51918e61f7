//! [`Failure`]: a failed check and its description.

use core::{any::Any, fmt};

/// A property that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// An invariant of a state machine was violated, or the state machine panicked.
    Invariant,
    /// A state machine reported that its peer broke the protocol.
    Protocol,
    /// A state machine reports a due timer again and again, although it has handled everything.
    Spinning,
    /// More bytes were under way to a builder than its budget permits.
    Budget,
    /// The run did not end in time.
    Hang,
    /// The supervisor's ledger did not close, or reports an error in itself.
    Ledger,
    /// An event is in the ledger but on no disk, or on a disk but not in the ledger.
    Disk,
    /// An event was written twice under the same epoch.
    Doubled,
    /// An event is lost, and no fault explains the loss.
    Lost,
    /// An event does not name the sources of the run without a fragment in it as missing.
    Missing,
    /// An event lacks fragments, and no fault explains their absence.
    Incomplete,
    /// Events differ in time from their copies, or go back in time.
    Time,
    /// The content of a fragment is not what its source pushed.
    Content,
    /// Datagrams were sent again that had not been lost, or whose loss the builder could not have
    /// noticed yet.
    Spurious,
    /// A slot of a builder was held although nothing could bring what its event lacked.
    Stuck,
    /// The timestamps of events were judged wrongly.
    Alignment,
    /// An operator's request was refused.
    Steering,
}

impl Check {
    /// Returns the name of the check, one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Invariant => "invariant",
            Self::Protocol => "protocol",
            Self::Spinning => "spinning",
            Self::Budget => "budget",
            Self::Hang => "hang",
            Self::Ledger => "ledger",
            Self::Disk => "disk",
            Self::Doubled => "doubled",
            Self::Lost => "lost",
            Self::Missing => "missing",
            Self::Incomplete => "incomplete",
            Self::Time => "time",
            Self::Content => "content",
            Self::Spurious => "spurious",
            Self::Stuck => "stuck",
            Self::Alignment => "alignment",
            Self::Steering => "steering",
        }
    }
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The check that failed.
    pub check: Check,
    /// Description of the failure, with the host and its action.
    pub what: String,
}

impl Failure {
    pub(crate) fn new(check: Check, what: impl Into<String>) -> Self {
        Self { check, what: what.into() }
    }

    /// Creates the failure of a state machine that panicked.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Self::new(
            Check::Invariant,
            text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic"),
        )
    }

    /// Creates the failure of a state machine that reports a violation of the protocol.
    pub(crate) fn protocol(what: impl fmt::Display) -> Self {
        Self::new(Check::Protocol, what.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check.word(), self.what)
    }
}
