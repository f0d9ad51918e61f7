//! [`OutgoingDatagrams`]: what a source knows of one lane's datagrams, beside the lane itself.

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

/// A builder answers an announcement with a grant at once, or after so long.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_millis(2);

/// The source's side of one association.
#[derive(Debug)]
pub(crate) struct OutgoingDatagrams {
    association: Association,
    /// Of our last datagram.
    sequence: u32,
    /// The highest of the builder's that was taken in.
    seen: u32,
    /// The same, as far as all that it asked for again has been handed out.
    heard: u32,
    /// The same, as far as all that it permits has been handed out, too.
    heard_whole: u32,
    /// What that will be next: a datagram, and where in the lane its permission ends.
    next_whole: (u32, u64),
    /// The most announcements in one datagram.
    batch: usize,
    acknowledge_at: Option<Instant>,
    /// Announcements are known to the builder up to here.
    pub(crate) acknowledged: u64,
    announcing: Announcing,
    /// When to announce again what the builder has not acknowledged.
    repeat_at: Option<Instant>,
    failures: u32,
    /// Since when announcements are not acknowledged.
    unanswered_since: Option<Instant>,
    is_answering: bool,
    /// What the builder lacks is to be announced again.
    is_repeating: bool,
    /// Announcements wait for the answer to those before.
    is_held: bool,
    /// Announced up to there, then: to measure how long the answer takes.
    timed: Option<(u64, Instant)>,
    round_trip: RoundTrip,
    /// How far the lane had been sent when datagrams came in, of late.
    sent: VecDeque<(Instant, u64)>,
}

/// How many datagrams of late are remembered.
const REMEMBERED: usize = 64;

/// What the headers of the segments of one train have in common.
#[derive(Clone, Copy, Debug)]
pub struct Sealing {
    header: DatagramHeader,
}

impl Sealing {
    /// The header of the `index`th segment of the train: lane bytes from `offset` on.
    pub fn header(&self, index: u32, offset: u64) -> DatagramHeader {
        DatagramHeader { sequence: self.header.sequence.wrapping_add(index), offset, ..self.header }
    }
}

impl OutgoingDatagrams {
    /// `datagram`: the most bytes of one, header included.
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
            // The builder waits to hear of us.
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

    /// Announcements wait in the builder's port for so long if that is full.
    pub(crate) fn expect_queue(&mut self, longest: Duration) {
        self.round_trip.expect_queue(longest);
    }

    pub(crate) fn association(&self) -> Association {
        self.association
    }

    /// A datagram of this association came; whether it is newer than all before.
    pub(crate) fn handle_header(&mut self, header: &DatagramHeader, now: Instant) -> bool {
        let is_newer = is_after(header.sequence, self.seen);
        if is_newer {
            self.seen = header.sequence;
        }
        self.acknowledge_at.get_or_insert(now + ACKNOWLEDGE_WITHIN);
        is_newer
    }

    /// The builder knows the announcements up to `offset`.
    pub(crate) fn handle_announced(&mut self, offset: u64, lane: &OutgoingLane, now: Instant) {
        if self.timed.is_some_and(|(end, _)| end <= offset)
            && let Some((_, sent)) = self.timed.take()
        {
            self.round_trip.sample(now.since(sent));
            // Not before: an answer to what was repeated says nothing of the round trip, and the next would be repeated as soon
            // (Karn's algorithm: RFC 6298, §3 and §5.7).
            self.failures = 0;
        }
        let is_news = offset > self.acknowledged;
        self.acknowledged = self.acknowledged.max(offset);
        if offset >= lane.announced() && (is_news || !undo::is_undone(Fix::Cccd56c)) {
            // Also if it says nothing new: something may have been announced anew that had been known already.
            self.unanswered_since = None;
            self.repeat_at = None;
        } else if is_news {
            self.unanswered_since = Some(now);
            self.repeat_at = Some(now + self.round_trip.timeout(self.failures) + ANSWER_WITHIN);
        }
    }

