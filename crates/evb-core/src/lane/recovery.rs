//! [`Recovery`]: which permitted bytes are still to come, which are lost, and when one knows.

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
    undo::{self, Fix},
    wire::{
        datagram::{DatagramHeader, DatagramKind, Request, is_after},
        record::MAX_RESEND_RANGES,
    },
};

/// The builder's account of one lane's transmissions, each of which ends once: it arrives, or it is declared lost.
///
/// Permitted bytes that do not come are lost when bytes that were sent later have arrived and a reordering window has
/// passed (RFC 8985 §6.2), or when nothing came for a timer from measured round trips. Lost bytes are asked for again, as
/// soon as the grant policy permits that transmission too.
#[derive(Debug)]
pub(crate) struct Recovery {
    /// First transmissions that are to come, by lane offset.
    first: VecDeque<Pending>,
    /// Repetitions that are to come, in the order of asking.
    again: VecDeque<Pending>,
    /// Declared lost and not asked for again.
    lost: RangeSet,
    round_trip: RoundTrip,
    last_arrival: Instant,
    /// Since when bytes are to come, or the last of them came.
    waiting_since: Option<Instant>,
    /// Timers in a row that went off before a byte came.
    failures: u32,
    /// The longest time between two arrivals of late, while bytes were to come: a source may be slow, or paced.
    gap: Duration,
    /// By how much the reordering window is wider than usual, as a power of two: what was declared lost came nevertheless.
    patience: u32,
    /// Losses since the window changed.
    confirmed: u32,
    /// By how much the timer waits longer than usual, as a power of two: it went off, and the bytes came nevertheless.
    caution: u32,
    /// When that changed last.
    caution_at: Instant,
    /// Whether the last timer may still prove a mistake.
    on_trial: bool,
    /// What was declared lost last, and whether by the timer.
    written_off: VecDeque<(Range<u64>, Request, bool)>,
    counters: RecoveryCounters,
    repairs: Repairs,
    round_trips: Times,
}

/// A reordering window is no shorter: packets of one train pass different queues of a host.
const LEAST_WINDOW: Duration = Duration::from_micros(50);
/// What the window may grow by, as a power of two.
const MOST_PATIENCE: u32 = 10;
/// After so many losses that were no mistakes, the window shrinks again (RFC 8985 §6.2 has 16 recoveries).
const LOSSES_PER_PATIENCE: u32 = 16;
/// What the timer may grow by, as a power of two.
const MOST_CAUTION: u32 = 3;
/// How long the timer stays so before it is halved: whatever kept a host busy is over.
const CAUTION_LASTS: Duration = Duration::from_secs(1);
/// So many of the last losses are remembered, to know a mistake when it arrives (docs/reference/protocol.md UDP-16).
const REMEMBERED: usize = 64;

impl Recovery {
    /// Nothing permitted. `estimate`: a round trip measured elsewhere.
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

    /// Data waits in the port for so long if that is full.
    pub(crate) fn expect_queue(&mut self, longest: Duration) {
        self.round_trip.expect_queue(longest);
    }

    /// What was counted.
    pub(crate) fn counters(&self) -> RecoveryCounters {
        self.counters
    }

    /// How long losses took to be repaired, and answers to come.
    pub(crate) fn times(&self) -> (&Times, &Times) {
        (self.repairs.times(), &self.round_trips)
    }

    /// The first lost range; empty if nothing is lost.
    pub(crate) fn lost(&self) -> Range<u64> {
        self.lost.first().unwrap_or(0..0)
    }

