//! [`IncomingDatagrams`]: the builder's state of the datagrams of one lane. [`IncomingLane`] holds
//! the state that does not depend on the transport.

use core::{ops::Range, time::Duration};
use std::collections::VecDeque;

use bytes::{BufMut as _, BytesMut};

use super::{IncomingLane, reassembly::Reassembly, recovery::LossRecovery, sequences::Sequences};
use crate::{
    grant::Lost,
    time::{Instant, earlier},
    times::Times,
    units::Bytes,
    wire::{
        control::DatagramTimes,
        datagram::{Association, DATAGRAM_HEADER, DatagramHeader, DatagramKind, is_after},
        record::{MAX_RESEND_RANGES, RecordHeader, encode_commit, encode_resend},
    },
};

/// Most ranges of a commit in one datagram. Together with the ranges of a request, they fit into
/// the smallest packet size that every path supports.
const COMMIT_RANGES: usize = 32;

/// Number of the builder's datagrams that are remembered to measure round trips, until the source
/// acknowledges them (docs/reference/protocol.md UDP-16).
const REMEMBERED: usize = 64;

/// Longest time for which a source that has nothing else to send delays the acknowledgement of
/// datagrams (docs/reference/protocol.md UDP-7).
pub(crate) const ACKNOWLEDGE_WITHIN: Duration = Duration::from_millis(10);

/// Time without an answer after which the association has failed. TCP waits equally long for
/// acknowledgements on a lane over a stream.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// The builder's side of one association: the lane's datagrams on one connection.
#[derive(Debug)]
pub(crate) struct IncomingDatagrams {
    association: Association,
    /// Sequence number of the builder's last datagram.
    sequence: u32,
    /// Sequence numbers of the source's datagrams.
    pub(crate) heard: Sequences,
    /// Highest sequence number of the builder's datagrams that the source has acknowledged.
    answered: u32,
    pub(crate) recovery: LossRecovery,
    pub(crate) reassembly: Reassembly,
    /// Lost ranges that the policy permits to be sent again, for the request in the next datagram.
    asked: Vec<Range<u64>>,
    /// Sequence numbers and times of the builder's datagrams that permitted bytes and that the
    /// source has not acknowledged.
    permits: VecDeque<(u32, Instant)>,
    /// The builder's last datagram and the time to repeat it; `None` if the source has acknowledged
    /// the datagram.
    unheard: Option<(u32, Instant)>,
    failures: u32,
    /// Time since which the source has acknowledged nothing, although the builder has sent a
    /// datagram; `None` if all datagrams are acknowledged.
    unheard_since: Option<Instant>,
    /// True if a datagram of the source has arrived on this association.
    pub(crate) is_met: bool,
    /// Sequence number of the first datagram with the current commit; all later datagrams repeat
    /// the commit.
    commit_since: Option<u32>,
    /// True if announcements arrived while earlier announcements are missing.
    pub(crate) announcements_missing: bool,
    /// Number of the source's datagrams that arrived.
    pub(crate) segments: u64,
}

impl IncomingDatagrams {
    /// Creates the builder's end of a lane that has received nothing. `estimate` is the round trip
    /// that is assumed before one is measured, and `window` bounds the bytes that wait for missing
    /// ones before them.
    pub(crate) fn new(
        association: Association,
        estimate: Option<Duration>,
        window: Bytes,
        now: Instant,
    ) -> Self {
        Self {
            association,
            sequence: 0,
            heard: Sequences::default(),
            answered: 0,
            recovery: LossRecovery::new(estimate, now),
            reassembly: Reassembly::new(window),
            asked: Vec::new(),
            permits: VecDeque::new(),
            unheard: None,
            failures: 0,
            unheard_since: None,
            is_met: false,
            commit_since: None,
            announcements_missing: false,
            segments: 0,
        }
    }

    pub(crate) fn association(&self) -> Association {
        self.association
    }

    /// Returns the next lost range that the builder may request, if the next datagram has room for
    /// a request.
    pub(crate) fn lost(&self) -> Option<Lost> {
        let Range { start, end } = self.recovery.lost();
        let has_room = start < end && self.asked.len() < MAX_RESEND_RANGES;
        has_room.then(|| Lost { start, end, request: self.next_sequence() as u16 })
    }

    /// Notes that the policy permits the first transmission of a range.
    pub(crate) fn permit(&mut self, range: Range<u64>, now: Instant) {
        self.recovery.permit(range, self.next_sequence(), now);
    }

    /// Notes that the policy permits a lost range to be sent again, and adds the range to the next
    /// request.
    pub(crate) fn ask(&mut self, range: Range<u64>, now: Instant) {
        self.recovery.ask(range.clone(), self.next_sequence(), now);
        self.asked.push(range);
    }

    /// Requests bytes again if the datagram with their permission seems lost. Returns true if any
    /// bytes are to be requested.
    pub(crate) fn ask_unheard(&mut self, now: Instant) -> bool {
        let (next, answered) = (self.next_sequence(), self.answered);
        self.recovery.ask_unheard(next, answered, &mut self.asked, now)
    }

