//! A test bench: a builder with a policy that grants everything, and methods that act as sources,
//! supervisor and sink.

use core::time::Duration;

use bytes::BytesMut;

use super::super::{BuilderCore, BuilderCoreConfig, Output};
use crate::{
    event::Event,
    fragment::{Checksum, Timestamp},
    grant::{Fate, Grant, GrantCounters, GrantPolicy, LaneDemand},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    index::LaneIndex,
    lane::{LaneError, Request},
    set::SourceSet,
    time::Instant,
    units::Bytes,
    wire::{
        control::{Accounted, Assignments, BuilderReport, Completions, Load, Message, RoleReport},
        record::{Announcement, encode_fragment_header},
    },
};

pub(in crate::builder) const DEADLINE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(in crate::builder) struct GrantAll(GrantCounters);

impl GrantPolicy for GrantAll {
    fn poll(&mut self, lanes: &[LaneDemand], _now: Instant) -> Option<Grant> {
        let lane = lanes.iter().position(|lane| lane.connected && lane.ready > lane.granted)?;
        Some(Grant {
            lane: LaneIndex::new(lane),
            start: lanes[lane].granted,
            end: lanes[lane].ready,
            request: 0,
        })
    }

    fn handle_received(&mut self, _lane: LaneIndex, _received: u64, _now: Instant) {}
    fn handle_accounted(&mut self, _: LaneIndex, _: core::ops::Range<u64>, _: Request, _: Fate, _: Instant) {}
    fn handle_reset(&mut self, _lane: LaneIndex, _received: u64, _now: Instant) {}
    fn handle_gone(&mut self, _lane: LaneIndex, _now: Instant) {}
    fn handle_timeout(&mut self, _now: Instant) {}

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn outstanding(&self) -> Bytes {
        Bytes::ZERO
    }

    fn counters(&self) -> &GrantCounters {
        &self.0
    }
}

pub(in crate::builder) fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
}

/// Returns the configuration of a builder that shares its clock with the supervisor and has no
/// lease.
pub(in crate::builder) fn config(sources: u16, slots: usize) -> BuilderCoreConfig {
    BuilderCoreConfig {
        run_id: RunId::new(1),
        id: BuilderId::new(1),
        run: RunNumber::new(1),
        epoch: Epoch::new(1),
        slots,
        deadline: DEADLINE,
        heartbeat: Duration::from_secs(1),
        shared_clock: true,
        lease: Duration::ZERO,
        sources: (1..=sources).map(SourceId::new).collect(),
        max_fragment: vec![Bytes::mib(1); sources.into()],
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    }
}

/// A builder under test, with the lane offset of each lane's next announcement.
pub(super) struct Bench {
    pub(super) core: BuilderCore<GrantAll>,
    pub(super) ready: Vec<u64>,
    pub(super) events: Vec<Event>,
    pub(super) told: Completions,
    /// Loads in the builder's heartbeats, with their times.
    pub(super) loads: Vec<(Instant, Load)>,
    /// True if the bench confirms all completions as the supervisor's ledger does.
    pub(super) accounts: bool,
}

impl Bench {
    pub(super) fn new(sources: u16, slots: usize) -> Self {
        Self::with_lease(sources, slots, Duration::ZERO)
    }

    pub(super) fn with_lease(sources: u16, slots: usize, lease: Duration) -> Self {
        let config = BuilderCoreConfig { lease, ..config(sources, slots) };
        let mut core = BuilderCore::new(config, GrantAll::default(), at(0));
        core.handle_roster(1, SourceSet::first(sources.into()), SourceSet::default(), at(0));
        for lane in 0..sources.into() {
            core.handle_lane_connected(LaneIndex::new(lane), at(0));
        }
        Self {
            core,
            ready: vec![0; sources.into()],
            events: Vec::new(),
            told: Completions::default(),
            loads: Vec::new(),
            accounts: true,
        }
    }

    pub(super) fn assign(&mut self, events: &[u64], now: Instant) {
        let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
        let mut last = (EventId::default(), 0);
        for event in events {
            assignments.add(&mut last, EventId::new(*event), at(0).as_nanos());
        }
        self.core.handle_assignments(&assignments, now).unwrap();
        self.poll(now);
    }

    pub(super) fn announce(&mut self, lane: LaneIndex, event: u64, length: usize, now: Instant) {
        let announcement = announcement(event, length);
        let offset = self.ready[lane];
        self.core.handle_announcements(lane, offset, [announcement].into_iter(), now).unwrap();
        self.ready[lane] += announcement.lane_length();
        self.poll(now);
    }

    pub(super) fn data(&mut self, lane: LaneIndex, bytes: &[u8], now: Instant) -> Result<(), LaneError> {
        let result = self.core.handle_data(lane, bytes, now);
        self.poll(now);
        result
    }

    /// Announces a fragment of that lane and sends all its bytes.
    pub(super) fn send(&mut self, lane: LaneIndex, event: u64, payload: &[u8], now: Instant) {
        self.announce(lane, event, payload.len(), now);
        self.data(lane, &on_the_lane(event, payload), now).unwrap();
    }

    pub(super) fn poll(&mut self, now: Instant) {
        while let Some(output) = self.core.poll(now) {
            match output {
                Output::Event(event) => self.events.push(event),
                Output::Lane(lane) => self.core.write_records(lane, &mut BytesMut::new()),
                Output::Supervisor(message) => {
                    if let Some(accounted) = Accounted::of(&message).filter(|_| self.accounts) {
                        self.core.handle_accounted(&accounted).unwrap();
                    }
                    match message.message {
                        Some(Message::Completions(completions)) => {
                            self.told.complete.extend(completions.complete);
                            self.told.exceptions.extend(completions.exceptions);
                        }
                        Some(Message::Heartbeat(heartbeat)) => {
                            self.loads.extend(heartbeat.load.map(|load| (now, load)));
                        }
                        _ => {}
                    }
                }
            }
        }
        self.core.invariants();
    }

    /// Makes the sink accept all events that the builder gave to it.
    pub(super) fn write_all(&mut self, now: Instant) {
        for event in core::mem::take(&mut self.events) {
            self.core.handle_written(event, now);
        }
        self.poll(now);
    }

    pub(super) fn report(&self) -> BuilderReport {
        match self.core.report().message {
            Some(Message::Report(report)) => match report.report {
                Some(RoleReport::Builder(report)) => report,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

pub(in crate::builder) fn announcement(event: u64, length: usize) -> Announcement {
    Announcement {
        event: EventId::new(event),
        timestamp: Timestamp::new(event),
        length: length as u32,
        lost_packets: 0,
    }
}

pub(in crate::builder) fn on_the_lane(event: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = encode_fragment_header(EventId::new(event), Checksum::of(payload)).to_vec();
    bytes.extend_from_slice(payload);
    bytes
}
