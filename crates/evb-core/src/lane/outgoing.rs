//! [`OutgoingLane`]: the source's end of a lane.

use core::ops::Range;
use std::{collections::VecDeque, io::IoSlice};

use bytes::BytesMut;

use super::LaneError;
use crate::{
    fragment::Fragment,
    id::EventId,
    units::Bytes,
    wire::{
        datagram::Request,
        record::{
            Announcement, FRAGMENT_HEADER, MAX_ANNOUNCEMENTS, MAX_RESEND_RANGES, RecordHeader,
            decode_fragment_header, encode_fragment_header,
        },
    },
};

/// The source's end of a lane to one builder: it keeps the lane's bytes until the builder commits
/// them.
#[derive(Debug, Default)]
pub struct OutgoingLane {
    held: VecDeque<HeldFragment>,
    /// Running number of the first entry in `held`. Entries are identified by running numbers,
    /// which stay valid when entries at the front are removed.
    first: u64,
    /// Running number of the first entry that is not announced yet.
    next_announcement: u64,
    ready: u64,
    /// Lane offset up to which fragments are announced on this connection.
    announced: u64,
    granted: u64,
    /// Number of bytes that the last grant added.
    turn: u64,
    sent: u64,
    committed: u64,
    /// Ranges that the builder requested again and that [`Self::take`] has not returned yet, with
    /// the numbers of the requests.
    resends: VecDeque<(Range<u64>, Request)>,
    held_bytes: u64,
    /// Number of fragments in `held` that are not committed.
    uncommitted: usize,
}

/// Lane bytes that the source may send now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Lane offsets of the bytes to send.
    pub range: Range<u64>,
    /// Number of the builder's request, or 0 if the bytes are sent for the first time.
    pub request: Request,
}

/// Most ranges that may wait to be sent again (docs/reference/protocol.md UDP-16). If the source
/// drops requested ranges beyond that limit, the builder requests them again.
pub(crate) const MAX_RESENDS: usize = 4 * MAX_RESEND_RANGES;

#[derive(Debug)]
struct HeldFragment {
    start: u64,
    announcement: Announcement,
    header: [u8; FRAGMENT_HEADER as usize],
    /// Payload; `None` after the builder committed it out of order, because it will not request the
    /// bytes again.
    payload: Option<bytes::Bytes>,
}

impl OutgoingLane {
    /// Appends a fragment whose event is assigned to this lane's builder
    /// (docs/reference/protocol.md LANE-4, LANE-5).
    pub fn append(&mut self, fragment: Fragment) {
        let length = u32::try_from(fragment.payload.len()).unwrap_or(u32::MAX);
        let Fragment { event, timestamp, lost_packets, .. } = fragment;
        let announcement = Announcement { event, timestamp, length, lost_packets };
        let header = encode_fragment_header(fragment.event, fragment.checksum);
        let start = self.ready;
        self.ready += announcement.lane_length();
        self.held_bytes += u64::from(length);
        self.uncommitted += 1;
        let payload = Some(fragment.payload);
        self.held.push_back(HeldFragment { start, announcement, header, payload });
    }

    /// Returns the events whose fragments are not committed.
    pub(crate) fn held_events(&self) -> impl Iterator<Item = EventId> {
        self.held.iter().filter(|held| held.payload.is_some()).map(|held| held.announcement.event)
    }

    /// Returns the uncommitted fragments of a lane that has ended.
    pub(crate) fn into_uncommitted(self) -> impl Iterator<Item = Fragment> {
        self.held.into_iter().filter_map(|held| {
            let Announcement { event, timestamp, lost_packets, .. } = held.announcement;
            let (_, checksum) = decode_fragment_header(&held.header);
            Some(Fragment { event, timestamp, checksum, payload: held.payload?, lost_packets })
        })
    }

    /// Returns the lane offset at which the last appended fragment ends.
    pub fn ready(&self) -> u64 {
        self.ready
    }

    /// Returns the lane offset up to which [`Self::take`] has returned the bytes for sending.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the lane offset below which the builder has committed all bytes.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Returns the total size of the payloads that are not committed.
    pub fn held_bytes(&self) -> Bytes {
        Bytes::new(self.held_bytes)
    }

    /// Returns the number of fragments that are not committed.
    pub fn held_fragments(&self) -> usize {
        self.uncommitted
    }

    /// Returns true if fragments wait to be announced.
    pub fn has_announcements(&self) -> bool {
        self.unannounced() > 0
    }

