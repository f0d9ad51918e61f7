//! From trigger to decision, and from completion to free slot: the path of every event.

use core::time::Duration;

use super::{
    Phase, SupervisorCore,
    journal::What,
    outstanding::{BuilderIndex, Place},
    words::short,
};
use crate::{
    id::{BuilderId, Peer},
    time::Instant,
    trigger::TriggerKind,
    undo::{self, Fix},
    wire::{
        control::{Completions, MAX_EXCEPTIONS, Verdict, exception::Outcome},
        journal::Accounted,
    },
};

/// How many triggers one turn takes; the rest come with the next.
const TRIGGERS_PER_TURN: u32 = 1 << 14;

/// Time between two decisions that inhibit. Sources hear of triggers in excess together, because a message for each would
/// take the processor from those that build events; the slots that come free meanwhile go to those that wait.
const INHIBIT_EVERY: Duration = Duration::from_millis(10);

/// Part of all slots that ends such a wait as soon as it is free.
const FREE_PART: u64 = 16;

/// How many external triggers may wait to be decided.
const PENDING_LIMIT: u64 = 1 << 32;

impl SupervisorCore {
    /// External triggers: so many events happened now. Says how many are taken: none unless the run is running and its
    /// trigger is external.
    /// Requirements: docs/protocol.md RUN-16.
    pub fn trigger(&mut self, count: u64, now: Instant) -> u64 {
        if !self.counts_triggers() || !self.has_external_trigger() {
            return 0;
        }
        let taken = count.min(PENDING_LIMIT - self.pending);
        self.pending += taken;
        self.take_pending(now);
        taken
    }

    pub(super) fn take_due_triggers(&mut self, now: Instant, until: Option<Instant>) {
        self.take_pending(now);
        if !self.heeds_clock() {
            return;
        }
        let last = until.map_or(now, |until| until.min(now));
        // At the end, nothing is left to wait for.
        let inhibits = self.inhibits(now) || until.is_some_and(|until| until <= now);
        let assigns = inhibits || self.has_slots_to_give();
        for _ in 0..TRIGGERS_PER_TURN {
            if !(inhibits || assigns && self.has_slot()) {
                return;
            }
            let Some(due) = self.trigger.pop_due(last) else { return };
            self.take_trigger(due, now);
            if !self.counts_triggers() {
                return;
            }
        }
    }

    /// Assigns events as long as there are free slots, where that is what triggers.
    pub(super) fn assign_freely(&mut self, now: Instant) {
        if self.plan.trigger != TriggerKind::AsFastAsPossible || self.up.is_empty() {
            return;
        }
        while self.takes_triggers() && self.has_slot() {
            self.take_trigger(now, now);
        }
    }

    /// Requirements: docs/protocol.md RUN-12, RUN-13, RUN-20.
    pub(super) fn handle_completions(&mut self, id: BuilderId, completions: Completions, now: Instant) {
        let Some(index) = self.builder_index(id) else { return };
        let exceptions = completions.exceptions.len();
        if exceptions > MAX_EXCEPTIONS {
            let reason =
                format!("{exceptions} exceptions in one message; at most {MAX_EXCEPTIONS} are allowed");
            return self.expel(Peer::Builder(id), &reason, now);
        }
        let known = match self.known_completions(index, &completions) {
            Ok(known) => known,
            Err(gap) => return self.expel(Peer::Builder(id), &gap.to_string(), now),
        };
        self.builders[index].unanswered = true;
        let news = completions.without(known);
        if news.count() == 0 {
            return;
        }
        self.account(index, &news, now);
        let what = Accounted { builder: id.number().into(), completions: Some(news) };
        self.journal(What::Accounted(what), now);
    }

    /// Enters completions that are new into the ledger.
    pub(super) fn account(&mut self, index: usize, completions: &Completions, now: Instant) {
        let builder = index as BuilderIndex;
        let mut complete = 0;
        if !undo::is_undone(Fix::C33dca9c) {
            self.prolong_drain(now);
        }
        for event in completions.events() {
            complete += u64::from(self.free(builder, event.number(), now));
        }
        self.builders[index].tally.complete += complete;
        self.tally.complete += complete;
        for exception in &completions.exceptions {
            if !self.free(builder, exception.event, now) {
                continue;
            }
            let tally = &mut self.builders[index].tally;
            match exception.outcome() {
                Outcome::Incomplete => {
                    tally.incomplete += 1;
                    self.tally.incomplete += 1;
                    self.count_missing(&exception.missing);
                }
                Outcome::Rejected => {
                    tally.rejected += 1;
                    self.tally.rejected += 1;
                }
                Outcome::Lost | Outcome::Unspecified => {
                    tally.lost += 1;
                    self.tally.lost += 1;
                    let id = self.builders[index].id;
                    self.findings.loss(format!("builder {id}: {}", short(&exception.cause)), 1);
                }
            }
        }
        self.builders[index].accounted += completions.count() as u64;
    }

    /// Gives a builder's free slots to the assignment, if it gets events at all.
    pub(super) fn offer_slots(&mut self, index: usize, now: Instant) {
        let seat = &self.builders[index];
        let taken = seat.tally.outstanding();
        let offered = self.is_settling() && seat.is_active();
        let free = if offered { u64::from(self.plan.slots).saturating_sub(taken) } else { 0 };
        self.slots.set(index as BuilderIndex, free as u32, now);
    }

