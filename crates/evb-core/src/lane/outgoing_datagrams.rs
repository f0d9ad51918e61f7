//! [`OutgoingDatagrams`]: the source's datagram state of one lane, beside the lane itself.

use core::time::Duration;
use std::collections::VecDeque;

use bytes::{BufMut as _, BytesMut};

use super::{
    OutgoingLane,
    announcing::Announcing,
    incoming_datagrams::{ACKNOWLEDGE_WITHIN, SILENCE},
    round_trip::RoundTrip,
};
use crate::{
    time::{Instant, earlier},
    undo::{self, Fix},
    wire::{
        datagram::{Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind, is_after},
        record::{ANNOUNCEMENT, RECORD_HEADER},
    },
};

/// Longest time for which a builder waits before it acknowledges an announcement without a grant.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_millis(2);

/// The source's side of one association.
#[derive(Debug)]
pub(crate) struct OutgoingDatagrams {
    association: Association,
    /// Sequence of our last datagram.
    sequence: u32,
    /// The highest of the builder's sequences that was taken in.
    seen: u32,
    /// The highest of its sequences whose requests have all been handed out.
    heard: u32,
    /// The highest of its sequences whose requests and grants have all been handed out.
    heard_whole: u32,
    /// The next value of `heard_whole`, and the lane offset at which its grant ends.
    next_whole: (u32, u64),
    /// Most announcements in one datagram.
    batch: usize,
    acknowledge_at: Option<Instant>,
    /// Lane offset up to which the builder knows the announcements.
    pub(crate) acknowledged: u64,
    announcing: Announcing,
    /// Time at which to repeat announcements that the builder has not acknowledged.
    repeat_at: Option<Instant>,
    failures: u32,
    /// Time since which announcements are not acknowledged.
    unanswered_since: Option<Instant>,
    is_answering: bool,
    /// True while announcements that the builder lacks are to be repeated.
    is_repeating: bool,
    /// True while announcements wait for the acknowledgement of earlier ones.
    is_held: bool,
    /// End and time of the announcements whose acknowledgement is timed.
    timed: Option<(u64, Instant)>,
    round_trip: RoundTrip,
    /// Times of the latest datagrams that came in, and the lane bytes that had been sent by then.
    sent: VecDeque<(Instant, u64)>,
}

/// Number of incoming datagrams that are remembered.
const REMEMBERED: usize = 64;

/// The common part of the headers of one train of segments.
#[derive(Clone, Copy, Debug)]
pub struct Sealing {
    header: DatagramHeader,
}

impl Sealing {
    /// Returns the header of the `index`th segment of the train, with lane bytes from `offset` on.
    pub fn header(&self, index: u32, offset: u64) -> DatagramHeader {
        DatagramHeader { sequence: self.header.sequence.wrapping_add(index), offset, ..self.header }
    }
}

impl OutgoingDatagrams {
    /// Returns the state of a new association. `datagram` is the most bytes of a datagram, header
    /// included.
    pub(crate) fn new(
        association: Association,
        estimate: Option<Duration>,
        datagram: usize,
        announced: u64,
        announcing: Announcing,
    ) -> Self {
        let batch = datagram.saturating_sub(DATAGRAM_HEADER + RECORD_HEADER) / ANNOUNCEMENT;
        Self {
            association,
            sequence: 0,
            seen: 0,
            heard: 0,
            heard_whole: 0,
            next_whole: (0, 0),
            batch: batch.max(1),
            // The builder waits for our first datagram.
            acknowledge_at: (!undo::is_undone(Fix::A0635af)).then_some(Instant::ZERO),
            acknowledged: announced,
            announcing,
            repeat_at: None,
            failures: 0,
            unanswered_since: None,
            is_answering: false,
            is_repeating: false,
            is_held: false,
            timed: None,
            round_trip: RoundTrip::new(estimate),
            sent: VecDeque::new(),
        }
    }

    /// Sets the longest time that announcements wait in the builder's port if that is full.
    pub(crate) fn expect_queue(&mut self, longest: Duration) {
        self.round_trip.expect_queue(longest);
    }

    pub(crate) fn association(&self) -> Association {
        self.association
    }

    /// Takes in the header of a datagram of this association. Returns true if it is newer than all
    /// before.
    pub(crate) fn handle_header(&mut self, header: &DatagramHeader, now: Instant) -> bool {
        let is_newer = is_after(header.sequence, self.seen);
        if is_newer {
            self.seen = header.sequence;
        }
        self.acknowledge_at.get_or_insert(now + ACKNOWLEDGE_WITHIN);
        is_newer
    }

    /// Notes that the builder knows the announcements up to `offset`.
    pub(crate) fn handle_announced(&mut self, offset: u64, lane: &OutgoingLane, now: Instant) {
        if self.timed.is_some_and(|(end, _)| end <= offset)
            && let Some((_, sent)) = self.timed.take()
        {
            self.round_trip.sample(now.since(sent));
            // Failures are reset only here: the answer to a repetition does not measure the round
            // trip, and the next announcement would be repeated too soon (Karn's algorithm: RFC
            // 6298, §3 and §5.7).
            self.failures = 0;
        }
        let is_news = offset > self.acknowledged;
        self.acknowledged = self.acknowledged.max(offset);
        if offset >= lane.announced() && (is_news || !undo::is_undone(Fix::Cccd56c)) {
            // Nothing is unanswered, also if the offset is an old one: the announcements that were
            // repeated may have been known already.
            self.unanswered_since = None;
            self.repeat_at = None;
        } else if is_news {
            self.unanswered_since = Some(now);
            self.repeat_at = Some(now + self.round_trip.timeout(self.failures) + ANSWER_WITHIN);
        }
    }

