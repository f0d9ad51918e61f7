//! The lanes of one builder: their bytes in, their records out.

use core::{ops::Range, time::Duration};

use bytes::BytesMut;

use super::{BuilderCore, assembly::State, counters::DatagramCounters, later::Later};
use crate::{
    fragment::RunningChecksum,
    grant::{Grant, GrantPolicy, LaneDemand},
    id::Incarnation,
    lane::{ANSWER_WITHIN, Arrival, IncomingDatagrams, IncomingLane, LaneError, LaneTimes},
    set::SourceSet,
    time::{Instant, earlier},
    undo::{self, Fix},
    units::Bytes,
    wire::{
        control::LaneState,
        record::{Announcement, FRAGMENT_HEADER, RecordHeader, decode_fragment_header, encode_commit},
    },
};

const HEADER: usize = FRAGMENT_HEADER as usize;

/// How long a commit may wait for a grant to go along with: it only lets the source's memory go, and wakes it up. Lanes at
/// full speed are granted more often: 32 of them by 1 Gbit/s, through 128 KiB, every 8 ms.
const COMMIT_WITHIN: Duration = Duration::from_millis(20);

/// Assignments may come so much later than what sources announce because of the same decision: the control connection
/// may wait for TCP's retransmission timer, which is 200 ms at least and doubles.
const ASSIGNMENT_DELAY: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) lanes: Vec<Reception>,
    pub(super) demands: Vec<LaneDemand>,
    pub(super) dirty: SourceSet,
    /// Lanes with a commit to send, unless a grant takes it along.
    pub(super) commits: Later,
    /// Lanes over datagrams with announcements to acknowledge, in the same way.
    pub(super) answers: Later,
    pub(super) ranges: Vec<Range<u64>>,
    /// How long things took on associations that are gone.
    pub(super) past_times: LaneTimes,
}

/// A lane and what is known of the fragment that is coming in on it.
#[derive(Debug)]
pub(super) struct Reception {
    pub(super) lane: IncomingLane,
    /// Which life of its source it is of.
    pub(super) incarnation: Incarnation,
    /// Where its records and bytes go by datagrams.
    pub(super) datagrams: Option<Box<IncomingDatagrams>>,
    /// What was counted of datagrams on connections that are gone.
    pub(super) past: DatagramCounters,
    header: [u8; HEADER],
    running: RunningChecksum,
    granted_sent: u64,
    /// Since when its connection is gone, and no byte came that an event waits for.
    gone_since: Option<Instant>,
}

impl Reception {
    fn new(max_fragment: &Bytes) -> Self {
        Self {
            lane: IncomingLane::new(max_fragment.count()),
            incarnation: Incarnation::default(),
            datagrams: None,
            past: DatagramCounters::default(),
            header: [0; HEADER],
            running: RunningChecksum::default(),
            granted_sent: 0,
            gone_since: None,
        }
    }
}

impl Lanes {
    pub(super) fn new(max_fragment: &[Bytes]) -> Self {
        let lanes: Vec<_> = max_fragment.iter().map(Reception::new).collect();
        let demands = lanes.iter().map(|reception| reception.lane.demand()).collect();
        Self {
            lanes,
            demands,
            dirty: SourceSet::default(),
            commits: Later::new(COMMIT_WITHIN),
            answers: Later::new(ANSWER_WITHIN),
            ranges: Vec::new(),
            past_times: LaneTimes::default(),
        }
    }

    /// The lane of a source that is another process begins at 0.
    pub(super) fn restart(&mut self, lane: usize, max_fragment: Bytes, incarnation: Incarnation) {
        let reception = &mut self.lanes[lane];
        *reception = Reception { past: reception.past, incarnation, ..Reception::new(&max_fragment) };
        self.dirty.remove(lane);
        self.note_said(lane);
        self.refresh(lane);
    }

    pub(super) fn demands(&self) -> &[LaneDemand] {
        &self.demands
    }

    pub(super) fn grant(&mut self, grant: Grant, now: Instant) {
        let Reception { lane, datagrams, .. } = &mut self.lanes[grant.lane];
        match (grant.request, datagrams) {
            (0, datagrams) => {
                lane.grant(grant.end);
                if let Some(datagrams) = datagrams {
                    datagrams.recovery.permit(grant.start..grant.end, now);
                }
            }
            (_, Some(datagrams)) => datagrams.ask(grant.start..grant.end, now),
            (_, None) => {}
        }
        self.refresh(grant.lane);
        self.dirty.insert(grant.lane);
    }

