//! [`IncomingLane`]: the builder's end of a lane.

use core::ops::Range;
use std::collections::VecDeque;

use super::LaneError;
use crate::{
    grant::LaneDemand,
    id::EventId,
    index::SlotIndex,
    wire::record::{Announcement, FRAGMENT_HEADER, MAX_COMMIT_RANGES},
};

/// Number of entries at the front of the list to check before a binary search: usually the entry
/// looked for is behind one that stays open for long and one merged entry.
const NEAR: usize = 4;

/// The builder's end of one source's lane.
///
/// The lane offset at which a fragment begins identifies it. A fragment is settled when no event
/// needs its bytes any more. Adjacent settled fragments are merged into one entry, so that the list
/// has at most two entries per fragment that still has a slot, plus one. Merging entries bounds the
/// memory that a peer's announcements can use, and an event that stays open for long delays no
/// other event (docs/reference/protocol.md LANE-22).
#[derive(Debug)]
pub struct IncomingLane {
    /// Entries without gaps, from the first uncommitted byte to `ready`.
    pub(super) held: VecDeque<IncomingFragment>,
    /// Index in `held` of the entry that the next byte belongs to, or the length of `held` if all
    /// announced bytes have arrived.
    arriving: usize,
    /// Number of settled entries in `held`.
    settled: usize,
    ready: u64,
    granted: u64,
    received: u64,
    committed: u64,
    max_fragment: u64,
    /// Most bytes that the builder may grant beyond `received`.
    window: u64,
    commit_due: bool,
    connected: bool,
}

/// An announced fragment, or several adjacent fragments that were received or given up, merged into
/// one entry.
#[derive(Clone, Copy, Debug)]
pub struct IncomingFragment {
    /// The announcement of the fragment, or of the first of the merged fragments.
    pub announcement: Announcement,
    /// Lane offset at which the entry begins.
    pub start: u64,
    /// Slot that gets the fragment's bytes. With `None`, the builder discards the bytes, and the
    /// source may forget them.
    pub slot: Option<SlotIndex>,
    end: u64,
}

/// The fragment that the next lane bytes belong to.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The fragment's entry.
    pub fragment: IncomingFragment,
    /// Number of the fragment's lane bytes that have arrived.
    pub position: u64,
    /// Number of the fragment's lane bytes that have not arrived.
    pub remaining: u64,
}

impl IncomingLane {
    /// Sets the size of the largest payload.
    pub(crate) fn set_max_fragment(&mut self, max_fragment: u64) {
        self.max_fragment = max_fragment;
    }

    /// Returns an empty lane, for payloads of at most `max_fragment` bytes.
    pub fn new(max_fragment: u64) -> Self {
        Self {
            held: VecDeque::new(),
            arriving: 0,
            settled: 0,
            ready: 0,
            granted: 0,
            received: 0,
            committed: 0,
            max_fragment,
            window: u64::MAX,
            commit_due: false,
            connected: false,
        }
    }

    /// Returns the lane offset up to which fragments are announced.
    pub fn ready(&self) -> u64 {
        self.ready
    }

    /// Returns the lane offset up to which all bytes have arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the lane offset up to which the source may send.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Returns the lane offset below which the source may forget all bytes.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Returns true if the source is connected.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Returns the grant policy's view of the lane.
    pub fn demand(&self) -> LaneDemand {
        let next = self.at(self.granted);
        LaneDemand {
            ready: self.ready.min(self.received.saturating_add(self.window)).max(self.granted),
            granted: self.granted,
            received: self.received,
            oldest: next.map_or(EventId::FIRST, |held| held.announcement.event),
            oldest_end: next.map_or(self.ready, IncomingFragment::end),
            fragment: self.mean_fragment(),
            connected: self.connected,
            lost: None,
        }
    }

    /// Limits grants to `window` bytes beyond the first missing byte: a lane over datagrams can
    /// keep early bytes only so far (docs/reference/protocol.md UDP-11).
    pub(crate) fn limit_window(&mut self, window: u64) {
        self.window = window;
    }