    /// Nothing can be said now: not before `until`.
    pub(crate) fn put_off(&mut self, until: Instant) {
        self.acknowledge_at = self.acknowledge_at.map(|at| until.max(at));
        self.announcing.put_off(until);
    }

    /// Whether announcements have been in vain for so long that the path must be gone (docs/reference/protocol.md
    /// UDP-1).
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        let is_silent = self.unanswered_since.is_some_and(|since| now.since(since) >= SILENCE);
        is_silent && !undo::is_undone(Fix::A0635af)
    }

    /// Answers to requests were handed out and are not sent: they are not heard of before
    /// (docs/reference/protocol.md UDP-7).
    pub(crate) fn set_answering(&mut self, is_answering: bool) {
        self.is_answering = is_answering;
    }

    /// The builder says that it lacks announcements.
    pub(crate) fn handle_missing(&mut self) {
        self.timed = None;
        self.is_repeating = true;
    }

    /// Time passed: whether announcements are to be repeated (docs/reference/protocol.md UDP-9).
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

    /// Whether a datagram of records is to be sent now (docs/reference/protocol.md UDP-7, UDP-8).
    pub(crate) fn is_due(&mut self, lane: &OutgoingLane, now: Instant) -> bool {
        let is_due = self.announcing.is_due(lane, 0, now) || (self.is_repeating && lane.has_announcements());
        // Announcements are not charged to the port: where the builder has enough, one batch of a lane is under way at once.
        self.is_held = !self.announcing.is_short(lane) && lane.announced_next() > self.acknowledged;
        (is_due && !self.is_held) || self.acknowledge_at.is_some_and(|at| at <= now)
    }

    /// When something is to be said, or said again.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let announce_at = self.announcing.next().filter(|_| !self.is_held);
        earlier(earlier(self.acknowledge_at, announce_at), self.repeat_at)
    }

    /// Appends one datagram with announcements that wait, or none if there are none: it says what was heard. Returns how
    /// many it announces.
    pub(crate) fn write(&mut self, lane: &mut OutgoingLane, now: Instant, into: &mut BytesMut) -> usize {
        let start = into.len();
        into.put_bytes(0, DATAGRAM_HEADER);
        let most =
            if self.is_repeating { self.batch } else { self.announcing.batch(lane, now).min(self.batch) };
        let count = lane.announce_at_most(most, into);
        if count > 0 {
            self.announcing.note(lane, now);
            self.unanswered_since.get_or_insert(now);
            // Which of two transmissions is answered, nobody knows.
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

    /// What the headers of the next datagrams have in common. They say what was heard (docs/reference/protocol.md
    /// UDP-7).
    pub(crate) fn sealing(&mut self, kind: DatagramKind, request: u16, lane: &OutgoingLane) -> Sealing {
        // The datagrams that answer a request will say that it was heard.
        self.acknowledge_at = None;
        if !lane.has_resends() && !self.is_answering {
            self.heard = self.seen;
            // What a lost datagram asked for may be among what a later one permits.
            if lane.sent() >= self.next_whole.1 {
                self.heard_whole = self.next_whole.0;
                self.next_whole = (self.seen, lane.granted());
            }
            if lane.sent() >= lane.granted() {
                self.heard_whole = self.seen;
            }
        }
        let sequence = self.sequence.wrapping_add(1);
        // First transmissions are known for what they are; behind anything else, the builder would take them for lost.
        let is_first = kind == DatagramKind::Data && request == 0;
        let heard = if is_first { self.heard } else { self.heard_whole };
        let association = self.association;
        Sealing { header: DatagramHeader { kind, request, association, sequence, heard, offset: 0 } }
    }

    /// So many datagrams were sent.
    pub(crate) fn advance(&mut self, count: u32) {
        self.sequence = self.sequence.wrapping_add(count);
    }

    /// A datagram comes in, and the lane has been sent up to there.
    pub(crate) fn note_sent(&mut self, sent: u64, now: Instant) {
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((now, sent));
    }

    /// Up to where a request that comes now can know that bytes are lost. What left less than a round trip ago was on its
    /// way when the builder asked: it had not heard that the grant came through (docs/reference/protocol.md UDP-12).
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
