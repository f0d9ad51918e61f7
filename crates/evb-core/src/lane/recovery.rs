//! [`LossRecovery`]: the permitted bytes that have not arrived, and the detection of losses among
//! them.

mod counters;
mod pending;
#[cfg(test)]
mod tests;

use core::{ops::Range, time::Duration};
use std::collections::VecDeque;

pub use self::counters::RecoveryCounters;
use self::pending::{Pending, take_out};
use super::{repairs::Repairs, round_trip::RoundTrip};
use crate::{
    ranges::RangeSet,
    time::{Instant, earlier},
    times::Times,
    wire::{
        datagram::{DatagramHeader, DatagramKind, Request, is_after},
        record::MAX_RESEND_RANGES,
    },
};

/// The builder's record of one lane's transmissions. Each transmission ends once: its bytes arrive,
/// or they are declared lost.
///
/// Permitted bytes are declared lost when bytes that were sent later have arrived and a reordering
/// window has passed (RFC 8985 §6.2), or when nothing arrives before a timer expires that is based
/// on measured round trips. Lost bytes are requested again as soon as the grant policy permits the
/// new transmission.
#[derive(Debug)]
pub(crate) struct LossRecovery {
    /// First transmissions that have not arrived, by lane offset.
    first: VecDeque<Pending>,
    /// Repeated transmissions that have not arrived, in the order of their requests.
    again: VecDeque<Pending>,
    /// Bytes that were declared lost and have not been requested again.
    lost: RangeSet,
    round_trip: RoundTrip,
    last_arrival: Instant,
    /// Time of the last arrival, or, if nothing was awaited then, the time since which bytes are
    /// awaited.
    waiting_since: Option<Instant>,
    /// Number of consecutive timers that expired before a byte arrived.
    failures: u32,
    /// Longest recent time between two arrivals while bytes were awaited: the source may be slow,
    /// or may keep a configured rate.
    gap: Duration,
    /// Power of two by which the reordering window is longer than usual, because bytes arrived that
    /// had been declared lost.
    patience: u32,
    /// Number of losses since the window changed.
    confirmed: u32,
    /// Power of two by which the timer is longer than usual, because bytes arrived after the timer
    /// had declared them lost.
    caution: u32,
    /// Time of the last change of `caution`.
    caution_at: Instant,
    /// True if the bytes that the last timer declared lost may still arrive.
    on_trial: bool,
    /// Latest ranges of lane bytes that were declared lost, each with the number of the request for
    /// its retransmission, and true if a timer declared the loss.
    written_off: VecDeque<(Range<u64>, Request, bool)>,
    counters: RecoveryCounters,
    repairs: Repairs,
    round_trips: Times,
}

/// Shortest reordering window. Packets of one train pass different queues of a host, and may
/// overtake each other there.
const LEAST_WINDOW: Duration = Duration::from_micros(50);
/// Highest exponent of the power of two by which the window grows.
const MOST_PATIENCE: u32 = 10;
/// Number of losses without a wrongly declared one after which the window shrinks again (RFC 8985
/// §6.2 uses 16 recoveries).
const LOSSES_PER_PATIENCE: u32 = 16;
/// Highest exponent of the power of two by which the timer grows.
const MOST_CAUTION: u32 = 3;
/// Time after which a longer timer is halved. A host that delayed packets because it was busy has
/// had time to recover.
const CAUTION_LASTS: Duration = Duration::from_secs(1);
/// Number of latest losses that are remembered, to detect bytes that arrive after they were
/// declared lost (docs/reference/protocol.md UDP-16).
const REMEMBERED: usize = 64;

impl LossRecovery {
    /// Returns a record without transmissions. `estimate` is a round trip time from another
    /// measurement.
    pub(crate) fn new(estimate: Option<Duration>, now: Instant) -> Self {
        Self {
            first: VecDeque::new(),
            again: VecDeque::new(),
            lost: RangeSet::default(),
            round_trip: RoundTrip::new(estimate),
            last_arrival: now,
            waiting_since: None,
            failures: 0,
            gap: Duration::ZERO,
            patience: 0,
            confirmed: 0,
            caution: 0,
            caution_at: now,
            on_trial: false,
            written_off: VecDeque::new(),
            counters: RecoveryCounters::default(),
            repairs: Repairs::default(),
            round_trips: Times::new(),
        }
    }

    /// Sets the longest time that data waits in the switch port when its buffer is full.
    pub(crate) fn expect_queue(&mut self, longest: Duration) {
        self.round_trip.expect_queue(longest);
    }

    /// Returns the counters.
    pub(crate) fn counters(&self) -> RecoveryCounters {
        self.counters
    }

    /// Returns the times of repairs and of round trips.
    pub(crate) fn times(&self) -> (&Times, &Times) {
        (self.repairs.times(), &self.round_trips)
    }

