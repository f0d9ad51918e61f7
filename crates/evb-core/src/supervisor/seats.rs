//! The supervisor's state of each source and builder.

use core::time::Duration;

use super::{
    lanes::PackedLanes,
    live::{Interim, Latest},
};
use crate::{
    alignment::{DetectorClock, clock_of},
    id::{BuilderId, RunNumber, SourceId},
    time::Instant,
    wire::{
        control::{BuilderReport, Heartbeat, Hello, Load, ReadoutStatus, Role, SourceReport, is_address},
        journal::Registered,
    },
};

/// Returns the run number that a message states as 1 + the number; `None` for 0 or nonsense.
fn number_of(highest_run: u64) -> Option<RunNumber> {
    highest_run.checked_sub(1).and_then(|run| u32::try_from(run).ok()).map(RunNumber::new)
}

/// Returns the builders that are not to leave, ascending.
pub(super) fn staying<'a>(seats: impl Iterator<Item = &'a BuilderSeat>) -> Vec<BuilderId> {
    let mut ids: Vec<_> = seats.filter(|seat| seat.stays()).map(|seat| seat.id).collect();
    ids.sort_unstable();
    ids
}

/// An open connection to a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) last_heard: Instant,
    /// Sending time in the peer's last heartbeat, on the peer's clock, and the time of its arrival.
    pub(super) echo: Option<(u64, Instant)>,
    /// True if the peer's host shares the supervisor's clock.
    pub(super) shared_clock: bool,
}

impl Connection {
    /// Returns the next heartbeat to the peer. The heartbeat contains the sending time of the
    /// peer's last heartbeat, so that the peer can compare the clocks.
    pub(super) fn heartbeat(&self, now: Instant) -> Heartbeat {
        Heartbeat::echoing(self.echo, now)
    }
}

/// State of a source of the run.
#[derive(Clone, Debug)]
pub(super) struct SourceSeat {
    pub(super) id: SourceId,
    /// Incarnation of the source's process, from 1; 0 if the source has never registered.
    pub(super) incarnation: u32,
    pub(super) connection: Option<Connection>,
    /// Time of the last message from the source, while it is not connected.
    pub(super) last_heard: Instant,
    /// True if the source has connected lanes to all builders, including the builder that joined
    /// last.
    pub(super) reaches_all: bool,
    /// True if the source has confirmed that its lanes are connected.
    pub(super) ready: bool,
    /// True if the source has prepared for the first event of the run.
    pub(super) begun: bool,
    /// Reason why the source left, or cannot take part; empty if not known.
    pub(super) parting: String,
    pub(super) max_fragment: u64,
    /// Clock that the source itself declares.
    pub(super) clock: Option<DetectorClock>,
    /// Highest event id up to which the source knows the decisions; used while the source is down.
    pub(super) told: u64,
    /// Time since which the source is down; `None` while it is up.
    pub(super) down: Option<Instant>,
    pub(super) down_time: Duration,
    /// State of the readout, as the source's present process reported it.
    pub(super) readout: ReadoutStatus,
    pub(super) shared_clock: bool,
    pub(super) report: Option<SourceReport>,
    pub(super) latest: Option<Latest<SourceReport>>,
}

impl SourceSeat {
    /// Ends the source's absence, because it is up again or the run has ended.
    pub(super) fn end_absence(&mut self, now: Instant) {
        if let Some(since) = self.down.take() {
            self.down_time += now.since(since);
        }
    }
}