    /// Handles the header fields that `count` consecutive datagrams of this association share.
    pub(crate) fn handle_header(&mut self, header: &DatagramHeader, count: u32, now: Instant) {
        self.segments += u64::from(count);
        if !core::mem::replace(&mut self.is_met, true) {
            // Until its first datagram, the source may have been probing for the path MTU, which
            // takes time.
            self.unheard_since = self.unheard.map(|_| now);
        }
        (0..count).for_each(|later| self.heard.note(header.sequence.wrapping_add(later)));
        let is_heard = |sequence: u32| !is_after(sequence, header.heard);
        while let Some((sequence, sent)) = self.permits.pop_front_if(|(sequence, _)| is_heard(*sequence)) {
            if sequence == header.heard && header.kind == DatagramKind::Data {
                self.recovery.sample(now.since(sent));
            }
        }
        if is_after(header.heard, self.answered) {
            // On a path with a long round trip, the builder's newest datagram is never acknowledged
            // yet; so the timer stops only if the acknowledgement covers it.
            self.answered = header.heard;
            self.unheard = self.unheard.filter(|(sequence, _)| !is_heard(*sequence));
            self.unheard_since = self.unheard.map(|_| now);
            self.failures = 0;
        }
        if self.commit_since.is_some_and(is_heard) {
            self.commit_since = None;
        }
        self.recovery.handle_heard(header, now);
    }

    /// Returns true if requested bytes have not arrived, or the builder's datagrams have not been
    /// acknowledged, for so long that the path must have failed (docs/reference/protocol.md UDP-1).
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        let unheard_since = self.unheard_since.filter(|_| self.is_met);
        let since = earlier(self.recovery.waiting_since(), unheard_since);
        since.is_some_and(|since| now.since(since) >= SILENCE)
    }

    /// Returns true if the builder's last datagram seems lost and has to be repeated
    /// (docs/reference/protocol.md UDP-10).
    pub(crate) fn is_repeat_due(&mut self, now: Instant) -> bool {
        let due = self.unheard.is_some_and(|(_, repeat_at)| repeat_at <= now);
        if due {
            self.unheard = None;
            self.failures += 1;
        }
        due
    }

    /// Returns the time at which a timer expires.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        earlier(self.recovery.next_timeout(), self.unheard.map(|(_, repeat_at)| repeat_at))
    }

    /// Appends one datagram with all records for the source (docs/reference/protocol.md UDP-10).
    pub(crate) fn write(
        &mut self,
        lane: &mut IncomingLane,
        ranges: &mut Vec<Range<u64>>,
        now: Instant,
        into: &mut BytesMut,
    ) {
        let start = into.len();
        into.put_bytes(0, DATAGRAM_HEADER);
        self.sequence = self.next_sequence();
        self.recovery.say_again(self.sequence, self.answered, now);
        let granted = lane.granted();
        into.extend_from_slice(&RecordHeader::Grant { end: granted }.encode());
        let announced = match core::mem::take(&mut self.announcements_missing) {
            true => RecordHeader::Reannounce { offset: lane.ready() },
            false => RecordHeader::Announced { offset: lane.ready() },
        };
        into.extend_from_slice(&announced.encode());
        if lane.is_commit_due() {
            self.commit_since = Some(self.sequence);
        }
        // The commit is repeated until the source has acknowledged a datagram with it.
        if self.commit_since.is_some() {
            let offset = lane.take_commit(ranges);
            ranges.truncate(COMMIT_RANGES);
            encode_commit(offset, ranges, into);
        }
        // A datagram that permits bytes is remembered, to time the answer.
        let permits = !self.asked.is_empty() || granted > lane.received();
        if !self.asked.is_empty() {
            encode_resend(self.sequence as u16, &self.asked, into);
            self.asked.clear();
        }
        if permits {
            if self.permits.len() == REMEMBERED {
                self.permits.pop_front();
            }
            self.permits.push_back((self.sequence, now));
        }
        let patience = self.recovery.repeat_after(self.failures) + ACKNOWLEDGE_WITHIN;
        self.unheard = Some((self.sequence, now + patience));
        self.unheard_since.get_or_insert(now);
        let header = self.header().seal([&into[start + DATAGRAM_HEADER..]]);
        into[start..start + DATAGRAM_HEADER].copy_from_slice(&header);
    }

    /// Returns the header of the next datagram to the source, with the newest datagram that was
    /// received from it.
    fn header(&self) -> DatagramHeader {
        DatagramHeader {
            kind: DatagramKind::Records,
            request: 0,
            association: self.association,
            sequence: self.sequence,
            heard: self.heard.newest(),
            offset: 0,
        }
    }

    /// Returns the sequence number of the next datagram. The low half also numbers a request, so it
    /// must not be 0 (docs/reference/protocol.md UDP-6).
    fn next_sequence(&self) -> u32 {
        let next = self.sequence.wrapping_add(1);
        if next as u16 == 0 { next.wrapping_add(1) } else { next }
    }
}

/// Times measured on lanes over datagrams.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneTimes {
    /// Time that losses cost: from the earliest time at which the lost bytes could have arrived to
    /// their arrival.
    repairs: Times,
    /// Round trip time: from a permission to the first datagram that answers it.
    round_trips: Times,
}

impl LaneTimes {
    /// Returns the times in the form of the final report.
    pub(crate) fn report(&self) -> DatagramTimes {
        DatagramTimes {
            recovery_us: self.repairs.pairs(),
            recovery_max_us: self.repairs.max(),
            round_trip_us: self.round_trips.pairs(),
        }
    }

    /// Adds the times measured on another association.
    pub(crate) fn add(&mut self, datagrams: &IncomingDatagrams) {
        let (repairs, round_trips) = datagrams.recovery.times();
        self.repairs.add(repairs);
        self.round_trips.add(round_trips);
    }
}

#[cfg(test)]
mod tests;