    /// Returns the first lost range; it is empty if no bytes are lost.
    pub(crate) fn lost(&self) -> Range<u64> {
        self.lost.first().unwrap_or(0..0)
    }

    /// Returns the time of the last arrival, or since which bytes are awaited; `None` if no bytes
    /// are awaited.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.waiting_since.filter(|_| self.is_waiting())
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(crate) fn invariants(&self) {
        let is_apart = |[one, next]: [&Pending; 2]| one.range.end <= next.range.start;
        let first: Vec<&Pending> = self.first.iter().collect();
        assert!(
            first.array_windows().copied().all(is_apart),
            "first transmissions in the lane's order: {self:?}"
        );
        let pending = || self.first.iter().chain(&self.again);
        assert!(pending().all(|pending| !pending.range.is_empty()), "no pending range is empty: {self:?}");
        assert!(self.first.iter().all(|pending| pending.request == 0), "{self:?}");
        assert!(self.written_off.len() <= REMEMBERED, "{self:?}");
        assert!(self.patience <= MOST_PATIENCE && self.caution <= MOST_CAUTION, "{self:?}");
        self.lost.invariants();
    }

    fn is_waiting(&self) -> bool {
        !(self.first.is_empty() && self.again.is_empty() && self.lost.is_empty())
    }

    /// Returns the time after which missing bytes are declared lost.
    pub(crate) fn timeout(&self) -> Duration {
        self.repeat_after(self.failures + self.caution).max(self.gap * 2)
    }

    /// Returns the time after which the builder repeats a datagram that it has repeated `failures`
    /// times without an answer.
    pub(crate) fn repeat_after(&self, failures: u32) -> Duration {
        self.round_trip.timeout(failures)
    }

    /// Adds a measured round trip.
    pub(crate) fn sample(&mut self, took: Duration) {
        self.round_trip.sample(took);
        self.round_trips.record(took);
    }

    /// Records the first transmission of `range`, which the builder's datagram `said` permits.
    pub(crate) fn permit(&mut self, range: Range<u64>, said: u32, now: Instant) {
        if !self.is_waiting() {
            self.waiting_since = Some(now);
        }
        let (given, expected) = (now, now);
        self.first.push_back(Pending {
            range,
            request: 0,
            charged: 0,
            said,
            given,
            expected,
            overtaken: None,
        });
    }

    /// Notes that another datagram of the builder repeats the permissions. A source that has not
    /// acknowledged a permission may send its bytes in answer to this datagram, so the timers of
    /// these bytes restart (docs/reference/protocol.md UDP-13). `answered` is the last datagram
    /// that the source has acknowledged.
    pub(crate) fn say_again(&mut self, sequence: u32, answered: u32, now: Instant) {
        let first = self.first.iter_mut().rev().take_while(|pending| is_after(pending.said, answered));
        let is_unheard = |pending: &&mut Pending| pending.charged == 0 && is_after(pending.said, answered);
        let unheard = first.chain(self.again.iter_mut().filter(is_unheard));
        unheard.filter(|pending| pending.said != sequence).for_each(|pending| pending.given = now);
    }

    /// Records the request for a lost range, by the builder's datagram `said`.
    pub(crate) fn ask(&mut self, range: Range<u64>, said: u32, now: Instant) {
        self.lost.remove(&range);
        self.counters.resends += 1;
        let request = said as Request;
        let (charged, given, expected) = (request, now, now);
        self.again.push_back(Pending { range, request, charged, said, given, expected, overtaken: None });
    }

    /// Requests overdue bytes again if the source has acknowledged no datagram that permits them.
    /// The permission seems lost and not the bytes, so the bytes stay outstanding
    /// (docs/reference/protocol.md UDP-13). `said` is the builder's next datagram, and `answered`
    /// the last one that the source has acknowledged. The ranges are added to `asked`, as many as
    /// fit into one request; returns true if there are any.
    pub(crate) fn ask_unheard(
        &mut self,
        said: u32,
        answered: u32,
        asked: &mut Vec<Range<u64>>,
        now: Instant,
    ) -> bool {
        let (timeout, last_arrival, before) = (self.timeout(), self.last_arrival, asked.len());
        let is_unheard = |pending: &Pending| {
            let is_overdue = pending.overtaken.is_none() && pending.due(last_arrival, timeout) <= now;
            is_overdue && is_after(pending.said, answered)
        };
        for _ in 0..self.first.len() + self.again.len() {
            if asked.len() == MAX_RESEND_RANGES {
                break;
            }
            let of_first = self.first.iter().position(is_unheard).and_then(|index| self.first.remove(index));
            let of_again =
                || self.again.iter().position(is_unheard).and_then(|index| self.again.remove(index));
            let Some(pending) = of_first.or_else(of_again) else { break };
            asked.push(pending.range.clone());
            self.again.push_back(Pending { request: said as Request, said, given: now, ..pending });
        }
        let count = asked.len() - before;
        self.counters.resends += count as u64;
        self.failures += u32::from(count > 0);
        self.counters.timeouts += u64::from(count > 0);
        count > 0
    }

