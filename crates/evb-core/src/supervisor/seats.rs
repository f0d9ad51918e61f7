//! The supervisor's knowledge of each peer.

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
    /// The sender's time in the peer's last heartbeat, and the time of its arrival.
    pub(super) echo: Option<(u64, Instant)>,
    /// True if its host shares our clock.
    pub(super) shared_clock: bool,
}

impl Connection {
    /// Returns the next heartbeat to the peer, with the peer's own last time, so that clocks can be
    /// compared.
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
    /// The incarnation of its process, from 1; 0 if it never registered.
    pub(super) incarnation: u32,
    pub(super) connection: Option<Connection>,
    /// The time at which it was last heard, while it is not connected.
    pub(super) last_heard: Instant,
    /// True if it has confirmed its connection to all builders since the last one came.
    pub(super) reaches_all: bool,
    /// True if its lanes are connected.
    pub(super) ready: bool,
    pub(super) max_fragment: u64,
    /// The last event whose decision it was told; used while it is down.
    pub(super) told: u64,
    pub(super) down: Option<Down>,
    pub(super) down_time: Duration,
    pub(super) events_without: u64,
    pub(super) shared_clock: bool,
    pub(super) report: Option<SourceReport>,
    pub(super) latest: Option<Latest<SourceReport>>,
}

/// The absence of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Down {
    pub(super) since: Instant,
    /// Number of events assigned before it; `None` if events wait for the source, so that none are
    /// assigned without it.
    pub(super) assigned: Option<u64>,
}

impl Down {
    /// Returns the number of events assigned without it, out of `assigned` in all.
    pub(super) fn events_without(&self, assigned: u64) -> u64 {
        self.assigned.map_or(0, |then| assigned.saturating_sub(then))
    }
}

impl SourceSeat {
    /// Ends its absence, because it is back or the run is over, after `assigned` events in all.
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
    /// The incarnation of its process, from 1; 0 if it never registered.
    pub(super) incarnation: u32,
    pub(super) connection: Option<Connection>,
    /// While it is not connected: the time at which it was last heard, and why it left.
    pub(super) last_heard: Instant,
    pub(super) parting: String,
    /// True if its incarnation has ended: others have its events, and its messages come too late.
    pub(super) over: bool,
    /// True if it broke the protocol: it may register again, but not continue.
    pub(super) barred: bool,
    /// The time since which sources connect to it; it gets no events before they have.
    pub(super) joining: Option<Instant>,
    /// The progress of its departure.
    pub(super) leaving: Leaving,
    /// True if it gets no events because it is silent.
    pub(super) suspended: bool,
    pub(super) listen: String,
    /// Payload that the sinks of its earlier incarnations accepted, if they reported it.
    pub(super) past_payload_bytes: u64,
    /// The state of its slots, by its last report.
    pub(super) load: Load,
    pub(super) shared_clock: bool,
    pub(super) report: Option<BuilderReport>,
    pub(super) latest: Option<Latest<BuilderReport>>,
}

/// The progress of a builder's departure from the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Leaving {
    /// The builder stays.
    #[default]
    No,
    /// The builder gets no more events.
    Asked,
    /// The builder has no events left, and is to report.
    Finishing,
    /// The builder has left.
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

    /// Gives the seat to another process.
    pub(super) fn begin_incarnation(&mut self) {
        self.past_payload_bytes = self.payload_so_far();
        (self.report, self.latest) = (None, None);
        self.load = Load::default();
        (self.over, self.barred) = (false, false);
        self.incarnation += 1;
    }

    /// Returns the payload that its sinks accepted, in all its incarnations, if they reported it.
    pub(super) fn payload_so_far(&self) -> u64 {
        let latest = self.latest.as_ref().map_or(0, Latest::payload_bytes);
        let own = self.report.as_ref().map_or(latest, |report| report.payload_bytes);
        self.past_payload_bytes.saturating_add(own)
    }

    /// Returns true if the peer is the process that had the seat before, and may continue.
    pub(super) fn goes_on(&self, hello: &Hello) -> bool {
        self.incarnation != 0 && hello.incarnation == self.incarnation && !self.over && !self.barred
    }

    /// Returns the time at which it was last heard.
    pub(super) fn heard_at(&self) -> Instant {
        self.connection.map_or(self.last_heard, |connection| connection.last_heard)
    }

    /// Returns true if it gets events.
    pub(super) fn is_active(&self) -> bool {
        self.connection.is_some() && !self.suspended && self.joining.is_none() && self.leaving == Leaving::No
    }

    /// Returns true if its incarnation may build and write, and continue when it returns.
    pub(super) fn is_alive(&self) -> bool {
        self.incarnation > 0 && !self.over
    }

    /// Returns true if it takes part, or is to.
    pub(super) fn is_member(&self) -> bool {
        self.leaving != Leaving::Gone
    }
}