    /// Lets datagrams of records wait until `until`, as none can be sent now.
    pub(crate) fn put_off(&mut self, until: Instant) {
        self.acknowledge_at = self.acknowledge_at.map(|at| until.max(at));
        self.announcing.put_off(until);
    }

    /// Returns true if announcements have been in vain for so long that the path must be gone
    /// (docs/reference/protocol.md UDP-1).
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        let is_silent = self.unanswered_since.is_some_and(|since| now.since(since) >= SILENCE);
        is_silent && !undo::is_undone(Fix::A0635af)
    }

    /// Sets whether answers to requests were handed out and are not sent yet. Until they are, their
    /// requests are not acknowledged (docs/reference/protocol.md UDP-7).
    pub(crate) fn set_answering(&mut self, is_answering: bool) {
        self.is_answering = is_answering;
    }

    /// Notes that the builder lacks announcements.
    pub(crate) fn handle_missing(&mut self) {
        self.timed = None;
        self.is_repeating = true;
    }

    /// Returns true if announcements are to be repeated at this time
    /// (docs/reference/protocol.md UDP-9).
    pub(crate) fn is_repeat_due(&mut self, now: Instant) -> bool {
        let due = self.repeat_at.is_some_and(|repeat_at| repeat_at <= now);
        if due {
            self.repeat_at = None;
            self.timed = None;
            self.failures += 1;
            self.is_repeating = true;
        }
        due
    }

    /// Returns true if a datagram of records is to be sent now
    /// (docs/reference/protocol.md UDP-7, UDP-8).
    pub(crate) fn is_due(&mut self, lane: &OutgoingLane, now: Instant) -> bool {
        let is_due = self.announcing.is_due(lane, 0, now) || (self.is_repeating && lane.has_announcements());
        // Announcements are not charged to the port, so if the builder has enough, only one batch
        // of a lane is under way at once.
        self.is_held = !self.announcing.is_short(lane) && lane.announced_next() > self.acknowledged;
        (is_due && !self.is_held) || self.acknowledge_at.is_some_and(|at| at <= now)
    }

    /// Returns the time at which a datagram is to be sent or repeated.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let announce_at = self.announcing.next().filter(|_| !self.is_held);
        earlier(earlier(self.acknowledge_at, announce_at), self.repeat_at)
    }

    /// Appends one datagram with announcements that wait, or with none, which only acknowledges.
    /// Returns their number.
    pub(crate) fn write(&mut self, lane: &mut OutgoingLane, now: Instant, into: &mut BytesMut) -> usize {
        let start = into.len();
        into.put_bytes(0, DATAGRAM_HEADER);
        let most =
            if self.is_repeating { self.batch } else { self.announcing.batch(lane, now).min(self.batch) };
        let count = lane.announce_at_most(most, into);
        if count > 0 {
            self.announcing.note(lane, now);
            self.unanswered_since.get_or_insert(now);
            // The answer to a repetition could belong to either transmission, so it is not timed.
            if !self.is_repeating {
                self.timed.get_or_insert_with(|| (lane.announced(), now));
            }
            let patience = self.round_trip.timeout(self.failures) + ANSWER_WITHIN;
            self.repeat_at.get_or_insert(now + patience);
        }
        self.is_repeating &=
            lane.announced_next() < lane.announced() && !(count > 0 && undo::is_undone(Fix::Cccd56c));
        let header = self.sealing(DatagramKind::Records, 0, lane).header(0, 0);
        let header = header.seal([&into[start + DATAGRAM_HEADER..]]);
        into[start..start + DATAGRAM_HEADER].copy_from_slice(&header);
        self.advance(1);
        count
    }

    /// Returns the common part of the next datagrams' headers, which acknowledges the builder's
    /// datagrams (docs/reference/protocol.md UDP-7).
    pub(crate) fn sealing(&mut self, kind: DatagramKind, request: u16, lane: &OutgoingLane) -> Sealing {
        // The datagrams that answer a request will acknowledge it.
        self.acknowledge_at = None;
        if !lane.has_resends() && !self.is_answering {
            self.heard = self.seen;
            // A range that a lost datagram requested may be among those that a later one grants.
            if lane.sent() >= self.next_whole.1 {
                self.heard_whole = self.next_whole.0;
                self.next_whole = (self.seen, lane.granted());
            }
            if lane.sent() >= lane.granted() {
                self.heard_whole = self.seen;
            }
        }
        let sequence = self.sequence.wrapping_add(1);
        // The builder recognises first transmissions that answer a request. If other datagrams
        // acknowledged the request before these are sent, it would take them for lost.
        let is_first = kind == DatagramKind::Data && request == 0;
        let heard = if is_first { self.heard } else { self.heard_whole };
        let association = self.association;
        Sealing { header: DatagramHeader { kind, request, association, sequence, heard, offset: 0 } }
    }

    /// Notes that `count` datagrams were sent.
    pub(crate) fn advance(&mut self, count: u32) {
        self.sequence = self.sequence.wrapping_add(count);
    }

    /// Notes that a datagram came in, while the lane has been sent up to `sent`.
    pub(crate) fn note_sent(&mut self, sent: u64, now: Instant) {
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((now, sent));
    }

    /// Returns the lane offset up to which a request that comes now can be right about losses.
    /// Bytes that left less than a round trip ago were on their way when the builder sent it,
    /// before it heard that the grant came through (docs/reference/protocol.md UDP-12).
    pub(crate) fn can_be_missed(&self, now: Instant) -> u64 {
        if undo::is_undone(Fix::A1617af) {
            return u64::MAX;
        }
        let flight = self.round_trip.least() * 3 / 4;
        let first = self.sent.iter().find(|(at, _)| now.since(*at) < flight);
        first.map_or(u64::MAX, |(_, sent)| *sent)
    }
}

#[cfg(test)]
mod tests;
