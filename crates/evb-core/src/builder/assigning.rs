//! What the supervisor says to a builder: assignments, rosters, and what its ledger has; and how long events wait.

use super::{BuilderCore, RosterError, assembly::State};
use crate::{
    event::Event,
    grant::GrantPolicy,
    id::{Epoch, EventId, SourceId},
    set::SourceSet,
    time::Instant,
    wire::control::{Accounted, Assignments, Exception, MAX_CAUSE, exception},
};

/// An assignment, as far as all events of one message share it.
#[derive(Clone, Copy, Debug)]
struct Terms {
    expected: SourceSet,
    epoch: Epoch,
}

impl<P: GrantPolicy> BuilderCore<P> {
    /// The supervisor assigned events to us; those that it says once more are skipped.
    /// Requirements: docs/protocol.md RUN-8, RUN-9, RUN-10, RUN-33.
    pub fn handle_assignments(&mut self, assignments: &Assignments, now: Instant) -> Result<(), RosterError> {
        let events = assignments.events()?;
        let (count, slots) = (events.len(), self.config.slots);
        if count > slots {
            return Err(RosterError::BeyondSlots { count, slots });
        }
        if self.unaccounted.len() > 2 * slots {
            return Err(RosterError::Unaccounted { count: self.unaccounted.len(), slots });
        }
        let is_named = assignments.roster_version == 0;
        let expected = match is_named {
            true => self.named(&assignments.expected)?,
            false => self.rosters.expected(assignments.roster_version)?,
        };
        let epoch = match assignments.epoch {
            0 => self.config.epoch,
            epoch => Epoch::new(epoch),
        };
        // Only such messages repeat what was said before.
        let over = if is_named { self.unaccounted.events() } else { Vec::new() };
        for (event, triggered_ns) in events {
            if over.binary_search(&event).is_err() {
                self.assign(event, self.clock.ours(triggered_ns), Terms { expected, epoch }, now);
            }
        }
        if assignments.answer != 0 {
            self.accepted = Some(assignments.answer);
        }
        Ok(())
    }

    /// The supervisor published a roster: which sources are up from that version on, and which it waits for. Returns those that
    /// were up or waited for, and are not any more.
    pub fn handle_roster(
        &mut self,
        version: u32,
        up: SourceSet,
        awaited: SourceSet,
        now: Instant,
    ) -> SourceSet {
        let change = self.rosters.publish(version, up, awaited);
        if change.gone.is_empty() && change.back.is_empty() {
            return change.gone;
        }
        for slot in 0..self.slots.len() {
            let assembly = &mut self.slots[slot];
            if assembly.state != State::Open || assembly.assigned.is_none() {
                continue;
            }
            let waits_for_them = !assembly.awaits().intersection(&change.back).is_empty();
            let lost = change.gone.without(&assembly.arrived);
            assembly.given_up = assembly.given_up.union(&lost);
            if waits_for_them {
                self.put_off(slot, now);
            }
            self.finish_if_over(slot, now);
        }
        change.gone
    }

    /// So many of our completions are in the supervisor's ledger: their sources may forget the fragments.
    /// Requirements: docs/protocol.md RUN-20.
    pub fn handle_accounted(&mut self, accounted: &Accounted) -> Result<(), RosterError> {
        let lanes = &mut self.lanes;
        let settle = |lane, start| lanes.settle(lane, start);
        match self.unaccounted.handle_accounted(accounted.completions, settle) {
            true => Ok(()),
            false => Err(RosterError::NeverCompleted(accounted.completions)),
        }
    }

    /// The connection to the supervisor is gone: nothing is said to it until there is another.
    pub fn handle_supervisor_lost(&mut self) {
        self.is_supervised = false;
    }

    /// We registered, or registered again, by a greeting that was sent at `greeted`: what may not have arrived is said again.
    pub fn handle_registered(&mut self, greeted: Instant, now: Instant) {
        self.is_supervised = true;
        self.lease.renew(greeted.min(now));
        self.unaccounted.say_again();
        self.accepted = None;
        self.next_heartbeat = now;
    }

