//! [`Output`] and [`Progress`]: the outputs of the supervisor's machine.

use crate::{
    id::{BuilderId, Peer, SourceId},
    ledger::{EventCounts, RunReport},
    set::SourceSet,
    wire::{control::Control, journal::Entry},
};

/// The recipients of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// All registered and connected peers.
    Everyone,
    /// These sources, by their positions in the roster.
    Sources(SourceSet),
    /// One source.
    Source(SourceId),
    /// One builder.
    Builder(BuilderId),
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is rare, never kept, and boxed would cost an allocation each"
)]
pub enum Output {
    /// Send a message. Messages to one peer keep their order.
    Send {
        /// The recipients; a peer without a connection misses the message.
        to: Recipients,
        /// The message.
        message: Control,
    },
    /// Close the peer's connection, which the machine already counts as gone.
    Drop {
        /// The peer whose connection to close.
        peer: Peer,
        /// The reason for the log.
        reason: String,
    },
    /// Write this entry before anything that follows is sent; only if the plan requires a journal.
    Journal(Box<Entry>),
    /// The ledger is closed. Flush all connections, and end.
    Ended(Box<RunReport>),
}

/// The state of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// Waiting for peers to register and to connect their lanes.
    #[default]
    Configured,
    /// Triggers are taken.
    Running,
    /// Triggers are not taken; everything else goes on.
    Paused,
    /// A restarted supervisor waits for the peers of its run.
    Recovering,
    /// No more triggers are taken; outstanding events are settled.
    Stopping,
    /// The ledger is closed.
    Ended,
}

/// A summary of the run that is cheap to obtain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// The state of the run.
    pub state: RunState,
    /// Time since the run began.
    pub events: EventCounts,
    /// Events assigned and not settled.
    pub outstanding: u64,
    /// Connected sources whose fragments are expected.
    pub sources_up: u32,
    /// Builders that get events.
    pub builders_up: u32,
    /// True if all peers are registered and all lanes connected.
    pub ready: bool,
}