    /// Returns true if there is a commit that the source has not been told.
    pub fn is_commit_due(&self) -> bool {
        self.commit_due
    }

    /// Notes that the source connected or reconnected. Grants beyond `received` are void.
    /// Requirements: docs/reference/protocol.md LANE-20.
    pub fn handle_connected(&mut self) {
        self.connected = true;
        self.granted = self.received;
        self.commit_due = true;
    }

    /// Notes that the connection of the source is gone.
    pub fn handle_disconnected(&mut self) {
        self.connected = false;
    }

    /// Checks an announcement whose fragment begins at lane offset `start`. Returns false for a
    /// repeated announcement, which the caller skips (docs/reference/protocol.md LANE-6, LANE-7).
    pub fn check_announcement(&self, start: u64, announcement: &Announcement) -> Result<bool, LaneError> {
        if start > self.ready {
            return Err(LaneError::AnnouncementGap { offset: start, announced: self.ready });
        }
        if start < self.ready {
            let end = start.saturating_add(announcement.lane_length());
            return if end > self.ready {
                Err(LaneError::AnnouncementMismatch { offset: start })
            } else {
                Ok(false)
            };
        }
        if announcement.event.number() == 0 {
            return Err(LaneError::EventZero);
        }
        if u64::from(announcement.length) > self.max_fragment {
            return Err(LaneError::Oversize {
                event: announcement.event,
                length: announcement.length,
                limit: self.max_fragment,
            });
        }
        Ok(true)
    }

    /// Adds an announcement that was checked. The fragment's bytes go to `slot`; with `None`, they
    /// are discarded.
    pub fn push(&mut self, announcement: Announcement, slot: Option<SlotIndex>) {
        let start = self.ready;
        self.ready = start.saturating_add(announcement.lane_length());
        match self.held.back_mut() {
            // Neighbours that are both discarded share an entry.
            Some(last) if slot.is_none() && last.slot.is_none() => {
                last.end = self.ready;
                self.arriving = self.arriving.min(self.held.len() - 1);
            }
            _ => {
                self.settled += usize::from(slot.is_none());
                self.held.push_back(IncomingFragment { announcement, start, slot, end: self.ready });
            }
        }
    }

    /// Raises `granted` to `end`, as the grant policy decided.
    pub fn grant(&mut self, end: u64) {
        debug_assert!(self.granted < end && end <= self.ready, "grant to {end} of {self:?}");
        self.granted = end.min(self.ready);
    }

    /// Checks that a data record of `length` bytes may begin at lane offset `offset`
    /// (docs/reference/protocol.md LANE-9, LANE-10).
    pub fn check_data(&self, offset: u64, length: u32) -> Result<(), LaneError> {
        let end = offset.saturating_add(length.into());
        if offset != self.received {
            return Err(LaneError::DataOffset { offset, expected: self.received });
        }
        if end > self.granted {
            return Err(LaneError::NotGranted { end, granted: self.granted });
        }
        Ok(())
    }

    /// Returns the fragment that the next byte belongs to, or `None` if all announced bytes have
    /// arrived.
    pub fn arrival(&self) -> Option<Arrival> {
        let fragment = *self.held.get(self.arriving)?;
        let position = self.received - fragment.start;
        Some(Arrival { fragment, position, remaining: fragment.end - self.received })
    }

    /// Notes that `count` more bytes of the current fragment have arrived.
    pub fn advance(&mut self, count: u64) {
        self.received += count;
        let Some(held) = self.held.get(self.arriving) else { return };
        let discarded = held.slot.is_none();
        self.arriving += usize::from(held.end <= self.received);
        if discarded {
            self.commit_due = true;
            self.release();
        }
    }

    /// Lets the source forget the fragment that begins at `start` as soon as its bytes have
    /// arrived. Bytes that arrive later are discarded.
    pub fn settle(&mut self, start: u64) {
        let index = self.held_from(start);
        let Some(held) = self.held.get_mut(index) else { return };
        if held.start != start || held.slot.is_none() {
            return;
        }
        if index == 0 && held.end <= self.received {
            // This is the most frequent case: the whole fragment has arrived, and the list has no
            // entry before it.
            self.committed = held.end;
            self.commit_due = true;
            self.held.pop_front();
            self.arriving -= 1;
            return self.release();
        }
        held.slot = None;
        self.settled += 1;
        self.commit_due |= start < self.received;
        self.join(index);
        if index > 0 {
            self.join(index - 1);
        }
        self.release();
    }