    /// Returns the number of fragments that wait to be announced.
    pub(crate) fn unannounced(&self) -> usize {
        self.held.len() - self.index(self.next_announcement)
    }

    /// Returns the number of fragments that begin below that lane offset and wait to be announced.
    pub(crate) fn unannounced_below(&self, offset: u64) -> usize {
        let next = self.index(self.next_announcement);
        self.held.partition_point(|held| held.start < offset).saturating_sub(next)
    }

    /// Appends the next ANNOUNCE record, with at most [`MAX_ANNOUNCEMENTS`] announcements. Returns
    /// the number of announcements.
    pub fn announce(&mut self, into: &mut BytesMut) -> usize {
        self.announce_at_most(MAX_ANNOUNCEMENTS, into)
    }

    /// Appends the next ANNOUNCE record, with at most `limit` announcements. Returns the number of
    /// announcements.
    pub(crate) fn announce_at_most(&mut self, limit: usize, into: &mut BytesMut) -> usize {
        let from = self.index(self.next_announcement);
        let count = self.unannounced().min(limit).min(MAX_ANNOUNCEMENTS);
        if count == 0 {
            return 0;
        }
        let offset = self.held[from].start;
        into.extend_from_slice(&RecordHeader::Announce { count: count as u16, offset }.encode());
        for held in self.held.range(from..from + count) {
            held.announcement.encode(into);
        }
        // `from` counts from the front of `held`, where fragments that are announced again may have
        // been committed and removed since.
        self.next_announcement = self.first + (from + count) as u64;
        self.announced = self.announced.max(self.announced_next());
        count
    }

    /// Repeats the announcements from `offset` on (docs/reference/protocol.md UDP-9).
    pub(crate) fn reannounce(&mut self, offset: u64) -> Result<(), LaneError> {
        self.check_announced(offset)?;
        let position = self.held.partition_point(|held| held.start < offset);
        self.next_announcement = self.next_announcement.min(self.first + position as u64);
        Ok(())
    }

    /// Checks that the builder can know announcements up to lane offset `offset`.
    pub(crate) fn check_announced(&self, offset: u64) -> Result<(), LaneError> {
        match offset > self.announced {
            true => Err(self.outside("announced", offset, self.committed)),
            false => Ok(()),
        }
    }

    /// Returns the lane offset up to which fragments are announced on this connection.
    pub(crate) fn announced(&self) -> u64 {
        self.announced
    }