    /// Since when bytes are to come and none has.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.waiting_since.filter(|_| self.is_waiting())
    }

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub(crate) fn invariants(&self) {
        let is_apart = |[one, next]: [&Pending; 2]| one.range.end <= next.range.start;
        let first: Vec<&Pending> = self.first.iter().collect();
        assert!(
            first.array_windows().copied().all(is_apart),
            "first transmissions in the lane's order: {self:?}"
        );
        let pending = || self.first.iter().chain(&self.again);
        assert!(pending().all(|pending| !pending.range.is_empty()), "nothing empty is waited for: {self:?}");
        assert!(self.first.iter().all(|pending| pending.request == 0), "{self:?}");
        assert!(self.written_off.len() <= REMEMBERED, "{self:?}");
        assert!(self.patience <= MOST_PATIENCE && self.caution <= MOST_CAUTION, "{self:?}");
        self.lost.invariants();
    }

    fn is_waiting(&self) -> bool {
        !(self.first.is_empty() && self.again.is_empty() && self.lost.is_empty())
    }

    /// How long an answer may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.repeat_after(self.failures + self.caution).max(self.gap * 2)
    }

    /// How long to wait before what was said is said again, after it was in vain `failures` times.
    pub(crate) fn repeat_after(&self, failures: u32) -> Duration {
        self.round_trip.timeout(failures)
    }

    /// An answer took so long.
    pub(crate) fn sample(&mut self, took: Duration) {
        self.round_trip.sample(took);
        self.round_trips.record(took);
    }

    /// Permits that the source sends `range` for the first time, as our datagram `said` will tell it.
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

    /// Notes that a further datagram of ours says what is permitted. What the source had not heard of may come in answer to
    /// this one: its timer begins anew (docs/protocol.md UDP-13). `answered` is the last that the source has heard.
    pub(crate) fn say_again(&mut self, sequence: u32, answered: u32, now: Instant) {
        let first = self.first.iter_mut().rev().take_while(|pending| is_after(pending.said, answered));
        let is_unheard = |pending: &&mut Pending| pending.charged == 0 && is_after(pending.said, answered);
        let unheard = first.chain(self.again.iter_mut().filter(is_unheard));
        unheard.filter(|pending| pending.said != sequence).for_each(|pending| pending.given = now);
    }

    /// Asks the source for a lost range again, as our datagram `said` will tell it.
    pub(crate) fn ask(&mut self, range: Range<u64>, said: u32, now: Instant) {
        self.lost.remove(&range);
        self.counters.resends += 1;
        let request = said as Request;
        let (charged, given, expected) = (request, now, now);
        self.again.push_back(Pending { range, request, charged, said, given, expected, overtaken: None });
    }

    /// Asks anew, by our next datagram `said`, for what is overdue while the source has heard of nothing beyond `answered`
    /// that permits it. The permission seems lost, not the bytes: they stay outstanding as they are (docs/protocol.md
    /// UDP-13). Adds the ranges to `asked`, as far as that has room.
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

    /// A segment is here. Calls `accounted` for the parts of it that a transmission was waited for; `is_new` tells whether
    /// any of its bytes were missing.
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
            // A source that never heard of the first permission answers a request with a first transmission, and one segment may
            // have both.
            0 => {
                let is_first = self.account_first(range, now, &mut accounted);
                if undo::is_undone(Fix::Cd126fa) || (is_first && undo::is_undone(Fix::Cccd56c)) {
                    is_first
                } else {
                    // They go in the lane's order, whatever the order of asking.
                    let answers = |pending: &Pending| !is_after_request(pending.request, heard);
                    let is_before = |pending: &Pending| answers(pending) && pending.range.end <= range.start;
                    self.account_again(range, answers, is_before, now, &mut accounted) || is_first
                }
            }
            request => {
                // They go in the order of asking.
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

    /// Of first transmissions, what lies in front of a segment was sent before it.
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

    /// Accounts for the repetitions that a segment answers; of those in front of it, what `is_before` tells was sent before it.
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
            // The rest of the answer is under way.
            let note = |rest: &mut Pending| {
                if !undo::is_undone(Fix::Cd126fa) {
                    rest.given = now;
                }
            };
            take_out(&mut self.again, index, &part, now, note);
            accounted(part, charged);
        }
        waited_for
    }

    /// The source has dealt with everything up to a request: what it was asked for before has been sent, in front of that
    /// datagram. Unless it is part of the answer itself, as are first transmissions of what was asked for and had never been
    /// sent (docs/reference/protocol.md UDP-12): they go in the order of the lane.
    pub(crate) fn handle_heard(&mut self, header: &DatagramHeader, now: Instant) {
        let is_first = header.kind == DatagramKind::Data && header.request == 0;
        for pending in &mut self.again {
            let is_under_way = match header.request {
                0 => is_first && pending.range.end > header.offset && !undo::is_undone(Fix::Cd126fa),
                answered => pending.request == answered,
            };
            if !is_under_way && !is_after_request(pending.request, header.heard) {
                pending.overtaken.get_or_insert(now);
            }
        }
    }

    /// Declares lost what is overdue. Calls `accounted` with each such transmission; bytes that are `here` by another one
    /// are not asked for again. Requirements: docs/reference/protocol.md UDP-13.
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
        let mut is_lost = |pending: &Pending| {
            let overtaken = pending.overtaken.is_some_and(|since| since + window <= now);
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
        self.first.retain(|pending| !is_lost(pending));
        self.again.retain(|pending| !is_lost(pending));
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

    /// When [`Self::expire`] has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let (window, timeout) = (self.window(), self.timeout());
        let pending = self.first.iter().chain(&self.again);
        pending.fold(None, |next, pending| {
            let overtaken = pending.overtaken.map(|since| since + window);
            earlier(next, earlier(overtaken, Some(pending.due(self.last_arrival, timeout))))
        })
    }

    /// Requirements: docs/reference/protocol.md UDP-14.
    fn count_unawaited(&mut self, range: &Range<u64>, request: Request, is_new: bool, now: Instant) {
        let overlaps = |(lost, of, _): &&(Range<u64>, Request, bool)| {
            *of == request && lost.start < range.end && range.start < lost.end
        };
        let Some((_, _, by_timer)) = self.written_off.iter().find(overlaps) else {
            self.counters.duplicates += u64::from(!is_new);
            return;
        };
        // It was declared lost too early: wait longer before the next is.
        self.counters.late_after_loss += 1;
        if !by_timer {
            self.patience = (self.patience + 1).min(MOST_PATIENCE);
            self.confirmed = 0;
        } else if core::mem::take(&mut self.on_trial) {
            self.caution = (self.caution + 1).min(MOST_CAUTION);
            self.caution_at = now;
        }
    }

    /// A byte came; how long did it take since the one before, or since it was permitted?
    fn note_gap(&mut self, now: Instant) {
        if let Some(front) = self.first.front().filter(|_| self.failures == 0) {
            let gap = now.since(self.last_arrival.max(front.given));
            self.gap = gap.max(self.gap - self.gap / 16);
        }
        self.last_arrival = now;
        self.failures = 0;
    }

    /// How long to wait after something that was sent later.
    fn window(&self) -> Duration {
        let usual = (self.round_trip.least() / 4).max(LEAST_WINDOW);
        let most = self.round_trip.smoothed().unwrap_or(usual).max(usual);
        (usual * (1 << self.patience)).min(most)
    }
}

/// Whether a request came after the datagram of that sequence: its number is the low half of its own datagram's sequence.
fn is_after_request(request: Request, heard: u32) -> bool {
    is_after(u32::from(request) << 16, heard << 16)
}
