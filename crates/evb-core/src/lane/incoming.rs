//! The builder's end of a lane.

use core::ops::Range;
use std::collections::VecDeque;

use super::LaneError;
use crate::{
    grant::LaneDemand,
    id::EventId,
    wire::record::{Announcement, FRAGMENT_HEADER, MAX_COMMIT_RANGES},
};

/// What one builder knows of one source's lane.
#[derive(Debug)]
pub struct IncomingLane {
    held: VecDeque<IncomingFragment>,
    /// Sequence number of the first in `held`.
    first: u64,
    /// Sequence number of the fragment that the next byte belongs to.
    receiving: u64,
    /// Sequence number of the fragment that holds the offset `granted`.
    granting: u64,
    ready: u64,
    granted: u64,
    received: u64,
    committed: u64,
    limits: Limits,
    commit_due: bool,
    connected: bool,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    max_fragment: u64,
    fragments: usize,
}

/// One announced fragment.
#[derive(Clone, Copy, Debug)]
pub struct IncomingFragment {
    /// What was announced.
    pub announcement: Announcement,
    /// Where it begins in the lane.
    pub start: u64,
    /// The caller's mark: where the bytes go. `None`: they are discarded.
    pub slot: Option<usize>,
    /// Whether the source may forget it once the bytes are here.
    settled: bool,
}

/// The fragment that the next bytes belong to.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Which one, for [`IncomingLane::settle`].
    pub sequence: u64,
    /// The fragment.
    pub fragment: IncomingFragment,
    /// How many of its lane bytes have arrived.
    pub position: u64,
    /// How many are still to come.
    pub remaining: u64,
}

impl IncomingLane {
    /// A lane with nothing on it. `fragments` bounds how many may be announced and not committed.
    pub fn new(max_fragment: u64, fragments: usize) -> Self {
        Self {
            held: VecDeque::new(),
            first: 0,
            receiving: 0,
            granting: 0,
            ready: 0,
            granted: 0,
            received: 0,
            committed: 0,
            limits: Limits { max_fragment, fragments },
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
        let next = self.at(self.granting);
        LaneDemand {
            ready: self.ready,
            granted: self.granted,
            received: self.received,
            oldest: next.map_or(EventId::FIRST, |held| held.announcement.event),
            oldest_end: next.map_or(self.ready, IncomingFragment::end),
            connected: self.connected,
        }
    }

    /// The source connected, or connected anew: what was granted beyond `received` is void.
    pub fn handle_connected(&mut self) {
        self.connected = true;
        self.granted = self.received;
        self.granting = self.receiving;
        self.commit_due = true;
    }

    /// The connection is gone.
    pub fn handle_disconnected(&mut self) {
        self.connected = false;
    }

    /// Whether an announcement for the lane bytes from `start` on is news; an old one is skipped.
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
        if u64::from(announcement.length) > self.limits.max_fragment {
            return Err(LaneError::Oversize {
                event: announcement.event,
                length: announcement.length,
                limit: self.limits.max_fragment,
            });
        }
        if self.held.len() >= self.limits.fragments {
            return Err(LaneError::TooMany { limit: self.limits.fragments });
        }
        Ok(true)
    }

    /// The sequence number of the next new announcement.
    pub fn next_sequence(&self) -> u64 {
        self.first + self.held.len() as u64
    }

    /// Takes a checked announcement in; `slot` says where its bytes go, `None` that they are discarded.
    pub fn push(&mut self, announcement: Announcement, slot: Option<usize>) {
        let start = self.ready;
        self.ready = start.saturating_add(announcement.lane_length());
        self.held.push_back(IncomingFragment { announcement, start, slot, settled: slot.is_none() });
    }

    /// Raises `granted`; the policy's word.
    pub fn grant(&mut self, end: u64) {
        debug_assert!(self.granted < end && end <= self.ready, "grant to {end} of {self:?}");
        self.granted = end.min(self.ready);
        while self.at(self.granting).is_some_and(|held| held.end() <= self.granted) {
            self.granting += 1;
        }
    }

    /// Whether `length` data bytes from `offset` on may come now.
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
        let fragment = *self.at(self.receiving)?;
        let position = self.received - fragment.start;
        Some(Arrival {
            sequence: self.receiving,
            fragment,
            position,
            remaining: fragment.end() - self.received,
        })
    }

    /// `count` more bytes of the current fragment are here.
    pub fn advance(&mut self, count: u64) {
        self.received += count;
        if let Some(held) = self.at(self.receiving).filter(|held| held.end() <= self.received) {
            self.commit_due |= held.settled;
            self.receiving += 1;
            self.release();
        }
    }

    /// The source may forget that fragment as soon as its bytes are here; until then they are discarded.
    pub fn settle(&mut self, sequence: u64) {
        let index = sequence.checked_sub(self.first).map(|index| index as usize);
        if let Some(held) = index.and_then(|index| self.held.get_mut(index)) {
            held.settled = true;
            held.slot = None;
            self.commit_due |= sequence < self.receiving;
            self.release();
        }
    }

    /// What to tell the source about `committed`, if there is news: the offset; ranges above it are left in `ranges`.
    pub fn take_commit(&mut self, ranges: &mut Vec<Range<u64>>) -> Option<u64> {
        ranges.clear();
        if !self.commit_due {
            return None;
        }
        self.commit_due = false;
        let arrived = (self.receiving - self.first) as usize;
        if self.held.front().is_none_or(|held| held.end() > self.received) {
            return Some(self.committed);
        }
        for held in self.held.range(..arrived).filter(|held| held.settled) {
            let full = ranges.len() == MAX_COMMIT_RANGES;
            match ranges.last_mut() {
                Some(last) if last.end == held.start => last.end = held.end(),
                _ if full => break,
                _ => ranges.push(held.start..held.end()),
            }
        }
        Some(self.committed)
    }

    fn release(&mut self) {
        while self.first < self.receiving && self.held.front().is_some_and(|held| held.settled) {
            if let Some(held) = self.held.pop_front() {
                self.first += 1;
                self.committed = held.end();
                self.commit_due = true;
            }
        }
    }

    fn at(&self, sequence: u64) -> Option<&IncomingFragment> {
        self.held.get(sequence.checked_sub(self.first)? as usize)
    }
}

impl IncomingFragment {
    /// Where it ends in the lane.
    pub fn end(&self) -> u64 {
        self.start + self.announcement.lane_length()
    }
}

const _: () =
    assert!(FRAGMENT_HEADER > 0, "a fragment of no bytes still takes lane, so that its end is an arrival");
