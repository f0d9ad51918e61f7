//! Fragments that readout makes when they are to be sent.

#[cfg(test)]
mod tests;

use core::ops::Range;

use super::{Held, Origin, OutgoingLane};
use crate::{
    fragment::{Checksum, Fragment},
    id::EventId,
    wire::record::{Announcement, FRAGMENT_HEADER, encode_fragment_header},
};

impl OutgoingLane {
    /// Appends a fragment that will be made when it is to be sent: see [`Self::unmade`].
    pub fn promise(&mut self, announcement: Announcement) {
        let start = self.ready;
        self.ready += announcement.lane_length();
        self.held_bytes += u64::from(announcement.length);
        self.uncommitted += 1;
        let header = [0; FRAGMENT_HEADER as usize];
        self.held.push_back(Held { start, announcement, header, payload: None, origin: Origin::ToBeMade });
    }

    /// The first fragment within a range that was promised and is not made: its lane offset and event.
    pub fn unmade(&self, range: &Range<u64>) -> Option<(u64, EventId)> {
        let first = self.held.partition_point(|held| held.end() <= range.start);
        let mut within = self.held.range(first..).take_while(|held| held.start < range.end);
        let held = within.find(|held| held.is_to_be_made())?;
        Some((held.start, held.announcement.event))
    }

    /// Takes a promised fragment. What is not as it was promised, or does not come, is replaced by bytes that the builder
    /// will find damaged: the announcement cannot be taken back, and the event will name its source. Returns false then.
    pub fn fulfil(&mut self, offset: u64, fragment: Option<Fragment>) -> bool {
        let index = self.held.partition_point(|held| held.start < offset);
        let waits = |held: &&mut Held| held.start == offset && held.is_to_be_made();
        let Some(held) = self.held.get_mut(index).filter(waits) else { return true };
        let Announcement { event, length, .. } = held.announcement;
        let as_promised = |made: &Fragment| made.event == event && made.payload.len() == length as usize;
        let kept = fragment.filter(as_promised);
        let is_kept = kept.is_some();
        let (payload, checksum) = match kept {
            Some(made) => (made.payload, made.checksum),
            None => {
                let payload = bytes::Bytes::from(vec![0; length as usize]);
                let wrong = !Checksum::of(&payload).number();
                (payload, Checksum::from_number(wrong))
            }
        };
        held.header = encode_fragment_header(event, checksum);
        held.payload = Some(payload);
        held.origin = Origin::Made;
        is_kept
    }

    /// All that was handed out has left, on a transport that repeats by itself: what was promised, made and sent whole will be
    /// made again if it must be sent once more, on another connection or to another builder. Its payload goes to `released`.
    pub fn unmake_sent(&mut self, mut released: impl FnMut(bytes::Bytes)) {
        let first = self.held.partition_point(|held| held.end() <= self.unmade_below);
        for held in self.held.range_mut(first..) {
            if held.end() > self.sent {
                break;
            }
            self.unmade_below = held.end();
            if held.origin == Origin::Made
                && let Some(payload) = held.payload.take()
            {
                held.origin = Origin::ToBeMade;
                released(payload);
            }
        }
    }
}