    /// Returns the lane offset up to which the source may send.
    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// Returns the number of lane bytes that the last grant added.
    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }

    /// Returns the number of bytes that [`Self::take`] can return next: those of a request,
    /// otherwise all bytes that are granted and not sent.
    pub fn sendable(&self) -> u64 {
        match self.resends.front() {
            Some((range, _)) => range.end - range.start,
            None => self.granted.saturating_sub(self.sent),
        }
    }

    /// Returns the number of bytes of [`Self::sendable`] to send next: about `about` bytes that end
    /// with a fragment. Chooses the last fragment end between half of `about` and `about`;
    /// otherwise the first fragment end within twice `about`; otherwise exactly `about` bytes. So a
    /// fragment is sent in one piece while its bytes are in the cache.
    pub fn sendable_whole(&self, about: u64) -> u64 {
        let sendable = self.sendable();
        if sendable <= about / 2 || !self.resends.is_empty() {
            return sendable.min(about);
        }
        let limit = sendable.min(about);
        // The first fragment that ends beyond the limit.
        let beyond = self.held.partition_point(|held| held.end() <= self.sent + limit);
        // Number of bytes up to the end of a fragment.
        let bytes_to_end =
            |index: usize| self.held.get(index).and_then(|held| held.end().checked_sub(self.sent));
        let within =
            beyond.checked_sub(1).and_then(bytes_to_end).filter(|bytes_to_end| *bytes_to_end >= about / 2);
        let next = || bytes_to_end(beyond).filter(|bytes_to_end| *bytes_to_end <= sendable.min(2 * about));
        within.or_else(next).unwrap_or(limit)
    }

    /// Returns at most `limit` granted bytes for sending, requested bytes first
    /// (docs/reference/protocol.md LANE-11, UDP-12).
    pub fn take(&mut self, limit: u64) -> Option<Taken> {
        let length = self.sendable().min(limit);
        if length == 0 {
            return None;
        }
        if let Some((range, request)) = self.resends.front_mut() {
            let taken = Taken { range: range.start..range.start + length, request: *request };
            range.start += length;
            if range.is_empty() {
                self.resends.pop_front();
            }
            return Some(taken);
        }
        let start = self.sent;
        self.sent += length;
        Some(Taken { range: start..self.sent, request: 0 })
    }

    /// Returns true if requested bytes wait to be sent again.
    pub(crate) fn has_resends(&self) -> bool {
        !self.resends.is_empty()
    }

    /// Returns the number of requested ranges that wait to be sent again.
    pub(crate) fn resends(&self) -> usize {
        self.resends.len()
    }

    /// Handles a request to send `range` again, which is also the permission to send it. Bytes that
    /// were never sent are sent later with the new bytes, and committed bytes are not sent. Bytes
    /// beyond `known` were sent so late that the builder cannot have missed them yet. A newer
    /// request for the same bytes replaces an older request (docs/reference/protocol.md UDP-12).
    pub(crate) fn handle_resend(
        &mut self,
        mut range: Range<u64>,
        known: u64,
        request: Request,
    ) -> Result<(), LaneError> {
        if range.end > self.granted.max(self.sent) {
            return Err(self.outside("resend", range.end, self.committed));
        }
        range.end = range.end.min(known);
        self.resends.retain_mut(|(waiting, _)| {
            if waiting.start < range.end && range.start < waiting.end {
                // The part of the older request behind the new range is dropped. If the builder
                // still misses these bytes, it requests them again.
                *waiting = if waiting.start < range.start {
                    waiting.start..range.start
                } else {
                    range.end.min(waiting.end)..waiting.end
                };
            }
            !waiting.is_empty()
        });
        self.queue_resend(range, request);
        Ok(())
    }

    /// Queues the uncommitted bytes of a range to be sent again.
    fn queue_resend(&mut self, range: Range<u64>, request: Request) {
        let mut start = range.start.max(self.committed);
        let end = range.end.min(self.sent);
        let first = self.held.partition_point(|held| held.end() <= start);
        for held in self.held.range(first..).take_while(|held| held.start < end) {
            let (from, to) = (start.max(held.start), end.min(held.end()));
            let has_room = self.resends.len() < MAX_RESENDS;
            match self.resends.back_mut() {
                // Committed bytes are gone.
                _ if held.payload.is_none() || from >= to => {}
                Some((last, of)) if *of == request && last.end == from => last.end = to,
                _ if has_room => self.resends.push_back((from..to, request)),
                _ => {}
            }
            start = to;
        }
    }

    /// Collects the memory of a range that [`Self::take`] returned, in at most `slices.capacity()`
    /// pieces. Returns the number of bytes collected; that is less than the range if the capacity
    /// is too small, or if the builder committed the range in the meantime.
    pub fn gather<'a>(&'a self, range: Range<u64>, slices: &mut Vec<IoSlice<'a>>) -> u64 {
        let room = slices.capacity() - slices.len();
        self.pieces(range, room, |piece| slices.push(IoSlice::new(piece)))
    }

    /// Calls `each` for the pieces of memory of a range, at most `room` times. Returns the number
    /// of bytes in these pieces.
    pub fn pieces<'a>(&'a self, range: Range<u64>, room: usize, mut each: impl FnMut(&'a [u8])) -> u64 {
        let mut at = range.start;
        let mut room = room;
        let first = self.held.partition_point(|held| held.end() <= at);
        for held in self.held.range(first..) {
            // A fragment may need two pieces, one of its header and one of its payload.
            if at >= range.end || room < 2 {
                break;
            }
            let Some(payload) = &held.payload else { break };
            let Some(mut within) = at.checked_sub(held.start) else { break };
            if within < FRAGMENT_HEADER {
                let piece = &held.header[within as usize..];
                let piece = &piece[..piece.len().min((range.end - at) as usize)];
                each(piece);
                room -= 1;
                at += piece.len() as u64;
                within += piece.len() as u64;
            }
            if at < range.end && within < FRAGMENT_HEADER + payload.len() as u64 {
                let piece = &payload[(within - FRAGMENT_HEADER) as usize..];
                let piece = &piece[..piece.len().min((range.end - at) as usize)];
                each(piece);
                room -= 1;
                at += piece.len() as u64;
            }
        }
        at - range.start
    }

    /// Handles a grant up to lane offset `end`. A grant below an earlier grant changes nothing
    /// (docs/reference/protocol.md LANE-8).
    pub fn handle_grant(&mut self, end: u64) -> Result<(), LaneError> {
        if end > self.announced {
            return Err(self.outside("grant", end, self.sent));
        }
        if end > self.granted {
            self.turn = end - self.granted;
            self.granted = end;
        }
        Ok(())
    }

    /// Handles a commit of all bytes below `offset` and of `ranges` above it, and frees their
    /// memory.
    /// Requirements: docs/reference/protocol.md LANE-17.
    pub fn handle_commit(&mut self, offset: u64, ranges: &[Range<u64>]) -> Result<(), LaneError> {
        let highest = ranges.iter().map(|range| range.end).max().unwrap_or(offset);
        if offset.max(highest) > self.sent {
            return Err(self.outside("commit", offset.max(highest), self.committed));
        }
        let mut let_go = |held: &mut HeldFragment| {
            if held.payload.take().is_some() {
                self.held_bytes -= u64::from(held.announcement.length);
                self.uncommitted -= 1;
            }
        };
        while let Some(mut held) = self.held.pop_front_if(|held| held.end() <= offset) {
            self.first += 1;
            let_go(&mut held);
        }
        self.committed = self.committed.max(offset);
        for range in ranges {
            let from = self.held.partition_point(|held| held.start < range.start);
            self.held.range_mut(from..).take_while(|held| held.end() <= range.end).for_each(&mut let_go);
        }
        // Committed bytes need not be sent again, so they leave the queue.
        for (range, request) in core::mem::take(&mut self.resends) {
            self.queue_resend(range, request);
        }
        Ok(())
    }

    /// Begins a new connection to a builder that has received the bytes up to `received` and knows
    /// the announcements up to `announced`.
    /// Requirements: docs/reference/protocol.md LANE-20, LANE-21.
    pub fn handle_reconnect(&mut self, received: u64, announced: u64) -> Result<(), LaneError> {
        let lowest = self.held.front().map_or(self.ready, |held| held.start);
        // Fragments that were deleted although the builder has not received them.
        let is_gone = |held: &HeldFragment| held.payload.is_none() && held.end() > received;
        if received < self.committed || received > announced || self.held.iter().any(is_gone) {
            return Err(self.outside("received", received, self.committed));
        }
        if announced < lowest || announced > self.announced {
            return Err(self.outside("announced", announced, lowest));
        }
        // The announcements go on with a whole fragment.
        let position = self.held.partition_point(|held| held.start < announced);
        if self.held.get(position).map_or(self.ready, |held| held.start) != announced {
            return Err(self.outside("announced", announced, lowest));
        }
        self.next_announcement = self.first + position as u64;
        self.sent = received;
        self.granted = received;
        self.announced = announced;
        self.resends.clear();
        Ok(())
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        let Self { ready, announced, granted, sent, committed, .. } = *self;
        assert!(
            committed <= sent && sent <= granted && granted <= announced && announced <= ready,
            "committed {committed} ≤ sent {sent} ≤ granted {granted} ≤ announced {announced} ≤ ready {ready}"
        );
        let mut end = self.held.front().map_or(ready, |held| held.start);
        for held in &self.held {
            assert_eq!(held.start, end, "each fragment begins where the previous one ends: {self:?}");
            end = held.end();
        }
        assert_eq!(end, ready, "the last fragment ends at the end of the lane: {self:?}");
        let is_kept = |held: &&HeldFragment| held.payload.is_some();
        let bytes = |held: &HeldFragment| u64::from(held.announcement.length);
        assert_eq!(self.held.iter().filter(is_kept).count(), self.uncommitted, "{self:?}");
        assert_eq!(self.held.iter().filter(is_kept).map(bytes).sum::<u64>(), self.held_bytes, "{self:?}");
        assert!(self.resends.len() <= MAX_RESENDS);
        for (range, _) in &self.resends {
            assert!(committed <= range.start && range.start < range.end && range.end <= sent, "{self:?}");
        }
    }

    /// Returns the lane offset of the next announcement, which is below [`Self::announced`] while
    /// announcements are repeated.
    pub(crate) fn announced_next(&self) -> u64 {
        self.held.get(self.index(self.next_announcement)).map_or(self.ready, |held| held.start)
    }

    fn index(&self, sequence: u64) -> usize {
        sequence.saturating_sub(self.first) as usize
    }

    fn outside(&self, what: &'static str, offset: u64, from: u64) -> LaneError {
        LaneError::Outside { what, offset, from, to: self.announced }
    }
}

impl HeldFragment {
    fn end(&self) -> u64 {
        self.start + self.announcement.lane_length()
    }
}