    /// Returns the committed offset to send to the source, and stores the committed ranges above it
    /// in `ranges`.
    /// Requirements: docs/reference/protocol.md LANE-16.
    pub fn take_commit(&mut self, ranges: &mut Vec<Range<u64>>) -> u64 {
        ranges.clear();
        self.commit_due = false;
        let runs = self.held.iter().filter(|held| held.slot.is_none()).take(self.settled);
        let arrived = runs.take_while(|run| run.start < self.received).take(MAX_COMMIT_RANGES);
        ranges.extend(arrived.map(|run| run.start..run.end.min(self.received)));
        self.committed
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        let Self { ready, granted, received, committed, .. } = *self;
        assert!(
            committed <= received && received <= granted && granted <= ready,
            "committed {committed} ≤ received {received} ≤ granted {granted} ≤ ready {ready}"
        );
        let mut at = committed;
        for held in &self.held {
            assert!(held.start == at && held.start < held.end, "a gap at {at}: {self:?}");
            at = held.end;
        }
        assert_eq!(at, ready, "the last entry ends at the end of the announced bytes: {self:?}");
        let is_settled = |held: &&IncomingFragment| held.slot.is_none();
        assert_eq!(self.held.iter().filter(is_settled).count(), self.settled, "{self:?}");
        let arriving = self.held.partition_point(|held| held.end <= received);
        assert_eq!(arriving, self.arriving, "the index of the entry of the next byte: {self:?}");
    }

    /// Returns the index of the first entry that begins at `start` or beyond. Events mostly end in
    /// the order of their fragments in the lane, so that entry is near the front.
    fn held_from(&self, start: u64) -> usize {
        let near = (0..NEAR).find(|index| self.held.get(*index).is_some_and(|held| held.start >= start));
        near.unwrap_or_else(|| self.held.partition_point(|held| held.start < start))
    }

    /// Merges an entry with the next entry if both are settled.
    fn join(&mut self, index: usize) {
        let Some(next) = self.held.get(index + 1).filter(|next| next.slot.is_none()) else { return };
        let end = next.end;
        if self.held[index].slot.is_none() {
            self.held[index].end = end;
            self.held.remove(index + 1);
            self.settled -= 1;
            self.arriving -= usize::from(self.arriving > index);
        }
    }

    /// Commits the settled bytes at the front of the list that have arrived: a whole entry, or the
    /// beginning of a merged entry.
    fn release(&mut self) {
        let Some(front) = self.held.front_mut() else { return };
        if front.slot.is_some() || front.start >= self.received {
            return;
        }
        self.commit_due = true;
        self.committed = front.end.min(self.received);
        front.start = self.committed;
        if front.start == front.end {
            self.held.pop_front();
            self.settled -= 1;
            self.arriving -= 1;
        }
    }

    /// Returns the mean length in lane bytes of the fragments that have not arrived completely. A
    /// merged entry counts as one fragment, because few entries are merged.
    fn mean_fragment(&self) -> u64 {
        let Some(next) = self.held.get(self.arriving) else { return 0 };
        (self.ready - next.start) / (self.held.len() - self.arriving) as u64
    }

    /// Returns the entry that contains the lane byte at `offset`.
    fn at(&self, offset: u64) -> Option<&IncomingFragment> {
        if offset == self.ready {
            return None;
        }
        self.held.get(self.held.partition_point(|held| held.end <= offset))
    }
}

impl IncomingFragment {
    /// Returns the lane offset at which the entry ends.
    pub fn end(&self) -> u64 {
        self.end
    }
}

const _: () =
    assert!(FRAGMENT_HEADER > 0, "even an empty fragment takes lane bytes, whose arrival completes it");
