//! [`Output`] and [`Progress`]: the outputs of the supervisor's state machine.

use super::{NotReady, Phase, SupervisorCore};
use crate::{
    id::{BuilderId, Peer, RunId, RunNumber, SourceId},
    ledger::{EventCounts, RunReport},
    set::SourceSet,
    time::Utc,
    wire::{control::Control, journal::Entry},
};

/// The recipients of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// All registered and connected peers.
    Everyone,
    /// The sources in the set, by their positions in the roster.
    Sources(SourceSet),
    /// A single source.
    Source(SourceId),
    /// A single builder.
    Builder(BuilderId),
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "most outputs are messages, and a box would cost an allocation for each"
)]
pub enum Output {
    /// Send a message. The messages to one peer must keep their order.
    Send {
        /// Recipients of the message; a peer without a connection does not get it.
        to: Recipients,
        /// The message to send.
        message: Control,
    },
    /// Close the peer's connection, which the supervisor already treats as closed.
    Drop {
        /// The peer whose connection is to be closed.
        peer: Peer,
        /// Reason for the log.
        reason: String,
    },
    /// Write this journal entry before sending any later message. The supervisor returns journal
    /// entries only if the plan requires a journal.
    Journal(Box<Entry>),
    /// The run has begun, or did not begin because of this reason. A run that does not wait for an
    /// operator and cannot begin ends instead.
    Begun(Result<(), NotReady>),
    /// The ledger is closed. Send all remaining messages, and end.
    Ended(Box<RunReport>),
}

/// The state of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// Waiting for peers to register and to connect their lanes.
    #[default]
    Configured,
    /// The run takes triggers.
    Running,
    /// The run takes no triggers until it is resumed, or until enough sources of each group take
    /// part; everything else continues.
    Paused,
    /// A restarted supervisor waits for the peers of its run to register again.
    Recovering,
    /// The run takes no more triggers, and outstanding events are settled.
    Stopping,
    /// The ledger is closed.
    Ended,
}

/// A short summary of the run, which costs little to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Number of the run, which may change until the run begins.
    pub run: RunNumber,
    /// Id of the run.
    pub run_id: RunId,
    /// State of the run.
    pub state: RunState,
    /// Counts of the run's events so far.
    pub events: EventCounts,
    /// Events that are assigned and not settled.
    pub outstanding: u64,
    /// Connected sources whose fragments are expected.
    pub sources_up: u32,
    /// Builders that get events.
    pub builders_up: u32,
    /// True if all peers that the run needs are registered, and all lanes are connected.
    pub ready: bool,
    /// True if of each source that should have front ends, at least one is connected.
    pub has_readouts: bool,
    /// Start of the run; unknown before.
    pub begin: Utc,
}

impl Progress {
    /// Returns the summary of a supervisor's run. The number is that of its plan, and `ready` and
    /// `has_readouts` are not set.
    pub(super) fn of(core: &SupervisorCore) -> Self {
        Self {
            run: core.plan.run,
            run_id: core.plan.run_id,
            state: match core.phase {
                Phase::Gathering { .. } | Phase::Beginning { .. } => RunState::Configured,
                Phase::Running { .. } if is_paused(core) => RunState::Paused,
                Phase::Running { .. } => RunState::Running,
                Phase::Recovering { .. } => RunState::Recovering,
                Phase::Draining { .. } | Phase::Reporting { .. } => RunState::Stopping,
                Phase::Ended => RunState::Ended,
            },
            events: core.books.counts(),
            outstanding: core.assigner.outstanding(),
            begin: if core.has_begun() { core.begun().began().utc } else { Utc::UNKNOWN },
            sources_up: core.roster.up().len() as u32,
            builders_up: core.roster.builders().iter().filter(|seat| seat.is_active()).count() as u32,
            ready: false,
            has_readouts: false,
        }
    }
}

/// Returns true if a run that is under way takes no triggers: an operator or a slip has paused it,
/// or too few sources of a group take part.
pub(super) fn is_paused(core: &SupervisorCore) -> bool {
    core.intake.is_paused() || core.roster.groups.shortage().is_some()
}
