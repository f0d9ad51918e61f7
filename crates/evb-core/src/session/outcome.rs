//! [`RunOutcome`] and [`RoleFault`]: how a role's part in a run ends.

use core::time::Duration;

use crate::{
    id::{Epoch, RunId, RunNumber},
    quantities::{SAME_RELEASE, split_remedy, time},
    time::Instant,
    units::Bytes,
    wire::control::{MAX_REASON, MalformedMessage, Report, RunEnd, Welcome, plain},
};

/// The run that a role belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunIdentity {
    /// The run's id, which alone identifies the run.
    pub id: RunId,
    /// The run's number, which may change until the run begins.
    pub run: RunNumber,
    /// Epoch in which the run was created.
    pub epoch: Epoch,
}

impl RunIdentity {
    /// Returns the run that the supervisor's welcome names.
    pub fn of(welcome: &Welcome) -> Self {
        let (run, epoch) = (RunNumber::new(welcome.run), Epoch::new(welcome.epoch));
        Self { id: welcome.run_id, run, epoch }
    }
}

/// The outcome of a run according to the supervisor's ledger.
///
/// ```
/// use evb_core::{id::*, session::RunOutcome};
///
/// /// Returns the last line of a readout program.
/// fn line(outcome: &RunOutcome) -> String {
///     let result = if outcome.exit_code == 0 { "good" } else { "bad" };
///     format!("run {} was {result}: {}", outcome.run, outcome.verdict)
/// }
///
/// let outcome = RunOutcome {
///     run: RunNumber::new(42),
///     run_id: RunId::new(0x5eed),
///     epoch: Epoch::new(1),
///     exit_code: 0,
///     verdict: "all complete".to_owned(),
///     report: None,
///     took_part: None,
/// };
/// assert_eq!(line(&outcome), "run 42 was good: all complete");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// The run's number.
    pub run: RunNumber,
    /// The run's id.
    pub run_id: RunId,
    /// The run's epoch.
    pub epoch: Epoch,
    /// 0: every event is accounted for and complete. 1: some events are incomplete or lost, or the
    /// run failed.
    pub exit_code: u8,
    /// The outcome as a sentence.
    pub verdict: String,
    /// The role's own final counters; `None` if the role did not send them.
    pub report: Option<Report>,
    /// Time for which the role took part: from its first events until no more events were to
    /// arrive. `None` if the role received no events.
    pub took_part: Option<Duration>,
}

impl RunOutcome {
    /// Creates the outcome of a role's run from the supervisor's last message.
    pub fn new(
        identity: RunIdentity,
        end: &RunEnd,
        report: Option<Report>,
        participation: Participation,
        now: Instant,
    ) -> Self {
        let RunIdentity { id: run_id, run, epoch } = identity;
        let exit_code = u8::try_from(end.exit_code).unwrap_or(1);
        let took_part = participation.length(now);
        Self { run, run_id, epoch, exit_code, verdict: plain(&end.verdict, MAX_REASON), report, took_part }
    }
}

/// The time for which a role takes part in its run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Participation {
    from: Option<Instant>,
    to: Option<Instant>,
}

impl Participation {
    /// Notes that events arrived.
    pub fn go_on(&mut self, now: Instant) {
        self.from.get_or_insert(now);
    }

    /// Notes that no more events will arrive, only messages that end the run.
    pub fn end(&mut self, now: Instant) {
        self.to.get_or_insert(now);
    }

    fn length(&self, now: Instant) -> Option<Duration> {
        Some(self.to.unwrap_or(now).since(self.from?))
    }
}

/// A fault that ends a role's part in a run with an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleFault {
    /// The supervisor could not be reached, or refused the role; the text says which.
    #[error("cannot join the run: {0}")]
    NotJoined(String),
    /// The supervisor sent bytes that are not a control message.
    #[error("the supervisor broke the protocol: {0}; {SAME_RELEASE}")]
    Unreadable(String),
    /// The connection to the supervisor broke during the run, and the role could not register
    /// again.
    #[error(
        "lost the supervisor ({cause}), and gave up after {}, because it could not register again: {}; {}, then start this source or builder again; {held}",
        time(*tried),
        split_remedy(last).0,
        split_remedy(last).1.unwrap_or("if the supervisor is down, start it")
    )]
    Abandoned {
        /// Reason why the connection broke.
        cause: String,
        /// Time for which the role tried to register again.
        tried: Duration,
        /// Reason why the last attempt failed.
        last: String,
        /// Description of the data that the role still holds and that is lost with it.
        held: String,
    },
    /// The supervisor sent a malformed message.
    #[error("the supervisor broke the protocol: {0}; {SAME_RELEASE}")]
    Malformed(#[from] MalformedMessage),
    /// The supervisor sent a roster that contradicts an earlier roster or the role's configuration.
    #[error("the supervisor broke the protocol: {0}; {SAME_RELEASE}")]
    Roster(String),
    /// The memory that a builder needs exceeds its limit.
    #[error(
        "this builder needs {needed} of memory for its slots (each has room for the largest event, the sum of max_fragment of all sources, and over UDP also for data out of order), more than its limit of {limit}; lower `slots` or `max_fragment`, or raise `memory`"
    )]
    Memory {
        /// Memory for the slots and for data that arrives out of order.
        needed: Bytes,
        /// Configured memory limit of the builder.
        limit: Bytes,
    },
    /// A builder's sink panicked. The failed sink accepts no more events, and does not confirm the
    /// events that it has.
    #[error(
        "this builder's sink crashed, which is a fault of the sink; this builder ends, and other builders build its events: correct the sink before this builder starts again"
    )]
    SinkGone,
}

impl RoleFault {
    /// Adds to [`Self::Abandoned`] the description of the data that the role still holds; returns
    /// any other fault unchanged.
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
