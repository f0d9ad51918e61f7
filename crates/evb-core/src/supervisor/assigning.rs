//! From trigger to decision, and from completion to free slot: the path of every event.

use super::{
    Recipients, SupervisorCore,
    dead_time::Cause,
    index::BuilderIndex,
    intake::TRIGGERS_PER_TURN,
    journal::{What, differences},
    phase::Phase,
};
use crate::{
    id::Peer,
    set::SourceSet,
    time::Instant,
    wire::{
        control::{self, Completions, MAX_EXCEPTIONS, control::Message},
        journal::{Accounted, Lost, Reassigned},
    },
};

impl SupervisorCore {
    /// External triggers: so many events happened now. Says how many are taken: none unless the run is running and its
    /// trigger is external.
    /// Requirements: docs/protocol.md RUN-16.
    pub fn trigger(&mut self, count: u64, now: Instant) -> u64 {
        if !self.counts_triggers() || !self.intake.is_external() {
            return 0;
        }
        let taken = self.intake.add(count);
        self.take_pending(now);
        taken
    }

    pub(super) fn take_due_triggers(&mut self, now: Instant, until: Option<Instant>) {
        self.take_pending(now);
        if !self.counts_triggers() || self.intake.is_paused() {
            return;
        }
        let last = until.map_or(now, |until| until.min(now));
        let inhibits = self.intake.inhibits(now) || last < now;
        for _ in 0..TRIGGERS_PER_TURN {
            if !self.has_slot() && !inhibits {
                return;
            }
            let Some(due) = self.intake.pop_due(last) else { return };
            self.take_trigger(due, now);
            if !self.counts_triggers() {
                return;
            }
        }
    }

    /// Assigns events as long as there are free slots, where that is what triggers.
    pub(super) fn assign_freely(&mut self, now: Instant) {
        if !self.intake.is_free() || self.roster.up().is_empty() {
            return;
        }
        while self.takes_triggers() && self.has_slot() {
            self.take_trigger(now, now);
        }
    }

    /// Returns when the run's own clock triggers next; nothing while its triggers are not taken.
    pub(super) fn own_trigger_due(&self) -> Option<Instant> {
        self.intake.next_due().filter(|_| self.counts_triggers())
    }

    /// Returns when the next trigger can be decided.
    pub(super) fn next_decision(&self) -> Option<Instant> {
        self.intake.next_decision(self.own_trigger_due(), self.takes_triggers() && self.has_slot())
    }

    /// Decides the external triggers that came before the run changes its state.
    pub(super) fn settle_pending(&mut self, now: Instant) {
        self.intake.hurry();
        self.take_pending(now);
    }

    fn take_pending(&mut self, now: Instant) {
        let mut left = u64::from(TRIGGERS_PER_TURN);
        let inhibits = self.intake.inhibits(now);
        while self.intake.pending() > 0 && left > 0 && self.counts_triggers() {
            let count = if !self.has_slot() || !self.takes_triggers() {
                if !inhibits {
                    return;
                }
                let count = self.inhibit(self.intake.pending(), now);
                self.intake.settle(count);
                count
            } else {
                // An event's assignment may end the run, and then nothing is pending any more: so count first.
                self.intake.settle(1);
                self.take_trigger(now, now);
                1
            };
            left = left.saturating_sub(count);
        }
    }

    /// One trigger that happened at `triggered` and is decided `now`.
    fn take_trigger(&mut self, triggered: Instant, now: Instant) {
        self.outbox.make_room();
        self.books.note_trigger(triggered);
        let is_wanted = !self.roster.up().is_empty() && self.has_slot();
        let Some(builder) = is_wanted.then(|| self.assigner.take_slot(now)).flatten() else {
            self.inhibit(1, now);
            return;
        };
        let event = self.outbox.assign(builder, triggered.as_nanos(), now);
        self.assigner.assign(event, triggered.as_nanos(), self.roster.version(), builder);
        self.books.assign(builder);
        if self.plan.events.is_some_and(|events| self.books.assigned() >= events) {
            self.begin_draining("all its events are assigned", now);
        }
    }

    /// Up to so many triggers for which there is no slot; says how many.
    fn inhibit(&mut self, count: u64, now: Instant) -> u64 {
        self.outbox.make_room();
        self.books.note_trigger(now);
        let count = self.outbox.inhibit(count, now);
        self.intake.note_inhibited(now);
        self.books.inhibit(count, self.cause_of_dead_time(), self.outbox.blames());
        count
    }

    /// Why triggers are inhibited now.
    fn cause_of_dead_time(&self) -> Cause {
        match self.phase {
            _ if self.intake.is_paused() => Cause::Paused,
            _ if self.outbox.is_stalled() => Cause::Journal,
            Phase::Recovering { .. } => Cause::Supervisor,
            _ if self.roster.up().is_empty() => Cause::NoSource,
            _ if !self.roster.has_active_builder() => Cause::NoBuilder,
            _ => Cause::Busy,
        }
    }

