//! [`SourceLane`]: a source's end of the lane to one builder, with the schedule of its
//! announcements.

#[cfg(test)]
mod tests;

use core::{ops::Range, time::Duration};
use std::io::IoSlice;

use bytes::BytesMut;

use crate::{
    fragment::Fragment,
    id::{EventId, SourceId},
    lane::{
        ANNOUNCED_AT_ONCE, Announcing, DatagramFault, LaneError, OutgoingDatagrams, OutgoingLane, Request,
        Sealing, Taken,
    },
    time::{Instant, earlier},
    wire::{
        control::SourceReport,
        datagram::{Association, DatagramHeader, DatagramKind},
        record::{COMMIT_RANGE, RecordHeader, decode_range, next_record},
    },
};

/// Divisor of the builders' deadline that gives the longest delay of announcements.
const WAIT_PART: u32 = 16;

/// Times that apply to all lanes of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneTimes {
    source: SourceId,
    /// Longest time for which an announcement is delayed.
    longest_wait: Duration,
    /// Time in which full switch ports on the way to a builder drain.
    queue: Duration,
}

impl LaneTimes {
    /// Returns the times for a source whose builders give up unannounced fragments when `deadline`
    /// has passed since the assignment.
    pub(super) fn new(source: SourceId, deadline: Duration, queue: Duration) -> Self {
        Self { source, longest_wait: deadline / WAIT_PART, queue }
    }

    fn announcing(&self) -> Announcing {
        Announcing::new(self.source, self.longest_wait, self.queue)
    }
}

/// A source's end of the lane to one builder: the lane's bytes, and the records of its connection.
#[derive(Debug)]
pub(super) struct SourceLane {
    outgoing: OutgoingLane,
    is_connected: bool,
    /// Schedule of announcements on a stream.
    announcing: Announcing,
    /// Datagram state; `None` for a lane over a stream.
    datagrams: Option<OutgoingDatagrams>,
    counters: LaneCounters,
    /// Scratch memory for the ranges of a commit.
    ranges: Vec<Range<u64>>,
}

/// A lane's part of its source's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaneCounters {
    pub(super) announced: u64,
    pub(super) committed: u64,
    pub(super) reconnects: u64,
    pub(super) resends: u64,
    pub(super) sent_bytes: u64,
}

impl LaneCounters {
    /// Adds the counters to those of the source.
    pub(super) fn add_to(&self, all: &mut SourceReport) {
        all.announced += self.announced;
        all.committed += self.committed;
        all.reconnects += self.reconnects;
        all.resends += self.resends;
        all.sent_bytes += self.sent_bytes;
    }
}

impl SourceLane {
    /// Returns an empty lane.
    pub(super) fn new(times: &LaneTimes) -> Self {
        Self {
            outgoing: OutgoingLane::default(),
            is_connected: false,
            announcing: times.announcing(),
            datagrams: None,
            counters: LaneCounters::default(),
            ranges: Vec::new(),
        }
    }

    /// Returns the counters over all connections and incarnations.
    pub(super) fn counters(&self) -> LaneCounters {
        self.counters
    }

    /// Returns the lane's offsets and its uncommitted fragments.
    pub(super) fn outgoing(&self) -> &OutgoingLane {
        &self.outgoing
    }

    /// Returns true if the lane's connection is up.
    pub(super) fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Appends a fragment whose event is assigned to this lane's builder.
    pub(super) fn append(&mut self, fragment: Fragment) {
        self.outgoing.append(fragment);
    }

    /// Ends the lane, and returns its uncommitted fragments. Later fragments begin a new lane at
    /// offset 0.
    pub(super) fn restart(&mut self) -> impl Iterator<Item = Fragment> + use<> {
        self.handle_disconnected();
        core::mem::take(&mut self.outgoing).into_uncommitted()
    }

    /// Notes that the builder accepted the connection. `received` and `announced` are the builder's
    /// state of the lane.
    pub(super) fn handle_connected(&mut self, received: u64, announced: u64) -> Result<(), LaneError> {
        self.outgoing.handle_reconnect(received, announced)?;
        self.counters.reconnects += u64::from(received > 0);
        self.is_connected = true;
        Ok(())
    }