    /// Gives up what was not announced by its deadline, unless the supervisor waits for its source.
    pub(super) fn expire_deadlines(&mut self, now: Instant) {
        while let Some((deadline, event)) = self.deadlines.pop_front_if(|(deadline, _)| *deadline <= now) {
            let Some(slot) = self.table.slot(event) else { continue };
            let assembly = &mut self.slots[slot];
            let (State::Open, Some(assigned)) = (assembly.state, assembly.assigned) else { continue };
            if assembly.deadline != deadline {
                continue;
            }
            if !assembly.awaits().intersection(&self.rosters.awaited()).is_empty() {
                assembly.overdue = true;
                continue;
            }
            let silent = assigned.expected.without(&assembly.announced);
            assembly.given_up = assembly.given_up.union(&silent);
            self.finish_if_over(slot, now);
        }
    }

    /// Something has changed for an event that is not over: where its deadline passed meanwhile, and none of those that it waits
    /// for is awaited any more, whoever else keeps silent has another one (docs/protocol.md RUN-36).
    pub(super) fn resume_deadline(&mut self, slot: usize, now: Instant) {
        let assembly = &self.slots[slot];
        let is_overdue = assembly.state == State::Open && assembly.overdue;
        if is_overdue && assembly.awaits().intersection(&self.rosters.awaited()).is_empty() {
            self.put_off(slot, now);
        }
    }

    /// The event's deadline begins anew.
    pub(super) fn put_off(&mut self, slot: usize, now: Instant) {
        let deadline = now + self.config.deadline;
        let assembly = &mut self.slots[slot];
        assembly.deadline = deadline;
        assembly.overdue = false;
        self.deadlines.push_back((deadline, assembly.event));
        if self.deadlines.len() > 2 * self.config.slots {
            let (table, slots) = (&self.table, &self.slots);
            let is_open = |(deadline, event): &(Instant, EventId)| {
                let slot = table.slot(*event).map(|slot| &slots[slot]);
                slot.is_some_and(|slot| slot.state == State::Open && slot.deadline == *deadline)
            };
            self.deadlines.retain(is_open);
        }
    }

    fn assign(&mut self, event: EventId, triggered: Instant, terms: Terms, now: Instant) {
        self.highest = self.highest.max(event);
        let Terms { expected, epoch } = terms;
        let slot = match self.table.slot(event) {
            Some(slot) => match &mut self.slots[slot].assigned {
                None => slot,
                // Said once more; perhaps by a supervisor that went on by its journal.
                Some(assigned) => {
                    assigned.epoch = assigned.epoch.max(epoch);
                    return;
                }
            },
            None => match self.free.pop().or_else(|| self.evict_one(now)) {
                Some(slot) => self.open(slot, event, now),
                None => {
                    let cause = "assigned while no slot was free".to_owned();
                    self.counters.lost += 1;
                    let event = Event { id: event, ..Event::default() };
                    let exception = exception_of(&event, exception::Outcome::Lost, &cause);
                    self.unaccounted.except(exception, core::iter::empty());
                    return;
                }
            },
        };
        let assembly = &mut self.slots[slot];
        assembly.assigned = Some(super::assembly::Assigned { triggered, expected, epoch });
        let gone = expected.without(&self.rosters.expected_now()).without(&assembly.arrived);
        // A fragment that came damaged before the assignment was given up then.
        assembly.given_up = assembly.given_up.union(&gone);
        self.put_off(slot, now);
        self.finish_if_over(slot, now);
    }

    /// The sources that an assignment names.
    fn named(&self, ids: &[u32]) -> Result<SourceSet, RosterError> {
        let index = |id: &u32| {
            let id = u16::try_from(*id).map(SourceId::new);
            id.ok().and_then(|id| self.config.sources.binary_search(&id).ok())
        };
        ids.iter().map(|id| index(id).ok_or(RosterError::UnknownSource(*id))).collect()
    }
}

/// What is said of an event that is not simply complete.
pub(super) fn exception_of(event: &Event, outcome: exception::Outcome, cause: &str) -> Exception {
    let missing = event.missing.iter().map(|source| source.number().into()).collect();
    let outcome = outcome.into();
    let cause = cause.chars().take(MAX_CAUSE).collect();
    Exception { event: event.id.number(), outcome, missing, cause }
}