/// State of a builder of the run.
#[derive(Clone, Debug)]
pub(super) struct BuilderSeat {
    pub(super) id: BuilderId,
    /// Incarnation of the builder's process, from 1; 0 if the builder has never registered.
    pub(super) incarnation: u32,
    pub(super) connection: Option<Connection>,
    /// Time of the last message from the builder, while it is not connected.
    pub(super) last_heard: Instant,
    /// Reason why the builder left, or cannot take part; empty if not known.
    pub(super) parting: String,
    /// True if the builder has prepared for the first event of the run.
    pub(super) begun: bool,
    /// Highest run number that the builder's storage knows, 0 of no run; `None` if not known.
    pub(super) highest_run: Option<RunNumber>,
    /// True if the builder's incarnation has ended: other builders have its events, and its
    /// messages are ignored.
    pub(super) over: bool,
    /// True if the builder broke the protocol. The builder may register again only as a new
    /// incarnation.
    pub(super) barred: bool,
    /// Time since which sources connect lanes to the builder, which gets no events before that is
    /// done.
    pub(super) joining: Option<Instant>,
    /// Progress of the builder's departure from the run.
    pub(super) leaving: Leaving,
    /// True if the builder gets no events because it is silent.
    pub(super) suspended: bool,
    pub(super) listen: String,
    /// Address at which onlookers get the builder's events; empty if there is none.
    pub(super) tap: String,
    /// Payload bytes that the sinks of the builder's earlier incarnations accepted, as far as they
    /// were reported.
    pub(super) past_payload_bytes: u64,
    /// Load of the builder's slots according to its latest heartbeat.
    pub(super) load: Load,
    pub(super) shared_clock: bool,
    /// Final report of the builder, without its lanes.
    pub(super) report: Option<BuilderReport>,
    /// The lanes of the final report.
    pub(super) lanes: Option<PackedLanes>,
    pub(super) latest: Option<Latest<Interim>>,
}

/// Progress of a builder's departure from the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Leaving {
    /// The builder stays.
    #[default]
    No,
    /// The builder was asked to leave, and gets no more events.
    Asked,
    /// The builder has no events left, and was asked for its report.
    Finishing,
    /// The builder has left.
    Gone,
}

impl SourceSeat {
    /// Creates the seat of a source that has not registered.
    pub(super) fn new(id: SourceId) -> Self {
        Self {
            id,
            incarnation: 0,
            connection: None,
            last_heard: Instant::ZERO,
            reaches_all: false,
            ready: false,
            begun: false,
            parting: String::new(),
            max_fragment: 0,
            clock: None,
            told: 0,
            down: None,
            down_time: Duration::ZERO,
            readout: ReadoutStatus::default(),
            shared_clock: false,
            report: None,
            latest: None,
        }
    }

    /// Notes that the source has connected. It knows all decisions up to event `decided`.
    pub(super) fn connect(&mut self, hello: &Hello, connection: Connection, decided: u64) {
        if !self.goes_on(hello) {
            self.incarnation += 1;
            (self.report, self.latest) = (None, None);
        }
        self.connection = Some(connection);
        self.shared_clock = connection.shared_clock;
        (self.ready, self.begun) = (false, false);
        self.parting.clear();
        self.told = decided;
        self.max_fragment = hello.max_fragment;
        self.clock = hello.clock.as_ref().and_then(clock_of).map(|(_, clock)| clock);
    }

    /// Returns the journal entry for the source after it has registered.
    pub(super) fn registered(&self) -> Registered {
        Registered {
            role: Role::Source,
            id: self.id.number().into(),
            incarnation: self.incarnation,
            max_fragment: self.max_fragment,
            ..Registered::default()
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.connection.is_some() && self.ready
    }

    /// Returns true if the source should have front ends, and none is connected or has sent a
    /// fragment for the run.
    pub(super) fn lacks_front_end(&self) -> bool {
        let ReadoutStatus { expected, connected, holds_first, .. } = self.readout;
        expected > 0 && connected == 0 && !holds_first
    }

    /// Returns true if the greeting comes from the process that holds this seat.
    pub(super) fn goes_on(&self, hello: &Hello) -> bool {
        self.incarnation != 0 && hello.incarnation == self.incarnation
    }
}

impl BuilderSeat {
    /// Creates the seat of a builder that has not registered.
    pub(super) fn new(id: BuilderId) -> Self {
        Self {
            id,
            incarnation: 0,
            connection: None,
            last_heard: Instant::ZERO,
            parting: String::new(),
            begun: false,
            highest_run: None,
            over: false,
            barred: false,
            joining: None,
            leaving: Leaving::No,
            suspended: false,
            listen: String::new(),
            tap: String::new(),
            past_payload_bytes: 0,
            load: Load::default(),
            shared_clock: false,
            report: None,
            lanes: None,
            latest: None,
        }
    }

