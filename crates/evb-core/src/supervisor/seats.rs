//! What the supervisor knows of each peer.

use core::time::Duration;

use crate::{
    id::{BuilderId, SourceId},
    time::Instant,
    wire::control::{BuilderReport, SourceReport},
};

/// A live connection to a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) last_heard: Instant,
    /// The sender's time in the last heartbeat from there, and when that came.
    pub(super) echo: Option<(u64, Instant)>,
    /// Whether its host shares our clock.
    pub(super) shared_clock: bool,
}

/// A source of the run.
#[derive(Clone, Debug)]
pub(super) struct SourceSeat {
    pub(super) id: SourceId,
    pub(super) connection: Option<Connection>,
    /// Whether its lanes are connected.
    pub(super) ready: bool,
    pub(super) max_fragment: u64,
    /// Up to which event it was told decisions; of interest while it is down.
    pub(super) told: u64,
    /// Since when it is down, and how many events were assigned by then.
    pub(super) down: Option<(Instant, u64)>,
    pub(super) down_time: Duration,
    pub(super) events_without: u64,
    /// Events that builders closed without it.
    pub(super) missing: u64,
    pub(super) shared_clock: bool,
    pub(super) report: Option<SourceReport>,
}

/// A builder of the run.
#[derive(Clone, Debug)]
pub(super) struct BuilderSeat {
    pub(super) id: BuilderId,
    pub(super) connection: Option<Connection>,
    /// Silent, so that it gets no events.
    pub(super) suspended: bool,
    pub(super) listen: String,
    pub(super) tally: BuilderTally,
    pub(super) shared_clock: bool,
    pub(super) report: Option<BuilderReport>,
}

/// What became of a builder's events, as the supervisor counts it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BuilderTally {
    pub(super) assigned: u64,
    pub(super) complete: u64,
    pub(super) incomplete: u64,
    pub(super) rejected: u64,
    /// Lost and said so by the builder.
    pub(super) lost: u64,
    /// Lost with the builder, or never settled.
    pub(super) lost_with_it: u64,
    /// Completions of events that it did not have.
    pub(super) faults: u64,
}

impl SourceSeat {
    pub(super) fn new(id: SourceId) -> Self {
        Self {
            id,
            connection: None,
            ready: false,
            max_fragment: 0,
            told: 0,
            down: None,
            down_time: Duration::ZERO,
            events_without: 0,
            missing: 0,
            shared_clock: false,
            report: None,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.connection.is_some() && self.ready
    }
}

impl BuilderSeat {
    pub(super) fn new(id: BuilderId) -> Self {
        Self {
            id,
            connection: None,
            suspended: false,
            listen: String::new(),
            tally: BuilderTally::default(),
            shared_clock: false,
            report: None,
        }
    }

    /// Whether it gets events.
    pub(super) fn is_active(&self) -> bool {
        self.connection.is_some() && !self.suspended
    }
}

impl BuilderTally {
    /// Events that it has and has not settled.
    pub(super) fn outstanding(&self) -> u64 {
        self.assigned - self.complete - self.incomplete - self.rejected - self.lost - self.lost_with_it
    }
}
