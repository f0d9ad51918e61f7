//! [`Reception`]: the builder's end of one source's lane, and the fragment that is arriving on it.

mod datagrams;

#[cfg(test)]
mod tests;

use core::{ops::Range, time::Duration};

use bytes::BytesMut;

pub(super) use datagrams::DatagramEffect;

use super::{
    counters::DatagramCounters,
    slots::{Slots, Unwanted},
};
use crate::{
    fragment::{Checksum, RunningChecksum},
    grant::{Grant, LaneDemand},
    id::Incarnation,
    index::{LaneIndex, SlotIndex},
    lane::{Arrival, IncomingDatagrams, IncomingLane, LaneError},
    time::Instant,
    units::Bytes,
    wire::{
        control::{LaneReport, LaneState},
        record::{Announcement, FRAGMENT_HEADER, RecordHeader, decode_fragment_header, encode_commit},
    },
};

const HEADER: usize = FRAGMENT_HEADER as usize;

/// The builder's end of a lane, over a stream or over datagrams.
#[derive(Debug)]
pub(super) struct Reception {
    /// Index of the lane and of its source.
    index: LaneIndex,
    max_fragment: Bytes,
    incoming: IncomingLane,
    /// Incarnation of the source that the lane belongs to.
    incarnation: Incarnation,
    /// The datagram state; `None` for a lane over a stream.
    datagrams: Option<Box<IncomingDatagrams>>,
    /// Datagram counters of the lane's earlier connections.
    past: DatagramCounters,
    /// Counters over all connections of the lane and all incarnations of its source.
    counters: LaneReport,
    /// The bytes of a header that arrives in pieces.
    header: [u8; HEADER],
    /// Checksum in the header of the fragment that is arriving.
    checksum: Checksum,
    running: RunningChecksum,
    granted_sent: u64,
    /// Time since which the connection is gone and no data has arrived; `None` while data arrives.
    gone_since: Option<Instant>,
}

/// Effect of lane bytes that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneEffect {
    /// No event needs the bytes, and the source may forget them.
    Discarded,
    /// The bytes are part of a fragment.
    Partial,
    /// The bytes complete a fragment.
    Whole {
        /// Slot of the fragment's event.
        slot: SlotIndex,
        /// True if the fragment's checksum is right.
        is_intact: bool,
    },
}

impl Reception {
    /// Sets the size of the largest fragment of a source that has not registered before.
    pub(super) fn set_max_fragment(&mut self, max_fragment: Bytes) {
        self.max_fragment = max_fragment;
        self.incoming.set_max_fragment(max_fragment.count());
    }

    /// Returns an empty lane that starts with these `counters` of its source.
    pub(super) fn new(index: LaneIndex, max_fragment: Bytes, counters: LaneReport) -> Self {
        Self {
            index,
            max_fragment,
            incoming: IncomingLane::new(max_fragment.count()),
            incarnation: Incarnation::default(),
            datagrams: None,
            past: DatagramCounters::default(),
            counters,
            header: [0; HEADER],
            checksum: Checksum::default(),
            running: RunningChecksum::default(),
            granted_sent: 0,
            gone_since: None,
        }
    }

    /// Begins the lane at 0, as its source has restarted.
    pub(super) fn restart(&mut self, incarnation: Incarnation) {
        let fresh = Self::new(self.index, self.max_fragment, self.counters);
        *self = Self { past: self.past, incarnation, ..fresh };
    }

