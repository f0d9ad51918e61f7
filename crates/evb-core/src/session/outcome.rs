//! How a run ends for a role.

use core::time::Duration;

use crate::{
    id::{Epoch, RunNumber},
    time::Instant,
    units::Bytes,
    wire::control::{MalformedMessage, Report, RunEnd, Welcome},
};

/// Which run a role belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunIdentity {
    /// Which life of the run.
    pub epoch: Epoch,
    /// Which run.
    pub run: RunNumber,
}

impl RunIdentity {
    /// Returns the run that the supervisor leads.
    pub fn of(welcome: &Welcome) -> Self {
        Self { epoch: Epoch::new(welcome.epoch), run: RunNumber::new(welcome.run) }
    }
}

/// How a run ended, as the supervisor's ledger says.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// Which run.
    pub run: RunNumber,
    /// Which life of it.
    pub epoch: Epoch,
    /// 0: every event accounted for and complete. 1: some incomplete, lost or failed.
    pub exit_code: u8,
    /// The same in words.
    pub verdict: String,
    /// The role's own final counters, if the run came so far.
    pub report: Option<Report>,
    /// For how long the role took part: from the first events that it heard of until no more were to come. `None` if it heard of
    /// none.
    pub took_part: Option<Duration>,
}

impl RunOutcome {
    /// Returns what the supervisor's last message means to a role.
    pub fn new(
        identity: RunIdentity,
        end: &RunEnd,
        report: Option<Report>,
        participation: Participation,
        now: Instant,
    ) -> Self {
        let RunIdentity { run, epoch } = identity;
        let exit_code = u8::try_from(end.exit_code).unwrap_or(1);
        let took_part = participation.length(now);
        Self { run, epoch, exit_code, verdict: end.verdict.clone(), report, took_part }
    }
}

/// For how long a role takes part in its run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Participation {
    from: Option<Instant>,
    to: Option<Instant>,
}

impl Participation {
    /// Notes that events came.
    pub fn go_on(&mut self, now: Instant) {
        self.from.get_or_insert(now);
    }

    /// Notes that no more events come; what follows is for the books.
    pub fn end(&mut self, now: Instant) {
        self.to.get_or_insert(now);
    }

    fn length(&self, now: Instant) -> Option<Duration> {
        Some(self.to.unwrap_or(now).since(self.from?))
    }
}

/// Why a role cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleFault {
    /// The supervisor could not be reached, or refused; whoever connected knows more.
    #[error("cannot join the run: {0}")]
    NotJoined(String),
    /// What came from the supervisor is no control message.
    #[error("the supervisor broke the protocol: {0}")]
    Unreadable(String),
    /// The connection to the supervisor broke in mid-run, and there was no other.
    #[error("lost the supervisor ({cause}), and could not register again within {tried:.1?}: {last}; {held}")]
    Abandoned {
        /// Why the connection broke.
        cause: String,
        /// How long another was tried for.
        tried: Duration,
        /// What came of the last try.
        last: String,
        /// What the role still has.
        held: String,
    },
    /// The supervisor sent something that makes no sense.
    #[error("the supervisor broke the protocol: {0}")]
    Malformed(#[from] MalformedMessage),
    /// The supervisor sent a roster that does not fit what is known.
    #[error("the supervisor broke the protocol: {0}")]
    Roster(String),
    /// A builder's memory would exceed its limit.
    #[error(
        "slots × Σ max_fragment, and over UDP what may come out of order, are {needed}, more than this builder's memory limit of {limit}: lower `slots` or `max_fragment`, or raise `memory`"
    )]
    Memory {
        /// What the slots can take, and what comes out of order.
        needed: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// A builder's sink takes no more events, and says nothing of those that it has.
    #[error("the sink's thread is gone: the sink panicked; this builder ends, and others build what it had")]
    SinkGone,
}

impl RoleFault {
    /// The same, where the role was abandoned, with what it still has.
    #[must_use]
    pub fn holding(self, what: impl FnOnce() -> String) -> Self {
        match self {
            Self::Abandoned { cause, tried, last, .. } => {
                Self::Abandoned { cause, tried, last, held: what() }
            }
            other => other,
        }
    }
}