    /// Handles the arrival of a segment. Calls `accounted` for the parts of the segment whose
    /// transmission was awaited. `is_new` is true if any byte of the segment was missing.
    pub(crate) fn handle_arrival(
        &mut self,
        range: &Range<u64>,
        header: &DatagramHeader,
        is_new: bool,
        now: Instant,
        mut accounted: impl FnMut(Range<u64>, Request),
    ) {
        self.note_gap(now);
        self.lost.remove(range);
        let heard = header.heard;
        let waited_for = match header.request {
            // A source that never received the first permission answers a request with a first
            // transmission, and one segment may contain bytes of either kind.
            0 => {
                let is_first = self.account_first(range, now, &mut accounted);
                // Sources send first transmissions in the order of the lane, not of the requests.
                let answers = |pending: &Pending| !is_after_request(pending.request, heard);
                let is_before = |pending: &Pending| answers(pending) && pending.range.end <= range.start;
                self.account_again(range, answers, is_before, now, &mut accounted) || is_first
            }
            request => {
                // Sources send requested bytes in the order of the requests.
                let answers = |pending: &Pending| pending.request == request;
                self.account_again(range, answers, answers, now, &mut accounted)
            }
        };
        if is_new {
            self.repairs.handle_arrival(range, header.request != 0, now);
        }
        if !waited_for {
            self.count_unawaited(range, header.request, is_new, now);
        }
        self.waiting_since = Some(now);
    }

    /// Records the arrival of first transmissions, and returns true if any of the bytes were
    /// awaited. Bytes at lower lane offsets were sent before this segment.
    fn account_first(
        &mut self,
        range: &Range<u64>,
        now: Instant,
        accounted: &mut impl FnMut(Range<u64>, Request),
    ) -> bool {
        let mut waited_for = false;
        let mut index = 0;
        while let Some(pending) = self.first.get_mut(index)
            && pending.range.start < range.end
        {
            let part = pending.overlap(range);
            if part.is_empty() {
                pending.overtaken.get_or_insert(now);
                index += 1;
                continue;
            }
            waited_for = true;
            index += take_out(&mut self.first, index, &part, now, |rest| rest.expected = now);
            accounted(part, 0);
        }
        waited_for
    }

    /// Records the arrival of the repeated transmissions that a segment answers, and returns true
    /// if any of the bytes were awaited. Earlier transmissions for which `is_before` is true were
    /// sent before this segment.
    fn account_again(
        &mut self,
        range: &Range<u64>,
        answers: impl Fn(&Pending) -> bool,
        is_before: impl Fn(&Pending) -> bool,
        now: Instant,
        accounted: &mut impl FnMut(Range<u64>, Request),
    ) -> bool {
        let mut waited_for = false;
        for index in (0..self.again.len()).rev() {
            let pending = &mut self.again[index];
            let (part, charged) = (pending.overlap(range), pending.charged);
            if !answers(pending) || part.is_empty() {
                if waited_for && is_before(pending) {
                    pending.overtaken.get_or_insert(now);
                }
                continue;
            }
            waited_for = true;
            // The source is sending the rest of its answer, so the timer of the rest restarts.
            let note = |rest: &mut Pending| rest.given = now;
            take_out(&mut self.again, index, &part, now, note);
            accounted(part, charged);
        }
        waited_for
    }

    /// Handles an acknowledgement. The source had answered all requests up to the acknowledged one
    /// before it sent this datagram, so answers that have not arrived are overtaken. The exceptions
    /// are parts of the same answer, such as first transmissions of requested bytes that had never
    /// been sent, because the source sends these in the order of the lane
    /// (docs/reference/protocol.md UDP-12).
    pub(crate) fn handle_heard(&mut self, header: &DatagramHeader, now: Instant) {
        let is_first = header.kind == DatagramKind::Data && header.request == 0;
        for pending in &mut self.again {
            let is_under_way = match header.request {
                0 => is_first && pending.range.end > header.offset,
                answered => pending.request == answered,
            };
            if !is_under_way && !is_after_request(pending.request, header.heard) {
                pending.overtaken.get_or_insert(now);
            }
        }
    }