    pub(super) fn settle(&mut self, lane: usize, start: u64) {
        self.lanes[lane].lane.settle(start);
        self.commits.insert(lane);
    }

    /// That lane's source is told all there is.
    pub(super) fn note_said(&mut self, lane: usize) {
        self.commits.remove(lane);
        self.answers.remove(lane);
    }

    /// When what waits is to be said.
    pub(super) fn say_at(&self) -> Option<Instant> {
        earlier(self.commits.next(), self.answers.next())
    }

    /// When a lane over datagrams has something to do.
    pub(super) fn next_datagram(&self) -> Option<Instant> {
        let datagrams = self.lanes.iter().filter_map(|reception| reception.datagrams.as_ref());
        datagrams.map(|datagrams| datagrams.next_timeout()).fold(None, earlier)
    }

    /// The next lane with records to send.
    pub(super) fn take_dirty(&mut self, now: Instant) -> Option<usize> {
        let due = self.commits.take_due(now).union(&self.answers.take_due(now));
        self.dirty = self.dirty.union(&due);
        let lane = self.dirty.iter().next()?;
        self.dirty.remove(lane);
        Some(lane)
    }

    pub(super) fn refresh(&mut self, lane: usize) {
        let Reception { lane: incoming, datagrams, .. } = &self.lanes[lane];
        let demand = incoming.demand();
        self.demands[lane] = match datagrams {
            None => demand,
            // Before the source has spoken, nobody knows where grants would go.
            Some(datagrams) => LaneDemand {
                lost: datagrams.lost(),
                connected: demand.connected && (datagrams.is_met || undo::is_undone(Fix::A0635af)),
                ..demand
            },
        };
    }
}

impl<P: GrantPolicy> BuilderCore<P> {
    /// A source connected, or connected anew. Returns what we hold, for it to go on from there.
    pub fn handle_lane_connected(&mut self, lane: usize, now: Instant) -> LaneState {
        let reception = &mut self.lanes.lanes[lane];
        reception.lane.handle_connected();
        reception.granted_sent = reception.lane.received();
        let (received, announced) = (reception.lane.received(), reception.lane.ready());
        let committed = reception.lane.committed();
        if received == announced {
            reception.gone_since = None;
        }
        self.counters.lanes[lane].reconnects += u64::from(announced > 0);
        self.policy.handle_reset(lane, received, now);
        self.lanes.refresh(lane);
        self.grants_due = true;
        self.lanes.dirty.insert(lane);
        LaneState { received, announced, committed }
    }

    /// A source's connection is gone.
    pub fn handle_lane_disconnected(&mut self, lane: usize, now: Instant) {
        let reception = &mut self.lanes.lanes[lane];
        reception.lane.handle_disconnected();
        if let Some(datagrams) = reception.datagrams.take() {
            reception.past = reception.past.and(&datagrams);
            self.lanes.past_times.add(&datagrams);
        }
        reception.gone_since.get_or_insert(now);
        self.policy.handle_gone(lane, now);
        self.lanes.refresh(lane);
        self.grants_due = true;
    }

    /// A lane to be closed because it holds what the others wait for ([`GrantPolicy::withholding`]).
    pub fn withholding_lane(&self, now: Instant) -> Option<usize> {
        self.policy.withholding(self.lanes.demands(), now)
    }

    /// Whether a source has a live connection.
    pub fn is_lane_connected(&self, lane: usize) -> bool {
        self.lanes.lanes[lane].lane.is_connected()
    }

    /// An announcement record came in. Announcements of one record open their events in order.
    pub fn handle_announcements(
        &mut self,
        lane: usize,
        offset: u64,
        announcements: impl Iterator<Item = Announcement>,
        now: Instant,
    ) -> Result<(), LaneError> {
        let mut start = offset;
        self.grants_due = true;
        for announcement in announcements {
            if self.lanes.lanes[lane].lane.check_announcement(start, &announcement)? {
                let slot = self.accept_announcement(lane, start, &announcement, now);
                self.lanes.lanes[lane].lane.push(announcement, slot);
            }
            start = start.saturating_add(announcement.lane_length());
        }
        self.lanes.refresh(lane);
        Ok(())
    }

    /// Whether a data record may come now.
    pub fn check_data(&self, lane: usize, offset: u64, length: u32) -> Result<(), LaneError> {
        self.lanes.lanes[lane].lane.check_data(offset, length)
    }

    /// Data bytes, within a record that was checked.
    pub fn handle_data(&mut self, lane: usize, bytes: &[u8], now: Instant) -> Result<(), LaneError> {
        self.take_in(lane, bytes, now)?;
        self.after_data(lane, now);
        Ok(())
    }