    /// Whether a new event can be had by somebody: those without a builder go first, and of none could be told before it is in
    /// the journal.
    fn has_slot(&self) -> bool {
        self.slots.total() > 0 && self.homeless.is_empty() && self.stalled.is_none()
    }

    /// Whether a trigger that comes from elsewhere is an event, or at least an inhibited one.
    fn counts_triggers(&self) -> bool {
        let goes_on = matches!(self.phase, Phase::Running { .. } | Phase::Recovering { .. });
        goes_on && (self.tally.last_trigger_possible.is_none() || undo::is_undone(Fix::F1e823b))
    }

    /// The same of triggers of the run's own clock.
    fn heeds_clock(&self) -> bool {
        self.counts_triggers() && !self.paused
    }

    /// Returns when the run's own clock triggers next; nothing while its triggers are not taken.
    pub(super) fn own_trigger_due(&self) -> Option<Instant> {
        self.trigger.next_due().filter(|_| self.heeds_clock())
    }

    /// Returns when the next trigger can be decided: one without a slot waits for others.
    pub(super) fn next_decision(&self) -> Option<Instant> {
        let due = if self.pending > 0 { Some(Instant::ZERO) } else { self.own_trigger_due() };
        let is_assigned = self.takes_triggers() && self.has_slots_to_give();
        let next = self.inhibited_at.filter(|_| !is_assigned).map(|at| at + INHIBIT_EVERY);
        due.max(next.filter(|_| due.is_some()))
    }

    /// Whether a decision is worth a message even while triggers are in excess.
    fn has_slots_to_give(&self) -> bool {
        let all = u64::from(self.plan.slots) * self.builders.len() as u64;
        self.has_slot() && u64::from(self.slots.total()) * FREE_PART >= all
    }

    /// Whether triggers without a slot are inhibited in this turn.
    fn inhibits(&self, now: Instant) -> bool {
        self.inhibited_at.is_none_or(|at| now == at || now >= at + INHIBIT_EVERY)
    }

    /// Decides the external triggers that came before the run changes its state.
    pub(super) fn settle_pending(&mut self, now: Instant) {
        self.inhibited_at = None;
        self.take_pending(now);
    }

    pub(super) fn take_pending(&mut self, now: Instant) {
        let mut left = u64::from(TRIGGERS_PER_TURN);
        let inhibits = self.inhibits(now);
        let assigns = inhibits || self.has_slots_to_give();
        while self.pending > 0 && left > 0 && self.counts_triggers() {
            // An event's assignment may end the run, and then nothing is pending any more: so count first.
            if !(inhibits || assigns && self.has_slot()) {
                return;
            }
            let count = if !self.has_slot() || !self.takes_triggers() {
                let count = self.inhibit(self.pending, now);
                self.pending -= count;
                count
            } else {
                self.pending -= 1;
                self.take_trigger(now, now);
                1
            };
            left = left.saturating_sub(count);
        }
    }

    /// One trigger that happened at `triggered` and is decided `now`.
    fn take_trigger(&mut self, triggered: Instant, now: Instant) {
        if self.outbox.is_full() {
            self.close_batches();
        }
        self.tally.first_trigger.get_or_insert(triggered);
        let slot = if self.up.is_empty() || !self.has_slot() { None } else { self.slots.take(now) };
        let Some(builder) = slot else {
            self.inhibit(1, now);
            return;
        };
        self.tally.triggered += 1;
        self.outbox.assign(builder, triggered.as_nanos(), now);
        self.outstanding.insert(Place {
            event: self.outbox.decided(),
            triggered_ns: triggered.as_nanos(),
            version: self.roster_version,
            answer: 0,
            builder,
        });
        self.builders[usize::from(builder)].tally.assigned += 1;
        let assigned = self.tally.triggered - self.tally.inhibited;
        if self.plan.events.is_some_and(|events| assigned >= events) {
            self.begin_draining("all its events are assigned", now);
        }
    }

    /// Up to so many triggers for which there is no slot; says how many.
    fn inhibit(&mut self, count: u64, now: Instant) -> u64 {
        if self.outbox.is_full() {
            self.close_batches();
        }
        self.tally.first_trigger.get_or_insert(now);
        let count = self.outbox.decide(count, Verdict::Inhibited, now);
        self.tally.triggered += count;
        self.tally.inhibited += count;
        self.inhibited_at = Some(now);
        self.put_down(count);
        count
    }

    /// Settles an event; false if that builder does not have it.
    fn free(&mut self, builder: BuilderIndex, event: u64, now: Instant) -> bool {
        if !self.outstanding.take(event, builder) {
            self.builders[usize::from(builder)].tally.faults += 1;
            return false;
        }
        self.tally.last_completion = Some(now);
        if self.is_settling() && self.builders[usize::from(builder)].is_active() {
            self.slots.give(builder, now);
        }
        true
    }

    fn count_missing(&mut self, missing: &[u32]) {
        for id in missing {
            let id = u16::try_from(*id).ok().map(crate::id::SourceId::new);
            if let Some(index) = id.and_then(|id| self.source_index(id)) {
                self.sources[index].missing += 1;
            }
        }
    }
}
