//! [`Dispatch`]: the path of every event through the supervisor, from the trigger to the decision,
//! and from the completion to the free slot.

#[cfg(test)]
mod tests;

use core::{
    ops::ControlFlow::{self, Break, Continue},
    time::Duration,
};

use super::{
    Recipients, RunPlan, SupervisorCore,
    alignment::AlignmentWatch,
    assigner::Assigner,
    books::Books,
    culprits::culprits,
    dead_time::Cause,
    intake::{Intake, TRIGGERS_PER_TURN},
    journal::{What, differences},
    outbox::Outbox,
    phase::Phase,
    roster::Roster,
};
use crate::{
    id::{EventId, Peer},
    index::BuilderIndex,
    quantities::counted,
    time::Instant,
    wire::{
        control::{self, Completions, MAX_EXCEPTIONS, Message},
        journal::{Accounted, Lost, Reassigned},
    },
};

/// `Break` when all events of the run are assigned, so that the run takes no more triggers.
pub(super) type Taken = ControlFlow<()>;

/// The parts of the supervisor that handle an event, for a turn during which the run's phase does
/// not change.
#[derive(Debug)]
pub(super) struct Dispatch<'a> {
    pub(super) plan: &'a RunPlan,
    pub(super) phase: Phase,
    pub(super) roster: &'a Roster,
    pub(super) intake: &'a mut Intake,
    pub(super) assigner: &'a mut Assigner,
    pub(super) books: &'a mut Books,
    pub(super) outbox: &'a mut Outbox,
    pub(super) watch: Option<&'a mut AlignmentWatch>,
    /// Last event that may be decided under the present roster.
    pub(super) limit: u64,
}

/// Returns true if a trigger counts, either as an event or as an inhibited trigger.
pub(super) fn counts_triggers(phase: Phase, books: &Books) -> bool {
    phase.is_triggering() && !books.is_stopped()
}

/// Returns true if a trigger becomes an event when a slot is free.
pub(super) fn takes_triggers(phase: Phase, intake: &Intake, roster: &Roster) -> bool {
    phase.is_running() && !intake.is_paused() && roster.groups.shortage().is_none()
}

/// Returns true if a new event can be assigned. Unassigned events take precedence, and no event is
/// assigned while the journal is stalled.
pub(super) fn has_slot(assigner: &Assigner, outbox: &Outbox) -> bool {
    assigner.has_slot() && !outbox.is_stalled()
}

/// Fraction (one in `FREE_PART`) of all slots that has to be free before waiting triggers are
/// decided early.
const FREE_PART: u64 = 16;

/// Returns true if enough slots are free that a decision is worth a message although triggers
/// exceed the slots. Each builder has `slots` slots.
pub(super) fn has_slots_to_give(slots: u32, assigner: &Assigner, outbox: &Outbox) -> bool {
    let (free, all) = (assigner.free_slots(), u64::from(slots) * assigner.builders());
    has_slot(assigner, outbox) && free * FREE_PART >= all
}

/// Returns the time at which the next trigger can be decided.
pub(super) fn next_decision(core: &SupervisorCore) -> Option<Instant> {
    let has_slots = has_slots_to_give(core.plan.slots, &core.assigner, &core.outbox);
    let has_slot = takes_triggers(core.phase, &core.intake, &core.roster) && has_slots;
    let batch = batch_time(&core.plan, &core.roster);
    // Where each free slot is a trigger, it is due at once.
    let is_free = core.intake.is_free() && has_slot && !batch.is_zero() && !core.roster.is_idle();
    let due = if is_free { Some(Instant::ZERO) } else { core.own_trigger_due() };
    core.intake.next_decision(due, has_slot, batch)
}

/// Returns the time for which decisions are collected into one message.
pub(super) fn batch_time(plan: &RunPlan, roster: &Roster) -> Duration {
    plan.batch_time(if plan.collects_decisions() { roster.up().len() } else { 0 })
}

/// Checks that all parts of the supervisor agree on the events that are outstanding.
///
/// # Panics
/// Panics if they do not agree, which is a defect of evb.
pub(super) fn invariants(core: &SupervisorCore) {
    let (open, outstanding) = (core.books.counts().open(), core.assigner.outstanding());
    assert_eq!(open, Some(outstanding), "every trigger is inhibited, settled or outstanding");
    let addressed = core.outbox.addressed();
    let up = (core.roster.contributing(), core.roster.version());
    assert!(core.due.roster || addressed == up, "only sources up get decisions");
    for (index, held) in core.roster.builders().positions().zip(core.assigner.counts(&core.roster)) {
        assert_eq!(core.books.outstanding(index), held, "books and slots agree: {index:?}");
    }
}

