//! The builder's end of a lane.

use core::ops::Range;
use std::collections::VecDeque;

use super::LaneError;
use crate::{
    grant::LaneDemand,
    id::EventId,
    index::SlotIndex,
    wire::record::{Announcement, FRAGMENT_HEADER, MAX_COMMIT_RANGES},
};

/// So many entries are looked at before the others are searched: one that is open for long, and the settled ones behind it.
const NEAR: usize = 4;

/// What one builder knows of one source's lane.
///
/// Fragments are known by the lane offset at which they begin. Neighbours that are settled become one entry, so that there
/// are never more than two entries per fragment that still has a slot, and one: what a peer announces takes no memory
/// beyond that, and an event that stays open for long holds up nobody (docs/reference/protocol.md LANE-22).
#[derive(Debug)]
pub struct IncomingLane {
    /// Without gaps, from the first byte that is not committed to `ready`.
    pub(super) held: VecDeque<IncomingFragment>,
    /// Index in `held` of what the next byte belongs to; where all is here, its length.
    arriving: usize,
    /// How many of `held` are settled.
    settled: usize,
    ready: u64,
    granted: u64,
    received: u64,
    committed: u64,
    max_fragment: u64,
    /// How far beyond `received` may be granted.
    window: u64,
    commit_due: bool,
    connected: bool,
}

/// One announced fragment, or a run of settled ones.
#[derive(Clone, Copy, Debug)]
pub struct IncomingFragment {
    /// What was announced; of a run, the first.
    pub announcement: Announcement,
    /// Where it begins in the lane.
    pub start: u64,
    /// The caller's mark: where the bytes go. `None`: they are discarded, and the source may forget them.
    pub slot: Option<SlotIndex>,
    end: u64,
}

/// The fragment that the next bytes belong to.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The fragment.
    pub fragment: IncomingFragment,
    /// How many of its lane bytes have arrived.
    pub position: u64,
    /// How many are still to come.
    pub remaining: u64,
}

impl IncomingLane {
    /// A lane with nothing on it.
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

    /// Lane bytes announced.
    pub fn ready(&self) -> u64 {
        self.ready
    }

    /// Lane bytes arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Lane bytes permitted.
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// Lane bytes that the source may forget, without gap.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Whether the source is connected.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// What a grant policy sees.
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

    /// From now on, grants reach at most so far beyond the first byte that is missing: what a datagram lane can keep
    /// (docs/reference/protocol.md UDP-11).
    pub(crate) fn limit_window(&mut self, window: u64) {
        self.window = window;
    }

    /// Whether there is news for the source about `committed`.
    pub fn is_commit_due(&self) -> bool {
        self.commit_due
    }

    /// The source connected, or connected anew: what was granted beyond `received` is void.
    /// Requirements: docs/reference/protocol.md LANE-20.
    pub fn handle_connected(&mut self) {
        self.connected = true;
        self.granted = self.received;
        self.commit_due = true;
    }

    /// The connection is gone.
    pub fn handle_disconnected(&mut self) {
        self.connected = false;
    }

    /// Whether an announcement for the lane bytes from `start` on is news; an old one is skipped
    /// (docs/reference/protocol.md LANE-6, LANE-7).
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

    /// Takes a checked announcement in; `slot` says where its bytes go, `None` that they are discarded.
    pub fn push(&mut self, announcement: Announcement, slot: Option<SlotIndex>) {
        let start = self.ready;
        self.ready = start.saturating_add(announcement.lane_length());
        match self.held.back_mut() {
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

    /// Raises `granted`; the policy's word.
    pub fn grant(&mut self, end: u64) {
        debug_assert!(self.granted < end && end <= self.ready, "grant to {end} of {self:?}");
        self.granted = end.min(self.ready);
    }

    /// Whether `length` data bytes from `offset` on may come now (docs/reference/protocol.md LANE-9, LANE-10).
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

    /// The fragment that the next byte belongs to; `None` when nothing is to come.
    pub fn arrival(&self) -> Option<Arrival> {
        let fragment = *self.held.get(self.arriving)?;
        let position = self.received - fragment.start;
        Some(Arrival { fragment, position, remaining: fragment.end - self.received })
    }

    /// `count` more bytes of the current fragment are here.
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

    /// The source may forget the fragment that begins at `start` as soon as its bytes are here; until then they are
    /// discarded.
    pub fn settle(&mut self, start: u64) {
        let index = self.held_from(start);
        let Some(held) = self.held.get_mut(index) else { return };
        if held.start != start || held.slot.is_none() {
            return;
        }
        if index == 0 && held.end <= self.received {
            // As most are: all of it is here, and nothing before it is held.
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

    /// What to tell the source about `committed`: the offset; ranges above it are left in `ranges`.
    /// Requirements: docs/reference/protocol.md LANE-16.
    pub fn take_commit(&mut self, ranges: &mut Vec<Range<u64>>) -> u64 {
        ranges.clear();
        self.commit_due = false;
        let runs = self.held.iter().filter(|held| held.slot.is_none()).take(self.settled);
        let arrived = runs.take_while(|run| run.start < self.received).take(MAX_COMMIT_RANGES);
        ranges.extend(arrived.map(|run| run.start..run.end.min(self.received)));
        self.committed
    }

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
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
        assert_eq!(at, ready, "entries end where the announced bytes do: {self:?}");
        let is_settled = |held: &&IncomingFragment| held.slot.is_none();
        assert_eq!(self.held.iter().filter(is_settled).count(), self.settled, "{self:?}");
        let arriving = self.held.partition_point(|held| held.end <= received);
        assert_eq!(arriving, self.arriving, "the next byte's entry: {self:?}");
    }

    /// The first entry that begins at `start` or beyond. Events mostly end in their lanes' order, so it is near the front.
    fn held_from(&self, start: u64) -> usize {
        let near = (0..NEAR).find(|index| self.held.get(*index).is_some_and(|held| held.start >= start));
        near.unwrap_or_else(|| self.held.partition_point(|held| held.start < start))
    }

    /// Makes one of an entry and the next, where both are settled.
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

    /// Commits what is settled and here, from the front on: whole fragments, or the beginning of a run.
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

    /// Lane bytes of a fragment to come, in the mean. A run of settled ones counts as one: they are few.
    fn mean_fragment(&self) -> u64 {
        let Some(next) = self.held.get(self.arriving) else { return 0 };
        (self.ready - next.start) / (self.held.len() - self.arriving) as u64
    }

    /// The entry that holds the lane byte at `offset`.
    fn at(&self, offset: u64) -> Option<&IncomingFragment> {
        if offset == self.ready {
            return None;
        }
        self.held.get(self.held.partition_point(|held| held.end <= offset))
    }
}

impl IncomingFragment {
    /// Where it ends in the lane.
    pub fn end(&self) -> u64 {
        self.end
    }
}

const _: () =
    assert!(FRAGMENT_HEADER > 0, "a fragment of no bytes still takes lane, so that its end is an arrival");
