//! [`OutgoingDatagrams`]: the source's state of the datagrams of one lane. [`OutgoingLane`] holds
//! the state that does not depend on the transport.

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
    wire::{
        datagram::{Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind, is_after},
        record::{ANNOUNCEMENT, RECORD_HEADER},
    },
};

/// Longest time for which a builder that has nothing to grant delays the acknowledgement of an
/// announcement.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_millis(2);

/// The source's side of one association: the lane's datagrams on one connection.
#[derive(Debug)]
pub(crate) struct OutgoingDatagrams {
    association: Association,
    /// Sequence number of the source's last datagram.
    sequence: u32,
    /// Highest sequence number of the builder's datagrams that the source has handled.
    seen: u32,
    /// Highest sequence number of the builder's datagrams up to which the source has sent all
    /// requested bytes.
    heard: u32,
    /// Highest sequence number of the builder's datagrams up to which the source has sent all
    /// requested and all granted bytes.
    heard_whole: u32,
    /// Next value of `heard_whole`.
    next_whole: u32,
    /// Lane offset up to which the source has to send before `heard_whole` takes that value.
    next_whole_at: u64,
    /// Most announcements that fit into one datagram.
    batch: usize,
    acknowledge_at: Option<Instant>,
    /// Lane offset up to which the builder knows the announcements.
    pub(crate) acknowledged: u64,
    announcing: Announcing,
    /// Time at which to repeat announcements that the builder has not acknowledged.
    repeat_at: Option<Instant>,
    failures: u32,
    /// Time since which announcements have not been acknowledged; `None` if all are acknowledged.
    unanswered_since: Option<Instant>,
    is_answering: bool,
    /// True while the source repeats announcements that the builder lacks.
    is_repeating: bool,
    /// Number of datagrams that repeated announcements.
    pub(crate) repeated: u64,
    /// True while new announcements wait until earlier announcements are acknowledged.
    is_held: bool,
    /// Lane offset and sending time of the announcements whose acknowledgement measures the round
    /// trip.
    timed: Option<(u64, Instant)>,
    round_trip: RoundTrip,
    /// Arrival times of the latest datagrams, each with the number of lane bytes that had been sent
    /// by then.
    sent: VecDeque<(Instant, u64)>,
}

/// Number of arrived datagrams that are remembered.
const REMEMBERED: usize = 64;

/// The header fields that the segments of one train share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealing {
    header: DatagramHeader,
}

impl Sealing {
    /// Returns the header of the `index`th segment of the train, with lane bytes from `offset` on.
    pub(crate) fn header(&self, index: u32, offset: u64) -> DatagramHeader {
        DatagramHeader { sequence: self.header.sequence.wrapping_add(index), offset, ..self.header }
    }
}