    /// Notes that the lane's connection is gone.
    pub(super) fn handle_disconnected(&mut self) {
        self.is_connected = false;
        self.announcing.reset();
        self.datagrams = None;
    }

    /// Handles a grant. Returns true if announcements wait, because the builder may have few
    /// announced bytes left to grant.
    pub(super) fn handle_grant(&mut self, end: u64) -> Result<bool, LaneError> {
        self.outgoing.handle_grant(end)?;
        Ok(self.outgoing.has_announcements())
    }

    /// Handles a commit, and frees the memory of the committed fragments.
    pub(super) fn handle_commit(&mut self, offset: u64, ranges: &[Range<u64>]) -> Result<(), LaneError> {
        let before = self.outgoing.held_fragments();
        self.outgoing.handle_commit(offset, ranges)?;
        self.counters.committed += (before - self.outgoing.held_fragments()) as u64;
        Ok(())
    }

    /// Appends the announcements that are due to the lane's stream. Returns true if further
    /// announcements wait.
    pub(super) fn announce(&mut self, now: Instant, into: &mut BytesMut) -> bool {
        let mut left = self.announcing.batch(&self.outgoing, now);
        while left > 0 {
            let count = self.outgoing.announce_at_most(left, into);
            self.counters.announced += count as u64;
            left = if count == 0 { 0 } else { left - count };
        }
        self.announcing.note(&self.outgoing, now);
        self.outgoing.has_announcements()
    }

    /// Returns true if announcements are due, or, for a lane over datagrams, any other records.
    pub(super) fn is_announcement_due(&mut self, now: Instant) -> bool {
        self.is_connected
            && match &mut self.datagrams {
                Some(datagrams) => datagrams.is_due(&self.outgoing, now),
                None => self.announcing.is_due(&self.outgoing, ANNOUNCED_AT_ONCE, now),
            }
    }