    /// Whether a new event can be had by somebody: those without a builder go first, and of none could be told before it is in
    /// the journal.
    fn has_slot(&self) -> bool {
        self.assigner.has_slot() && !self.outbox.is_stalled()
    }

    /// Whether a trigger that comes from elsewhere is an event, or at least an inhibited one.
    fn counts_triggers(&self) -> bool {
        self.phase.is_triggering() && !self.books.is_stopped()
    }

    /// Whether triggers become events.
    fn takes_triggers(&self) -> bool {
        self.phase.is_running() && !self.intake.is_paused()
    }

    /// Requirements: docs/protocol.md RUN-12, RUN-13, RUN-20.
    pub(super) fn handle_completions(&mut self, index: BuilderIndex, completions: Completions, now: Instant) {
        let id = self.roster.builder(index).id;
        let exceptions = completions.exceptions.len();
        if exceptions > MAX_EXCEPTIONS {
            let reason =
                format!("{exceptions} exceptions in one message; at most {MAX_EXCEPTIONS} are allowed");
            return self.expel(Peer::Builder(id), &reason, now);
        }
        let known = match self.books.known(index, &completions) {
            Ok(known) => known,
            Err(gap) => return self.expel(Peer::Builder(id), &gap.to_string(), now),
        };
        self.books.owe_answer(index);
        let news = completions.without(known);
        if news.count() == 0 {
            return;
        }
        self.prolong_drain(now);
        self.account(index, &news, now);
        let what = Accounted { builder: id.number().into(), completions: Some(news) };
        self.outbox.journal(What::Accounted(what), now);
    }

    /// Enters completions that are new into the ledger.
    pub(super) fn account(&mut self, index: BuilderIndex, completions: &Completions, now: Instant) {
        let seat = self.roster.builder(index);
        let frees_slot = self.phase.is_settling() && seat.is_active();
        self.books.account(
            (index, seat.id),
            completions,
            |id| self.roster.source_index(id),
            |event| self.assigner.settle(event, index, frees_slot, now),
            now,
        );
    }

    /// Tells builders once in a turn what is in the ledger: their fragments may be forgotten.
    pub(super) fn answer_completions(&mut self) {
        for index in self.roster.builders().positions() {
            let Some(completions) = self.books.take_answer(index) else { continue };
            let seat = self.roster.builder(index);
            if seat.connection.is_some() {
                let message = Message::Accounted(control::Accounted { completions });
                self.outbox.send(Recipients::Builder(seat.id), message);
            }
        }
    }

    /// Gives a builder's free slots to the assignment, if it gets events at all.
    pub(super) fn offer_slots(&mut self, index: BuilderIndex, now: Instant) {
        let offered = self.phase.is_settling() && self.roster.builder(index).is_active();
        let taken = self.books.outstanding(index);
        let free = if offered { u64::from(self.plan.slots).saturating_sub(taken) } else { 0 };
        self.assigner.set_slots(index, free as u32, now);
    }

    pub(super) fn offer_all_slots(&mut self, now: Instant) {
        self.roster.builders().positions().for_each(|index| self.offer_slots(index, now));
    }

    /// Gives unassigned events to builders that have slots (docs/protocol.md RUN-22).
    pub(super) fn reassign(&mut self, now: Instant) {
        if !self.assigner.can_reassign() || !self.phase.is_settling() {
            return;
        }
        for (index, answer, events) in self.assigner.reassign(now) {
            self.books.take_over(index, events.len() as u64);
            let builder = self.roster.builder(index).id.number().into();
            tracing::info!(builder, events = events.len(), "takes over");
            let what = Reassigned { builder, events: differences(events.into_iter()) };
            self.outbox.journal(What::Reassigned(what), now);
            self.assigner.send_again(index, answer, &self.roster, &mut self.outbox);
        }
        self.prolong_drain(now);
    }

    /// Enters unassigned events as lost: nobody came to build them.
    pub(super) fn lose_unassigned(&mut self, cause: &str, now: Instant) {
        let events = self.assigner.take_unassigned();
        self.lose(events, None, cause.to_owned(), now);
    }

    /// Enters a builder's events as lost with it.
    pub(super) fn lose_events(&mut self, index: BuilderIndex, cause: String, now: Instant) {
        let events = self.assigner.take_events(index);
        self.lose(events, Some(index), cause, now);
    }

    fn lose(&mut self, events: Vec<u64>, builder: Option<BuilderIndex>, cause: String, now: Instant) {
        if events.is_empty() {
            return;
        }
        self.books.lose(core::iter::repeat_n(builder, events.len()), cause.clone());
        let what = Lost { events: differences(events.into_iter()), cause };
        self.outbox.journal(What::Lost(what), now);
    }

    /// Tells sources where all outstanding events are, for they may have missed it.
    pub(super) fn send_holdings(&mut self, to: &SourceSet) {
        if to.is_empty() || !(self.phase.is_under_way() || self.phase.is_reporting()) {
            return;
        }
        self.assigner.send_holdings(to, &self.roster, &mut self.outbox);
        self.roster.note_told(to, self.outbox.decided());
    }
}