impl OutgoingDatagrams {
    /// Returns the state of a new association. `datagram` is the size limit of a datagram in bytes,
    /// including its header.
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
            next_whole: 0,
            next_whole_at: 0,
            batch: batch.max(1),
            // The builder cannot send before it has received a first datagram, so one is due at
            // once.
            acknowledge_at: Some(Instant::ZERO),
            acknowledged: announced,
            announcing,
            repeat_at: None,
            failures: 0,
            unanswered_since: None,
            is_answering: false,
            is_repeating: false,
            repeated: 0,
            is_held: false,
            timed: None,
            round_trip: RoundTrip::new(estimate),
            sent: VecDeque::new(),
        }
    }

    /// Sets the longest time that announcements wait in the builder's switch port when its buffer
    /// is full.
    pub(crate) fn expect_queue(&mut self, longest: Duration) {
        self.round_trip.expect_queue(longest);
    }

    pub(crate) fn association(&self) -> Association {
        self.association
    }

    /// Handles the header of a datagram of this association. Returns true if the datagram is newer
    /// than all earlier ones.
    pub(crate) fn handle_header(&mut self, header: &DatagramHeader, now: Instant) -> bool {
        let is_newer = is_after(header.sequence, self.seen);
        if self.seen == 0 && self.sequence > 0 {
            // The first datagram need not be repeated any more.
            self.acknowledge_at = None;
        }
        if is_newer {
            self.seen = header.sequence;
        }
        self.acknowledge_at.get_or_insert(now + ACKNOWLEDGE_WITHIN);
        is_newer
    }

    /// Notes that the builder knows the announcements up to lane offset `offset`.
    pub(crate) fn handle_announced(&mut self, offset: u64, lane: &OutgoingLane, now: Instant) {
        if self.timed.is_some_and(|(end, _)| end <= offset)
            && let Some((_, sent)) = self.timed.take()
        {
            self.round_trip.sample(now.since(sent));
            // `failures` is reset only when a round trip was measured. The answer to a repeated
            // announcement does not measure one; after a reset, the next announcement would be
            // repeated too soon (Karn's algorithm: RFC 6298, §3 and §5.7).
            self.failures = 0;
        }
        let is_news = offset > self.acknowledged;
        self.acknowledged = self.acknowledged.max(offset);
        if offset >= lane.announced() {
            // The builder knows all announcements, so no answer is awaited. That is true also if
            // the offset is not new, because the builder may have known the repeated announcements
            // already.
            self.unanswered_since = None;
            self.repeat_at = None;
        } else if is_news {
            self.unanswered_since = Some(now);
            self.repeat_at = Some(now + self.round_trip.timeout(self.failures) + ANSWER_WITHIN);
        }
    }

    /// Delays datagrams of records until `until`, because the host cannot send now.
    pub(crate) fn put_off(&mut self, until: Instant) {
        self.acknowledge_at = self.acknowledge_at.map(|at| until.max(at));
        self.announcing.put_off(until);
    }

    /// Returns true if announcements have not been acknowledged for so long that the path must have
    /// failed (docs/reference/protocol.md UDP-1).
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.unanswered_since.is_some_and(|since| now.since(since) >= SILENCE)
    }

    /// Sets whether bytes that answer requests wait to be sent. The source acknowledges the
    /// requests only after it has sent these bytes (docs/reference/protocol.md UDP-7).
    pub(crate) fn set_answering(&mut self, is_answering: bool) {
        self.is_answering = is_answering;
    }

    /// Notes that the builder lacks announcements, which the source then repeats.
    pub(crate) fn handle_missing(&mut self) {
        self.timed = None;
        self.is_repeating = true;
    }

    /// Returns true if the timer for the acknowledgement of announcements has expired, so that they
    /// are repeated (docs/reference/protocol.md UDP-9).
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
        // No grant limits the announcements that reach the switch port. So while the builder has
        // enough announced bytes to grant, the lane sends no further batch before the previous one
        // is acknowledged.
        self.is_held = !self.announcing.is_short(lane) && lane.announced_next() > self.acknowledged;
        (is_due && !self.is_held) || self.acknowledge_at.is_some_and(|at| at <= now)
    }

    /// Returns the time at which a datagram is to be sent or repeated.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let announce_at = self.announcing.next().filter(|_| !self.is_held);
        earlier(earlier(self.acknowledge_at, announce_at), self.repeat_at)
    }

    /// Appends one datagram with the announcements that are due. Without announcements, the
    /// datagram only acknowledges the builder's datagrams. Returns the number of announcements.
    pub(crate) fn write(&mut self, lane: &mut OutgoingLane, now: Instant, into: &mut BytesMut) -> usize {
        let start = into.len();
        into.put_bytes(0, DATAGRAM_HEADER);
        let most =
            if self.is_repeating { self.batch } else { self.announcing.batch(lane, now).min(self.batch) };
        let is_repeat = lane.announced_next() < lane.announced();
        let count = lane.announce_at_most(most, into);
        if count > 0 {
            self.repeated += u64::from(is_repeat);
            self.announcing.note(lane, now);
            self.unanswered_since.get_or_insert(now);
            // The answer to a repeated announcement could belong to either transmission, so it is
            // not timed.
            if !self.is_repeating {
                self.timed.get_or_insert_with(|| (lane.announced(), now));
            }
            let patience = self.round_trip.timeout(self.failures) + ANSWER_WITHIN;
            self.repeat_at.get_or_insert(now + patience);
        }
        self.is_repeating &= lane.announced_next() < lane.announced();
        let header = self.sealing(DatagramKind::Records, 0, lane).header(0, 0);
        let header = header.seal([&into[start + DATAGRAM_HEADER..]]);
        into[start..start + DATAGRAM_HEADER].copy_from_slice(&header);
        self.advance(1);
        if self.seen == 0 {
            // The builder cannot send before it has received a first datagram. If that one is lost,
            // nothing else may make the source send another: the builder may know all announcements
            // from the previous connection.
            self.unanswered_since.get_or_insert(now);
            self.acknowledge_at = Some(now + self.round_trip.timeout(self.failures) + ANSWER_WITHIN);
        }
        count
    }

    /// Returns the header fields that the next datagrams share. The header fields acknowledge the
    /// builder's datagrams (docs/reference/protocol.md UDP-7).
    pub(crate) fn sealing(&mut self, kind: DatagramKind, request: u16, lane: &OutgoingLane) -> Sealing {
        // Pending requests are acknowledged later, by the datagrams that answer them.
        self.acknowledge_at = None;
        if !lane.has_resends() && !self.is_answering {
            self.heard = self.seen;
            // The builder may have requested a range by a datagram that was lost, and granted it by
            // a later one; so a datagram counts as answered only when all granted bytes are sent.
            if lane.sent() >= self.next_whole_at {
                self.heard_whole = self.next_whole;
                (self.next_whole, self.next_whole_at) = (self.seen, lane.granted());
            }
            if lane.sent() >= lane.granted() {
                self.heard_whole = self.seen;
            }
        }
        let sequence = self.sequence.wrapping_add(1);
        // The builder recognises first transmissions that answer a request, so they may acknowledge
        // it early. If other datagrams acknowledged the request before these bytes are sent, the
        // builder would declare the bytes lost.
        let is_first = kind == DatagramKind::Data && request == 0;
        let heard = if is_first { self.heard } else { self.heard_whole };
        let association = self.association;
        Sealing { header: DatagramHeader { kind, request, association, sequence, heard, offset: 0 } }
    }

    /// Notes that `count` datagrams were sent.
    pub(crate) fn advance(&mut self, count: u32) {
        self.sequence = self.sequence.wrapping_add(count);
    }

    /// Notes that a datagram arrived when the lane had been sent up to offset `sent`.
    pub(crate) fn note_sent(&mut self, sent: u64, now: Instant) {
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((now, sent));
    }

    /// Returns the lane offset below which a request that arrives now can be right about losses.
    /// Bytes that were sent within the last round trip had not arrived when the builder made the
    /// request, so it cannot know whether they are lost (docs/reference/protocol.md UDP-12).
    pub(crate) fn can_be_missed(&self, now: Instant) -> u64 {
        let flight = self.round_trip.flight();
        let first = self.sent.iter().find(|(at, _)| now.since(*at) < flight);
        first.map_or(u64::MAX, |(_, sent)| *sent)
    }
}

#[cfg(test)]
mod tests;