    /// Returns the lane's offsets and the list of its fragments.
    pub(super) fn incoming(&self) -> &IncomingLane {
        &self.incoming
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    pub(super) fn counters(&self) -> &LaneReport {
        &self.counters
    }

    pub(super) fn counters_mut(&mut self) -> &mut LaneReport {
        &mut self.counters
    }

    /// Notes that the source connected or reconnected. Returns the lane's state, from which the
    /// source continues.
    pub(super) fn connect(&mut self) -> LaneState {
        self.incoming.handle_connected();
        let (received, announced) = (self.incoming.received(), self.incoming.ready());
        self.granted_sent = received;
        if received == announced {
            self.gone_since = None;
        }
        self.counters.reconnects += u64::from(announced > 0);
        LaneState { received, announced, committed: self.incoming.committed() }
    }

    /// Notes that the lane's connection is gone. Returns the connection's datagram state, if the
    /// lane used datagrams.
    pub(super) fn disconnect(&mut self, now: Instant) -> Option<Box<IncomingDatagrams>> {
        self.incoming.handle_disconnected();
        self.gone_since.get_or_insert(now);
        let datagrams = self.datagrams.take()?;
        self.past = self.past.and(&datagrams);
        Some(datagrams)
    }

    /// Returns true if the connection has been gone for `patience` and no byte has arrived in that
    /// time. A lane that reconnected gets time to deliver; if its connection breaks again before
    /// any byte arrives, the time counts from the first break.
    pub(super) fn is_broken(&self, patience: Duration, now: Instant) -> bool {
        !self.incoming.is_connected() && self.gone_since.is_some_and(|since| now.since(since) >= patience)
    }

    /// Returns the grant policy's view of the lane.
    pub(super) fn demand(&self) -> LaneDemand {
        let demand = self.incoming.demand();
        match &self.datagrams {
            None => demand,
            // Before the source has sent a datagram, its UDP address is unknown, and no grant could
            // reach it.
            Some(datagrams) => LaneDemand {
                lost: datagrams.lost(),
                connected: demand.connected && datagrams.is_met,
                ..demand
            },
        }
    }

    /// Applies a grant: the source may send new bytes, or send lost bytes again.
    pub(super) fn grant(&mut self, grant: &Grant, now: Instant) {
        let range = grant.start..grant.end;
        match (grant.request, &mut self.datagrams) {
            (0, datagrams) => {
                self.incoming.grant(grant.end);
                if let Some(datagrams) = datagrams {
                    datagrams.permit(range, now);
                }
            }
            (_, Some(datagrams)) => datagrams.ask(range, now),
            (_, None) => {}
        }
    }

    /// Lets the source forget the fragment that begins at `start`, because the ledger has its event
    /// or no event needs the fragment.
    pub(super) fn settle(&mut self, start: u64) {
        self.incoming.settle(start);
    }

    /// Accepts the announcements of one record, and adds each fragment to its event in the order of
    /// the record.
    pub(super) fn announce(
        &mut self,
        mut start: u64,
        announcements: impl Iterator<Item = Announcement>,
        slots: &mut Slots,
        now: Instant,
    ) -> Result<(), LaneError> {
        for announcement in announcements {
            if self.incoming.check_announcement(start, &announcement)? {
                let slot = slots.announce(self.index.get(), start, &announcement, now);
                match slot {
                    Ok(_) => {}
                    Err(Unwanted::Duplicate) => self.counters.duplicate += 1,
                    Err(Unwanted::Late) => self.counters.late += 1,
                    Err(Unwanted::Unexpected) => self.counters.unexpected += 1,
                }
                self.incoming.push(announcement, slot.ok());
            }
            start = start.saturating_add(announcement.lane_length());
        }
        Ok(())
    }

    /// Stores bytes up to the end of the fragment that is arriving; returns how many bytes it used.
    #[inline]
    pub(super) fn take(&mut self, bytes: &[u8], slots: &mut Slots) -> Result<(usize, LaneEffect), LaneError> {
        let Some(arrival) = self.incoming.arrival() else {
            let offset = self.incoming.received();
            return Err(LaneError::NotGranted { end: offset + bytes.len() as u64, granted: offset });
        };
        let count = bytes.len().min(usize::try_from(arrival.remaining).unwrap_or(usize::MAX));
        if let Some(slot) = slot_of(&arrival) {
            self.store(slot, &arrival, &bytes[..count], slots)?;
        }
        Ok((count, self.advance(&arrival, count as u64, slots)))
    }

    /// Returns memory for the next bytes of a large fragment, and the most bytes to read into it.
    pub(super) fn spare_memory<'a>(&self, slots: &'a mut Slots) -> Option<(&'a mut BytesMut, usize)> {
        let arrival = self.incoming.arrival()?;
        if arrival.position < FRAGMENT_HEADER {
            return None;
        }
        let memory = slots.room(slot_of(&arrival)?).0.own_memory(self.index.get())?;
        Some((memory, usize::try_from(arrival.remaining).unwrap_or(usize::MAX)))
    }