    /// Data bytes; [`Self::after_data`] when there are no more for now.
    pub(super) fn take_in(&mut self, lane: usize, mut bytes: &[u8], now: Instant) -> Result<(), LaneError> {
        while !bytes.is_empty() {
            let Some(arrival) = self.lanes.lanes[lane].lane.arrival() else {
                let offset = self.lanes.lanes[lane].lane.received();
                return Err(LaneError::NotGranted { end: offset + bytes.len() as u64, granted: offset });
            };
            let take = bytes.len().min(usize::try_from(arrival.remaining).unwrap_or(usize::MAX));
            let (piece, rest) = bytes.split_at(take);
            self.store(lane, &arrival, piece)?;
            self.complete_piece(lane, &arrival, take as u64, now);
            bytes = rest;
        }
        Ok(())
    }

    /// Memory for the next bytes of a large fragment, and how many it may take: read into it and call
    /// [`Self::handle_filled`]. `None` where the bytes are to go through [`Self::handle_data`].
    pub fn spare_memory(&mut self, lane: usize) -> Option<(&mut BytesMut, usize)> {
        let arrival = self.lanes.lanes[lane].lane.arrival()?;
        if arrival.position < FRAGMENT_HEADER {
            return None;
        }
        let memory = self.slots[arrival.fragment.slot?].own_memory(lane)?;
        Some((memory, usize::try_from(arrival.remaining).unwrap_or(usize::MAX)))
    }

    /// `count` bytes were read into [`Self::spare_memory`].
    pub fn handle_filled(&mut self, lane: usize, count: usize, now: Instant) -> Result<(), LaneError> {
        let Some(arrival) = self.lanes.lanes[lane].lane.arrival() else { return Ok(()) };
        if let Some(memory) = arrival.fragment.slot.and_then(|slot| self.slots[slot].own_memory(lane)) {
            self.lanes.lanes[lane].running.follow(memory);
        }
        self.complete_piece(lane, &arrival, count as u64, now);
        self.after_data(lane, now);
        Ok(())
    }

    /// Appends what the source of that lane is to hear (docs/protocol.md LANE-18).
    pub fn write_records(&mut self, lane: usize, into: &mut BytesMut) {
        let reception = &mut self.lanes.lanes[lane];
        let granted = reception.lane.granted();
        if granted > reception.granted_sent {
            reception.granted_sent = granted;
            into.extend_from_slice(&RecordHeader::Grant { end: granted }.encode());
        }
        if reception.lane.is_commit_due() {
            let offset = reception.lane.take_commit(&mut self.lanes.ranges);
            encode_commit(offset, &self.lanes.ranges, into);
        }
        self.lanes.note_said(lane);
    }