    /// Returns the time at which to call [`Self::handle_timeout`].
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        earlier(self.announcing.next(), self.datagrams.as_ref().and_then(OutgoingDatagrams::next_timeout))
    }

    /// Handles timers that have expired. Returns true if the lane may have announcements to send or
    /// to repeat.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        let mut wants = is_due(self.announcing.next());
        if let Some(datagrams) = &mut self.datagrams
            && is_due(datagrams.next_timeout())
        {
            wants = true;
            if datagrams.is_repeat_due(now) {
                // The offset cannot be out of range, because it was announced on this connection.
                let _ = self.outgoing.reannounce(datagrams.acknowledged);
            }
        }
        wants
    }

    /// Returns the number of bytes that may be sent now; 0 without a connection.
    pub(super) fn sendable(&self) -> u64 {
        if self.is_connected { self.outgoing.sendable() } else { 0 }
    }

    /// Returns the number of bytes of [`Self::sendable`] to send next: about `about` bytes that end
    /// with a fragment if possible (see [`OutgoingLane::sendable_whole`]).
    pub(super) fn sendable_whole(&self, about: u64) -> u64 {
        if self.is_connected { self.outgoing.sendable_whole(about) } else { 0 }
    }

    /// Returns at most `limit` granted bytes for sending.
    pub(super) fn take(&mut self, limit: u64) -> Option<Taken> {
        if !self.is_connected {
            return None;
        }
        let taken = self.outgoing.take(limit)?;
        self.counters.sent_bytes += taken.range.end - taken.range.start;
        Some(taken)
    }

    /// Collects the memory of a range that [`Self::take`] returned (see [`OutgoingLane::gather`]).
    pub(super) fn gather<'a>(&'a self, range: Range<u64>, slices: &mut Vec<IoSlice<'a>>) -> u64 {
        self.outgoing.gather(range, slices)
    }

    /// Returns the events whose fragments the lane keeps until they are committed.
    pub(super) fn held_events(&self) -> impl Iterator<Item = EventId> {
        self.outgoing.held_events()
    }

    /// Makes the lane's records and data travel in datagrams of that association, until the
    /// connection ends.
    pub(super) fn associate(
        &mut self,
        association: Association,
        estimate: Option<Duration>,
        datagram: usize,
        times: &LaneTimes,
    ) {
        let announced = self.outgoing.announced();
        let mut datagrams =
            OutgoingDatagrams::new(association, estimate, datagram, announced, times.announcing());
        datagrams.expect_queue(times.queue);
        self.datagrams = Some(datagrams);
    }

    /// Handles a datagram of the builder. PROBE_REPLY datagrams are handled by the driver.
    /// Requirements: docs/reference/protocol.md UDP-3, UDP-4.
    pub(super) fn handle_datagram(
        &mut self,
        header: &DatagramHeader,
        mut body: &[u8],
        now: Instant,
    ) -> Result<(), DatagramFault> {
        let datagrams = self.datagrams.as_mut().filter(|known| known.association() == header.association);
        let Some(datagrams) = datagrams else { return Err(DatagramFault::Stale) };
        match header.kind {
            DatagramKind::Records => {}
            DatagramKind::ProbeReply => return Ok(()),
            DatagramKind::Data | DatagramKind::Probe => return Err(DatagramFault::WrongDirection),
        }
        datagrams.note_sent(self.outgoing.sent(), now);
        let is_newer = datagrams.handle_header(header, now);
        while let Some((record, items)) = next_record(&mut body)? {
            let items = items.as_chunks::<COMMIT_RANGE>().0.iter().map(decode_range);
            match record {
                RecordHeader::Grant { end } => self.outgoing.handle_grant(end)?,
                RecordHeader::Commit { offset, .. } => {
                    let mut ranges = core::mem::take(&mut self.ranges);
                    ranges.clear();
                    for range in items {
                        ranges.push(range?);
                    }
                    let outcome = self.handle_commit(offset, &ranges);
                    self.ranges = ranges;
                    outcome?;
                }
                RecordHeader::Resend { request, .. } => {
                    for range in items {
                        self.resend(range?, request, now)?;
                    }
                }
                RecordHeader::Announced { offset } => self.handle_announced(offset, now)?,
                // If this datagram is not the newest, the source has repeated the announcements
                // since (docs/reference/protocol.md UDP-9).
                RecordHeader::Reannounce { offset } => {
                    self.handle_announced(offset, now)?;
                    if is_newer {
                        self.outgoing.reannounce(offset)?;
                        if let Some(datagrams) = &mut self.datagrams {
                            datagrams.handle_missing();
                        }
                    }
                }
                RecordHeader::Announce { .. } | RecordHeader::Data { .. } => {
                    return Err(DatagramFault::WrongDirection);
                }
            }
        }
        Ok(())
    }

    /// Appends one datagram of records: announcements that are due, and acknowledgements. Returns
    /// false for a lane over a stream.
    pub(super) fn write_datagram(&mut self, now: Instant, into: &mut BytesMut) -> bool {
        let Some(datagrams) = &mut self.datagrams else { return false };
        self.counters.announced += datagrams.write(&mut self.outgoing, now, into) as u64;
        true
    }

    /// Returns the header fields that the datagrams of a train share; `None` without an
    /// association.
    pub(super) fn sealing(&mut self, request: Request) -> Option<Sealing> {
        let datagrams = self.datagrams.as_mut()?;
        Some(datagrams.sealing(DatagramKind::Data, request, &self.outgoing))
    }

    /// Returns the datagram state; `None` for a lane over a stream.
    pub(super) fn datagrams(&self) -> Option<&OutgoingDatagrams> {
        self.datagrams.as_ref()
    }

    /// Returns the datagram state for changes; `None` for a lane over a stream.
    pub(super) fn datagrams_mut(&mut self) -> Option<&mut OutgoingDatagrams> {
        self.datagrams.as_mut()
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        self.outgoing.invariants();
        assert!(self.is_connected || self.datagrams.is_none(), "an association needs a connection: {self:?}");
    }

    fn resend(&mut self, range: Range<u64>, request: Request, now: Instant) -> Result<(), DatagramFault> {
        let known = self.datagrams.as_ref().map_or(u64::MAX, |datagrams| datagrams.can_be_missed(now));
        let before = self.outgoing.resends();
        self.outgoing.handle_resend(range, known, request)?;
        self.counters.resends += u64::from(self.outgoing.resends() > before);
        Ok(())
    }

    fn handle_announced(&mut self, offset: u64, now: Instant) -> Result<(), LaneError> {
        self.outgoing.check_announced(offset)?;
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.handle_announced(offset, &self.outgoing, now);
        }
        Ok(())
    }
}
