//! [`Output`] and [`Progress`]: what comes out of the supervisor's machine.

use crate::{
    id::{BuilderId, Peer, SourceId},
    ledger::{EventCounts, RunReport},
    set::SourceSet,
    wire::{control::Control, journal::Entry},
};

/// Whom a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// Everybody who is registered and connected.
    Everyone,
    /// These sources, by their position in the roster.
    Sources(SourceSet),
    /// One source.
    Source(SourceId),
    /// One builder.
    Builder(BuilderId),
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is rare, never kept, and boxed would cost an allocation each"
)]
pub enum Output {
    /// Send a message. Messages to one peer keep their order.
    Send {
        /// To whom; a peer without a connection misses it.
        to: Recipients,
        /// What.
        message: Control,
    },
    /// Close the peer's connection: the machine has taken leave of it already.
    Drop {
        /// Whose connection.
        peer: Peer,
        /// For the log.
        reason: String,
    },
    /// Write this down before anything that comes later is sent; only where the plan wants a journal.
    Journal(Box<Entry>),
    /// The ledger is closed. Flush all connections, and end.
    Ended(Box<RunReport>),
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    /// Waiting for peers to register and to connect their lanes.
    #[default]
    Configured,
    /// Triggers come.
    Running,
    /// Triggers are not taken, everything else goes on.
    Paused,
    /// The supervisor goes on with a run of before, and waits for its peers.
    Recovering,
    /// No more triggers; what is outstanding is settled.
    Stopping,
    /// The ledger is closed.
    Ended,
}

/// A cheap look at the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Where the run stands.
    pub state: RunState,
    /// Since the run began.
    pub events: EventCounts,
    /// Assigned and not settled.
    pub outstanding: u64,
    /// Connected sources whose fragments are expected.
    pub sources_up: u32,
    /// Builders that get events.
    pub builders_up: u32,
    /// All peers are registered and all lanes connected.
    pub ready: bool,
}