    /// Whether all that came in on all lanes is committed and told.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.config.slots
            && self.unaccounted.is_empty()
            && self.lanes.dirty.is_empty()
            && self.lanes.commits.is_empty()
            && self.lanes.answers.is_empty()
    }

    /// Requirements: docs/protocol.md LANE-14, RUN-11.
    fn accept_announcement(
        &mut self,
        lane: usize,
        start: u64,
        announcement: &Announcement,
        now: Instant,
    ) -> Option<usize> {
        let event = announcement.event;
        let counters = &mut self.counters.lanes[lane];
        let slot = match self.table.slot(event) {
            Some(slot) if self.slots[slot].announced.contains(lane) => {
                counters.duplicate += 1;
                return None;
            }
            Some(slot) if self.slots[slot].state == State::Open => slot,
            Some(_) => {
                counters.late += 1;
                return None;
            }
            None if event <= self.highest => {
                counters.late += 1;
                return None;
            }
            // The source heard of the assignment before we did.
            None => match self.free.pop() {
                Some(slot) => self.open(slot, event, now),
                None => {
                    counters.unexpected += 1;
                    return None;
                }
            },
        };
        self.slots[slot].announce(lane, start, announcement);
        Some(slot)
    }

    /// Keeps a piece of the fragment that is coming in. Its own header is checked before any room is made for the payload,
    /// so that an error leaves nothing behind that a repetition would find.
    /// Requirements: docs/protocol.md LANE-12.
    fn store(&mut self, lane: usize, arrival: &Arrival, piece: &[u8]) -> Result<(), LaneError> {
        let Some(slot) = arrival.fragment.slot else { return Ok(()) };
        let reception = &mut self.lanes.lanes[lane];
        let position = arrival.position as usize;
        let mut payload = piece;
        if position < HEADER {
            let (header, rest) = piece.split_at(piece.len().min(HEADER - position));
            reception.header[position..position + header.len()].copy_from_slice(header);
            if position + header.len() < HEADER {
                return Ok(());
            }
            let Announcement { event: announced, length, .. } = arrival.fragment.announcement;
            let (found, _) = decode_fragment_header(&reception.header);
            if found != announced {
                return Err(LaneError::WrongEvent { offset: arrival.fragment.start, found, announced });
            }
            if self.slots[slot].begin(lane, length as usize, &mut self.pool) {
                reception.running = RunningChecksum::default();
            }
            payload = rest;
        }
        if !payload.is_empty() {
            let at = position.max(HEADER) - HEADER;
            self.slots[slot].write(lane, at, payload, &mut reception.running);
        }
        Ok(())
    }

    /// Moves on by `count` bytes; at the end of a fragment, checks it and makes it part of its event.
    /// Requirements: docs/protocol.md LANE-13.
    fn complete_piece(&mut self, lane: usize, arrival: &Arrival, count: u64, now: Instant) {
        let reception = &mut self.lanes.lanes[lane];
        reception.lane.advance(count);
        let Some(slot) = arrival.fragment.slot else {
            self.lanes.commits.insert(lane);
            return;
        };
        if count < arrival.remaining {
            return;
        }
        let (_, checksum) = decode_fragment_header(&reception.header);
        let counters = &mut self.counters.lanes[lane];
        if self.slots[slot].finish(lane, checksum, &mut reception.running) {
            counters.fragments += 1;
            counters.payload_bytes += u64::from(arrival.fragment.announcement.length);
            self.slots[slot].arrive(lane, now);
        } else {
            counters.crc_errors += 1;
            self.slots[slot].given_up.insert(lane);
            self.lanes.settle(lane, arrival.fragment.start);
        }
        self.finish_if_over(slot, now);
    }

    pub(super) fn after_data(&mut self, lane: usize, now: Instant) {
        let reception = &mut self.lanes.lanes[lane];
        reception.gone_since = None;
        let received = reception.lane.received();
        self.policy.handle_received(lane, received, now);
        self.lanes.refresh(lane);
        self.grants_due = true;
    }

    /// Waits no more for what was announced on lanes that have been broken for the deadline: their sources may still speak
    /// to the supervisor, and would hold every slot (docs/protocol.md LANE-15).
    pub(super) fn give_up_broken_lanes(&mut self, now: Instant) {
        if undo::is_undone(Fix::Ac5e2f5) {
            return;
        }
        for lane in 0..self.lanes.lanes.len() {
            let Reception { lane: broken, gone_since, .. } = &self.lanes.lanes[lane];
            // One that is connected again gets time to bring something; if it breaks first, it is looked at then.
            if broken.is_connected()
                || gone_since.is_none_or(|since| now.since(since) < self.config.deadline)
                || self.rosters.awaited().contains(lane)
            {
                continue;
            }
            for slot in 0..self.slots.len() {
                let assembly = &mut self.slots[slot];
                if assembly.state == State::Open
                    && assembly.announced.contains(lane)
                    && !assembly.arrived.contains(lane)
                {
                    assembly.given_up.insert(lane);
                    self.finish_if_over(slot, now);
                }
            }
        }
    }

    /// Frees a slot that was opened by announcements alone, the longest ago.
    pub(super) fn evict_one(&mut self, _now: Instant) -> Option<usize> {
        let provisional = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_provisional());
        let oldest = provisional.min_by_key(|(_, slot)| slot.opened).map(|(index, _)| index)?;
        self.evict(oldest);
        Some(oldest)
    }

    /// Frees the slots of events that sources announced and the supervisor never assigned.
    pub(super) fn evict_provisional(&mut self, now: Instant) {
        let patience = match undo::is_undone(Fix::Cb1826e) {
            true => self.config.deadline.max(Duration::from_millis(100)) * 2,
            false => (self.config.deadline * 2).max(ASSIGNMENT_DELAY),
        };
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_provisional() && now.since(self.slots[slot].opened) > patience {
                self.evict(slot);
                self.free.push(slot);
            }
        }
    }

    fn evict(&mut self, slot: usize) {
        let assembly = &mut self.slots[slot];
        for source in assembly.announced.iter() {
            self.counters.lanes[source].unexpected += 1;
            self.lanes.settle(source, assembly.parts[source].start);
        }
        self.table.remove(assembly.event);
        assembly.abandon(&mut self.pool);
    }
}