impl Dispatch<'_> {
    /// Decides the triggers that are due. Of the run's own clock, these are the triggers up to
    /// `until`.
    pub(super) fn take_due(&mut self, now: Instant, until: Option<Instant>) -> Taken {
        if self.waits(now) && until.is_none_or(|until| now < until) {
            return Continue(());
        }
        self.take_pending(now)?;
        if !counts_triggers(self.phase, self.books) || self.intake.is_paused() {
            return Continue(());
        }
        let last = until.map_or(now, |until| until.min(now));
        // When the run's duration is over, do not wait any longer for slots.
        let inhibits = self.intake.inhibits(now) || until.is_some_and(|until| until <= now);
        let assigns = self.assigns(inhibits);
        for _ in 0..TRIGGERS_PER_TURN {
            if self.is_at_limit() {
                break;
            }
            if !(inhibits || assigns && has_slot(self.assigner, self.outbox)) {
                return Continue(());
            }
            let Some(due) = self.intake.pop_due(last) else { return Continue(()) };
            self.take_trigger(due, now)?;
        }
        // The other triggers are due, too.
        self.intake.hurry();
        Continue(())
    }

    /// Assigns events to all free slots in a run whose trigger is a free slot.
    pub(super) fn assign_freely(&mut self, now: Instant) -> Taken {
        if !self.intake.is_free() || self.roster.is_idle() || !self.takes_triggers() {
            return Continue(());
        }
        if self.waits(now) {
            return Continue(());
        }
        while has_slot(self.assigner, self.outbox) && !self.is_at_limit() {
            self.take_trigger(now, now)?;
        }
        Continue(())
    }

    /// Decides external triggers that wait.
    pub(super) fn take_pending(&mut self, now: Instant) -> Taken {
        let mut left = u64::from(TRIGGERS_PER_TURN);
        let inhibits = self.intake.inhibits(now);
        let assigns = self.assigns(inhibits);
        let takes = self.takes_triggers();
        if !counts_triggers(self.phase, self.books) || self.waits(now) {
            return Continue(());
        }
        while self.intake.pending() > 0 && left > 0 {
            // Another roster holds from the next event on, and is made first.
            if self.is_at_limit() {
                left = 0;
                break;
            }
            if !(inhibits || assigns && takes && has_slot(self.assigner, self.outbox)) {
                break;
            }
            // Without a slot, all triggers that wait are inhibited at once.
            let count = if !has_slot(self.assigner, self.outbox) || !takes {
                let count = self.inhibit(self.intake.pending(), now);
                self.intake.settle(count);
                count
            } else {
                self.intake.settle(1);
                self.take_trigger(now, now)?;
                1
            };
            left = left.saturating_sub(count);
        }
        // Triggers are left, and are taken at once in the next turn.
        if left == 0 {
            self.intake.hurry();
        }
        Continue(())
    }

    fn takes_triggers(&self) -> bool {
        takes_triggers(self.phase, self.intake, self.roster)
    }

    /// Returns true if the next event needs another roster, because a source is excluded or
    /// included with it.
    fn is_at_limit(&self) -> bool {
        self.outbox.decided() >= self.limit
    }

    /// Returns true if triggers wait so that many sources get the decisions of some time in one
    /// message.
    fn waits(&self, now: Instant) -> bool {
        let batch = batch_time(self.plan, self.roster);
        !batch.is_zero() && self.intake.waits_until(batch, now).is_some()
    }

    /// Returns true if waiting triggers are assigned in this turn, as far as slots are free.
    fn assigns(&self, inhibits: bool) -> bool {
        inhibits
            || self.roster.groups.shortage().is_none()
                && has_slots_to_give(self.plan.slots, self.assigner, self.outbox)
    }

    /// Decides a trigger that happened at time `triggered`.
    fn take_trigger(&mut self, triggered: Instant, now: Instant) -> Taken {
        self.outbox.make_room();
        self.intake.note_decided(now);
        self.books.note_trigger(triggered);
        let takes = self.roster.groups.shortage().is_none() && !self.roster.is_deserted();
        let is_wanted = takes && has_slot(self.assigner, self.outbox);
        let Some(builder) = is_wanted.then(|| self.assigner.take_slot(now)).flatten() else {
            self.inhibit(1, now);
            return Continue(());
        };
        let event = self.outbox.assign(builder, triggered.as_nanos(), now);
        if let Some(watch) = &mut self.watch {
            let utc = self.outbox.utc_zero_ns().wrapping_add(triggered.as_nanos());
            watch.note_trigger(EventId::new(event), Instant::from_nanos(utc));
        }
        self.assigner.assign(event, triggered.as_nanos(), self.roster.version(), builder);
        self.books.assign(builder);
        if self.plan.events.is_some_and(|events| self.books.assigned() >= events) {
            return Break(());
        }
        Continue(())
    }

    /// Inhibits up to `count` triggers for which no slot is free; returns the number of inhibited
    /// triggers.
    fn inhibit(&mut self, count: u64, now: Instant) -> u64 {
        self.outbox.make_room();
        if self.books.asks_for_culprits() {
            self.books.set_culprits(culprits(self.roster, self.plan.slots));
        }
        self.books.note_trigger(now);
        let count = count.min(self.limit.saturating_sub(self.outbox.decided()));
        let count = self.outbox.inhibit(count, now);
        self.intake.note_decided(now);
        self.intake.note_inhibited(now);
        self.books.inhibit(count, self.cause_of_dead_time(), self.outbox.blames());
        count
    }

    /// Returns the cause to which triggers that are inhibited now are attributed.
    fn cause_of_dead_time(&self) -> Cause {
        match self.phase {
            _ if self.intake.is_paused() => Cause::Paused,
            _ if self.outbox.is_stalled() => Cause::Journal,
            Phase::Recovering { .. } => Cause::Supervisor,
            _ if let Some(shortage) = self.roster.groups.shortage() => Cause::TooFew(shortage),
            _ if self.roster.contributing().is_empty() => Cause::NoSource,
            _ if self.roster.is_deserted() => Cause::NoReadout,
            _ if !self.roster.has_active_builder() => Cause::NoBuilder,
            _ => Cause::Busy,
        }
    }

    /// Enters a builder's completions into the ledger; returns true if any of them are new.
    ///
    /// # Errors
    /// Returns the reason why the completions break the protocol. Requirements:
    /// docs/reference/protocol.md RUN-12, RUN-13, RUN-20.
    pub(super) fn settle(
        &mut self,
        index: BuilderIndex,
        completions: Completions,
        now: Instant,
    ) -> Result<bool, String> {
        let exceptions = completions.exceptions.len();
        if exceptions > MAX_EXCEPTIONS {
            return Err(format!(
                "it reported {exceptions} events as not complete in one message, but at most {MAX_EXCEPTIONS} are allowed"
            ));
        }
        completions.check().map_err(|malformed| malformed.to_string())?;
        let known = self.books.known(index, &completions).map_err(|gap| gap.to_string())?;
        self.books.owe_answer(index);
        let fresh = completions.without(known);
        if fresh.count() > 0 {
            self.account(index, &fresh, now);
            let builder = self.roster.builder(index).id.number().into();
            let what = Accounted { builder, completions: Some(fresh) };
            self.outbox.journal(What::Accounted(what), now);
            return Ok(true);
        }
        Ok(false)
    }

    /// Enters new completions into the ledger.
    pub(super) fn account(&mut self, index: BuilderIndex, completions: &Completions, now: Instant) {
        let seat = self.roster.builder(index);
        let frees_slot = self.phase.is_settling() && seat.is_active();
        let (plan, peer) = (self.plan, Peer::Builder(seat.id));
        self.books.account(
            (index, &|| plan.named(peer)),
            completions,
            |id| self.roster.source_index(id),
            |event| self.assigner.settle(event, index, frees_slot, now),
            now,
        );
    }

    /// Tells each builder once per turn how many of its completions are in the ledger. The sources
    /// of these events may then forget the fragments.
    pub(super) fn answer_completions(&mut self) {
        if !self.books.owes_answers() {
            return;
        }
        for index in self.books.take_unanswered().iter() {
            let seat = self.roster.builder(index);
            if seat.connection.is_some() {
                let completions = self.books.accounted(index);
                let message = Message::Accounted(control::Accounted { completions });
                self.outbox.send(Recipients::Builder(seat.id), message);
            }
        }
    }

    /// Gives unassigned events to builders that have free slots (docs/reference/protocol.md
    /// RUN-22). Returns true if any event was given to a builder.
    pub(super) fn reassign(&mut self, now: Instant) -> bool {
        if !self.assigner.can_reassign() || !self.phase.is_settling() {
            return false;
        }
        for (index, confirmation, events) in self.assigner.reassign(now) {
            self.books.take_over(index, events.len() as u64);
            let id = self.roster.builder(index).id;
            let (builder, named) = (id.number().into(), self.plan.named(Peer::Builder(id)));
            let taken = counted(events.len(), "event");
            tracing::info!(
                builder,
                "{named} takes over {taken} of builders that are gone, so these are not lost, and nothing needs to be done"
            );
            let what = Reassigned { builder, events: differences(events.into_iter()) };
            self.outbox.journal(What::Reassigned(what), now);
            self.assigner.send_again(index, confirmation, self.roster, self.outbox);
        }
        true
    }

    /// Enters all unassigned events as lost, because no builder took them over.
    pub(super) fn lose_unassigned(&mut self, cause: &str, now: Instant) {
        let events = self.assigner.take_unassigned();
        self.lose(events, None, cause.to_owned(), now);
    }

    /// Enters all events of a builder as lost, because the builder is gone.
    pub(super) fn lose_events(&mut self, index: BuilderIndex, cause: String, now: Instant) {
        let events = self.assigner.take_events(index);
        self.lose(events, Some(index), cause, now);
    }

    /// Counts events as lost, and journals them.
    fn lose(&mut self, events: Vec<u64>, builder: Option<BuilderIndex>, cause: String, now: Instant) {
        if events.is_empty() {
            return;
        }
        self.books.lose(core::iter::repeat_n(builder, events.len()), cause.clone());
        let what = Lost { events: differences(events.into_iter()), cause };
        self.outbox.journal(What::Lost(what), now);
    }
}
