//! What the supervisor knows of each peer.

use core::time::Duration;

use super::live::Latest;
use crate::{
    id::{BuilderId, SourceId},
    time::Instant,
    wire::control::{BuilderReport, Heartbeat, Hello, Load, Message, SourceReport},
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

impl Connection {
    /// Returns the heartbeat that is due to the peer: it has the peer's own last time, so that clocks can be compared.
    pub(super) fn heartbeat(&self, now: Instant) -> Message {
        let (echo_ns, echo_delay_ns) = self.echo.map_or((0, 0), |(sent_ns, came)| {
            (sent_ns, u64::try_from(now.since(came).as_nanos()).unwrap_or(u64::MAX))
        });
        Message::Heartbeat(Heartbeat { sent_ns: now.as_nanos(), echo_ns, echo_delay_ns, load: None })
    }
}

/// A source of the run.
#[derive(Clone, Debug)]
pub(super) struct SourceSeat {
    pub(super) id: SourceId,
    /// Which life of its process this is, from 1; 0: it never registered.
    pub(super) incarnation: u32,
    pub(super) connection: Option<Connection>,
    /// While it is not connected, when it was heard last.
    pub(super) last_heard: Instant,
    /// Whether it has said that it is connected to all builders since the last one came.
    pub(super) reaches_all: bool,
    /// Whether its lanes are connected.
    pub(super) ready: bool,
    pub(super) max_fragment: u64,
    /// Up to which event it was told decisions; of interest while it is down.
    pub(super) told: u64,
    pub(super) down: Option<Down>,
    pub(super) down_time: Duration,
    pub(super) events_without: u64,
    pub(super) shared_clock: bool,
    pub(super) report: Option<SourceReport>,
    pub(super) latest: Option<Latest<SourceReport>>,
}

/// A source is not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Down {
    pub(super) since: Instant,
    /// How many events were assigned by then; `None`: it is awaited, and none are assigned without it.
    pub(super) assigned: Option<u64>,
}

impl Down {
    /// How many events were assigned without it, when `assigned` are in all.
    pub(super) fn events_without(&self, assigned: u64) -> u64 {
        self.assigned.map_or(0, |then| assigned.saturating_sub(then))
    }
}

impl SourceSeat {
    /// It is there again, or the run is over, when `assigned` events are assigned in all.
    pub(super) fn end_absence(&mut self, assigned: u64, now: Instant) {
        if let Some(down) = self.down.take() {
            self.down_time += now.since(down.since);
            self.events_without += down.events_without(assigned);
        }
    }
}

/// A builder of the run.
#[derive(Clone, Debug)]
pub(super) struct BuilderSeat {
    pub(super) id: BuilderId,
    /// Which life of its process this is, from 1; 0: it never registered.
    pub(super) incarnation: u32,
    pub(super) connection: Option<Connection>,
    /// While it is not connected, when it was heard last, and why it left.
    pub(super) last_heard: Instant,
    pub(super) parting: String,
    /// What its incarnation had is with others: whatever it says now comes too late.
    pub(super) over: bool,
    /// It broke the rules: it may come back, and not go on.
    pub(super) barred: bool,
    /// Since when sources connect to it; it gets no events before they have.
    pub(super) joining: Option<Instant>,
    /// What is wanted of it, other than to build.
    pub(super) leaving: Leaving,
    /// Silent, so that it gets no events.
    pub(super) suspended: bool,
    pub(super) listen: String,
    /// Payload that the sinks of its earlier incarnations accepted, as far as they lived to report it.
    pub(super) past_payload_bytes: u64,
    /// What its slots are taken by, as it said last.
    pub(super) load: Load,
    pub(super) shared_clock: bool,
    pub(super) report: Option<BuilderReport>,
    pub(super) latest: Option<Latest<BuilderReport>>,
}

/// How far a builder is that is to leave the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It stays.
    #[default]
    No,
    /// It gets no more events.
    Asked,
    /// It has none left, and is to report.
    Finishing,
    /// It has left.
    Gone,
}

impl SourceSeat {
    pub(super) fn new(id: SourceId) -> Self {
        Self {
            id,
            incarnation: 0,
            connection: None,
            last_heard: Instant::ZERO,
            reaches_all: false,
            ready: false,
            max_fragment: 0,
            told: 0,
            down: None,
            down_time: Duration::ZERO,
            events_without: 0,
            shared_clock: false,
            report: None,
            latest: None,
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.connection.is_some() && self.ready
    }

    /// Returns true if the peer is the process that had the seat before.
    pub(super) fn goes_on(&self, hello: &Hello) -> bool {
        self.incarnation != 0 && hello.incarnation == self.incarnation
    }
}

impl BuilderSeat {
    pub(super) fn new(id: BuilderId) -> Self {
        Self {
            id,
            incarnation: 0,
            connection: None,
            last_heard: Instant::ZERO,
            parting: String::new(),
            over: false,
            barred: false,
            joining: None,
            leaving: Leaving::No,
            suspended: false,
            listen: String::new(),
            past_payload_bytes: 0,
            load: Load::default(),
            shared_clock: false,
            report: None,
            latest: None,
        }
    }

    /// Another process takes the seat.
    pub(super) fn begin_incarnation(&mut self) {
        self.past_payload_bytes = self.payload_so_far();
        (self.report, self.latest) = (None, None);
        self.load = Load::default();
        (self.over, self.barred) = (false, false);
        self.incarnation += 1;
    }

    /// Payload that its sinks accepted, in all its incarnations, as far as they said so.
    pub(super) fn payload_so_far(&self) -> u64 {
        let latest = self.latest.as_ref().map_or(0, Latest::payload_bytes);
        let own = self.report.as_ref().map_or(latest, |report| report.payload_bytes);
        self.past_payload_bytes.saturating_add(own)
    }

    /// Returns true if the peer is the process that had the seat before, and may go on.
    pub(super) fn goes_on(&self, hello: &Hello) -> bool {
        self.incarnation != 0 && hello.incarnation == self.incarnation && !self.over && !self.barred
    }

    /// Returns when it was heard last.
    pub(super) fn heard_at(&self) -> Instant {
        self.connection.map_or(self.last_heard, |connection| connection.last_heard)
    }

    /// Whether it gets events.
    pub(super) fn is_active(&self) -> bool {
        self.connection.is_some() && !self.suspended && self.joining.is_none() && self.leaving == Leaving::No
    }

    /// Whether its incarnation may build and write: it goes on when it comes back.
    pub(super) fn is_alive(&self) -> bool {
        self.incarnation > 0 && !self.over
    }

    /// Whether it takes part, or is to.
    pub(super) fn is_member(&self) -> bool {
        self.leaving != Leaving::Gone
    }
}