    /// Declares overdue transmissions lost, and calls `accounted` for each. Bytes in `here` have
    /// arrived by another transmission and are not requested again.
    /// Requirements: docs/reference/protocol.md UDP-13.
    pub(crate) fn expire(
        &mut self,
        received: u64,
        here: &RangeSet,
        now: Instant,
        mut accounted: impl FnMut(Range<u64>, Request),
    ) {
        let window = self.window();
        let timeout = self.timeout();
        let (last_arrival, lost, counters) = (self.last_arrival, &mut self.lost, &mut self.counters);
        let (written_off, confirmed, repairs) =
            (&mut self.written_off, &mut self.confirmed, &mut self.repairs);
        let mut timed_out = false;
        // Writes a transmission off if it is overdue, and then returns true, so that it is removed.
        let mut write_off_if_lost = |pending: &Pending| {
            // Bytes that were sent later came longer ago than packets overtake each other.
            let overtaken = pending.overtaken.is_some_and(|since| since + window <= now);
            // The timer has expired before these bytes came.
            let overdue = pending.due(last_arrival, timeout) <= now;
            timed_out |= overdue && !overtaken;
            if overtaken || overdue {
                counters.lost_bytes += pending.range.end - pending.range.start;
                accounted(pending.range.clone(), pending.charged);
                if written_off.len() == REMEMBERED {
                    written_off.pop_front();
                }
                written_off.push_back((pending.range.clone(), pending.request, !overtaken));
                *confirmed += 1;
                let wanted = pending.range.start.max(received)..pending.range.end;
                if wanted.start < wanted.end {
                    // Request 0 is the first transmission of these bytes.
                    here.missing_in(wanted).for_each(|gap| {
                        if pending.request == 0 {
                            repairs.begin(gap.clone(), pending.expected);
                        }
                        lost.insert(gap);
                    });
                }
            }
            overtaken || overdue
        };
        self.first.retain(|pending| !write_off_if_lost(pending));
        self.again.retain(|pending| !write_off_if_lost(pending));
        if timed_out {
            self.failures += 1;
            self.counters.timeouts += 1;
            self.on_trial = true;
        }
        if self.caution > 0 && now.since(self.caution_at) >= CAUTION_LASTS {
            self.caution -= 1;
            self.caution_at = now;
        }
        if self.confirmed >= LOSSES_PER_PATIENCE {
            self.confirmed = 0;
            self.patience = self.patience.saturating_sub(1);
        }
    }

    /// Returns the time at which to call [`Self::expire`]: the first at which a transmission is
    /// overdue, or has been overtaken for the whole window.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let (window, timeout) = (self.window(), self.timeout());
        let pending = self.first.iter().chain(&self.again);
        pending.fold(None, |next, pending| {
            let overtaken = pending.overtaken.map(|since| since + window);
            earlier(next, earlier(overtaken, Some(pending.due(self.last_arrival, timeout))))
        })
    }

    /// Counts a segment whose transmission was not awaited.
    /// Requirements: docs/reference/protocol.md UDP-14.
    fn count_unawaited(&mut self, range: &Range<u64>, request: Request, is_new: bool, now: Instant) {
        let overlaps = |(lost, asked_by, _): &&(Range<u64>, Request, bool)| {
            *asked_by == request && lost.start < range.end && range.start < lost.end
        };
        let Some((_, _, by_timer)) = self.written_off.iter().find(overlaps) else {
            self.counters.duplicates += u64::from(!is_new);
            return;
        };
        // The bytes of this segment had been declared lost too early, so the next loss is declared
        // later.
        self.counters.late_after_loss += 1;
        if !by_timer {
            self.patience = (self.patience + 1).min(MOST_PATIENCE);
            self.confirmed = 0;
        } else if core::mem::take(&mut self.on_trial) {
            self.caution = (self.caution + 1).min(MOST_CAUTION);
            self.caution_at = now;
        }
    }

    /// Updates `gap` by the time since the last arrival, or since the oldest awaited bytes were
    /// permitted if that is later.
    fn note_gap(&mut self, now: Instant) {
        // After an expired timer, the time since the last arrival is that of a loss, not of the
        // source.
        if let Some(front) = self.first.front().filter(|_| self.failures == 0) {
            let gap = now.since(self.last_arrival.max(front.given));
            // A long gap is forgotten slowly.
            self.gap = gap.max(self.gap - self.gap / 16);
        }
        self.last_arrival = now;
        self.failures = 0;
    }

    /// Returns the reordering window: the time to wait for bytes after other bytes that were sent
    /// later have arrived.
    fn window(&self) -> Duration {
        let usual = (self.round_trip.least() / 4).max(LEAST_WINDOW);
        let most = self.round_trip.smoothed().unwrap_or(usual).max(usual);
        (usual * (1 << self.patience)).min(most)
    }
}

/// Returns true if a request was made after the builder's datagram `heard`. The number of a request
/// is the low half of its datagram's sequence number.
fn is_after_request(request: Request, heard: u32) -> bool {
    is_after(u32::from(request) << 16, heard << 16)
}