    /// Notes that the driver has read `count` bytes into [`Self::spare_memory`].
    pub(super) fn fill(&mut self, count: usize, slots: &mut Slots) -> Option<LaneEffect> {
        let arrival = self.incoming.arrival()?;
        if let Some(memory) =
            slot_of(&arrival).and_then(|slot| slots.room(slot).0.own_memory(self.index.get()))
        {
            self.running.follow(memory);
        }
        Some(self.advance(&arrival, count as u64, slots))
    }

    /// Notes that lane bytes arrived. Returns the lane offset up to which all bytes have arrived.
    pub(super) fn note_received(&mut self) -> u64 {
        self.gone_since = None;
        self.incoming.received()
    }

    /// Appends the records that wait for the source of a lane over a stream
    /// (docs/reference/protocol.md LANE-18). `ranges` is scratch memory.
    pub(super) fn write_records(&mut self, ranges: &mut Vec<Range<u64>>, into: &mut BytesMut) {
        let granted = self.incoming.granted();
        if granted > self.granted_sent {
            self.granted_sent = granted;
            into.extend_from_slice(&RecordHeader::Grant { end: granted }.encode());
        }
        if self.incoming.is_commit_due() {
            let offset = self.incoming.take_commit(ranges);
            encode_commit(offset, ranges, into);
        }
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        self.incoming.invariants();
        self.datagrams.iter().for_each(|datagrams| datagrams.recovery.invariants());
    }

    /// Stores a piece of the fragment that is arriving. The fragment's header is checked before any
    /// room is made for the payload; so a lane that is closed for a wrong header leaves no partial
    /// payload, and the fragment can be sent again.
    /// Requirements: docs/reference/protocol.md LANE-12.
    fn store(
        &mut self,
        slot: SlotIndex,
        arrival: &Arrival,
        piece: &[u8],
        slots: &mut Slots,
    ) -> Result<(), LaneError> {
        let position = arrival.position as usize;
        let mut payload = piece;
        if position < HEADER {
            let Some((header, rest)) = self.take_header(position, piece) else { return Ok(()) };
            let announced = arrival.fragment.announcement.event;
            let (found, checksum) = decode_fragment_header(&header);
            if found != announced {
                return Err(LaneError::WrongEvent { offset: arrival.fragment.start, found, announced });
            }
            self.checksum = checksum;
            let (assembly, pool) = slots.room(slot);
            if assembly.begin(self.index.get(), pool) {
                self.running = RunningChecksum::default();
            }
            payload = rest;
        }
        if !payload.is_empty() {
            let at = position.max(HEADER) - HEADER;
            slots.room(slot).0.write(self.index.get(), at, payload, &mut self.running);
        }
        Ok(())
    }

    /// Returns the header of the fragment that is arriving and the payload bytes after it. Returns
    /// `None` if `piece`, which begins at `position` of the fragment, does not complete the header.
    fn take_header<'a>(&mut self, position: usize, piece: &'a [u8]) -> Option<([u8; HEADER], &'a [u8])> {
        if position == 0
            && let Some((header, rest)) = piece.split_first_chunk()
        {
            return Some((*header, rest));
        }
        let (part, rest) = piece.split_at(piece.len().min(HEADER - position));
        let end = position + part.len();
        self.header[position..end].copy_from_slice(part);
        (end == HEADER).then_some((self.header, rest))
    }

    /// Advances the lane by `count` bytes, and verifies the checksum of a fragment at its end.
    /// Requirements: docs/reference/protocol.md LANE-13.
    #[inline]
    fn advance(&mut self, arrival: &Arrival, count: u64, slots: &mut Slots) -> LaneEffect {
        self.incoming.advance(count);
        let Some(slot) = slot_of(arrival) else { return LaneEffect::Discarded };
        if count < arrival.remaining {
            return LaneEffect::Partial;
        }
        let assembly = &mut slots.room(slot).0;
        let is_right = assembly.finish(self.index.get(), self.checksum, &mut self.running);
        let is_intact = is_right && !assembly.is_lost(self.index.get());
        if is_intact {
            self.counters.fragments += 1;
            self.counters.payload_bytes += u64::from(arrival.fragment.announcement.length);
        } else {
            self.counters.crc_errors += u64::from(!is_right);
            self.settle(arrival.fragment.start);
        }
        LaneEffect::Whole { slot, is_intact }
    }
}

fn slot_of(arrival: &Arrival) -> Option<SlotIndex> {
    arrival.fragment.slot
}