    /// Notes that the builder has connected; returns false if it is another process than before.
    pub(super) fn connect(&mut self, hello: &Hello, connection: Connection) -> bool {
        let goes_on = self.goes_on(hello);
        self.connection = Some(connection);
        self.shared_clock = connection.shared_clock;
        self.listen.clone_from(&hello.listen);
        self.tap = if is_address(&hello.tap) { hello.tap.clone() } else { String::new() };
        (self.suspended, self.begun) = (false, false);
        self.parting.clear();
        self.note_highest(hello.highest_run);
        if !goes_on {
            self.begin_incarnation();
        }
        if self.leaving == Leaving::Finishing {
            // It is unknown whether the builder received the request to report, so the request is
            // repeated.
            self.leaving = Leaving::Asked;
        }
        goes_on
    }

    /// Notes the highest run number that the builder's storage knows, as encoded in messages.
    pub(super) fn note_highest(&mut self, highest_run: u64) {
        self.highest_run = number_of(highest_run).max(self.highest_run);
    }

    /// Returns the highest run number that the builder's storage knows, as encoded in messages.
    pub(super) fn highest_in_messages(&self) -> u64 {
        self.highest_run.map_or(0, |run| 1 + u64::from(run.number()))
    }

    /// Returns the journal entry for the builder after it has registered.
    pub(super) fn registered(&self) -> Registered {
        Registered {
            role: Role::Builder,
            id: self.id.number().into(),
            incarnation: self.incarnation,
            listen: self.listen.clone(),
            highest_run: self.highest_in_messages(),
            ..Registered::default()
        }
    }

    /// Begins the next incarnation, for another process of the builder.
    pub(super) fn begin_incarnation(&mut self) {
        self.past_payload_bytes = self.payload_so_far();
        (self.report, self.lanes, self.latest) = (None, None, None);
        self.load = Load::default();
        (self.over, self.barred) = (false, false);
        self.incarnation += 1;
    }

    /// Returns the payload bytes that the sinks of all incarnations of the builder accepted, as far
    /// as they were reported.
    pub(super) fn payload_so_far(&self) -> u64 {
        let latest = self.latest.as_ref().map_or(0, Latest::payload_bytes);
        let own = self.report.as_ref().map_or(latest, |report| report.payload_bytes);
        self.past_payload_bytes.saturating_add(own)
    }

    /// Returns true if the greeting comes from the process that holds this seat, and that process
    /// may continue.
    pub(super) fn goes_on(&self, hello: &Hello) -> bool {
        self.incarnation != 0 && hello.incarnation == self.incarnation && !self.over && !self.barred
    }

    /// Returns the time of the last message from the builder.
    pub(super) fn heard_at(&self) -> Instant {
        self.connection.map_or(self.last_heard, |connection| connection.last_heard)
    }

    /// Returns true if the builder may get events.
    pub(super) fn is_active(&self) -> bool {
        self.connection.is_some() && !self.suspended && self.joining.is_none() && self.stays()
    }

    /// Returns true if the builder's present incarnation may build and write events, also after a
    /// lost connection.
    pub(super) fn is_alive(&self) -> bool {
        self.incarnation > 0 && !self.over
    }

    /// Returns true if the builder takes part in the run, or is configured to, and is not to leave.
    pub(super) fn stays(&self) -> bool {
        self.leaving == Leaving::No
    }

    /// Returns true if the builder takes part in the run, or is configured to.
    pub(super) fn is_member(&self) -> bool {
        self.leaving != Leaving::Gone
    }
}
