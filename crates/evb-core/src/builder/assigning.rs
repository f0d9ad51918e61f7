//! Messages from the supervisor to a builder: assignments, rosters, and the number of completions
//! in the supervisor's ledger.

use super::{BuilderCore, RosterError, Standing, arena_room, assembly::Assigned, roster::Expected};
use crate::{
    event::Event,
    grant::GrantPolicy,
    id::{Epoch, EventId, SourceId},
    index::LaneIndex,
    set::SourceSet,
    time::Instant,
    units::Bytes,
    wire::control::{Accounted, Assignments, Exception, MAX_CAUSE, Outcome},
};

impl<P: GrantPolicy> BuilderCore<P> {
    /// Accepts the events that the supervisor assigned to this builder, and skips repeated
    /// assignments.
    /// Requirements: docs/reference/protocol.md RUN-8, RUN-9, RUN-10, RUN-33.
    pub fn handle_assignments(&mut self, assignments: &Assignments, now: Instant) -> Result<(), RosterError> {
        let events = assignments.events()?;
        let (count, slots) = (events.len(), self.config.slots);
        if count > slots {
            return Err(RosterError::BeyondSlots { count, slots });
        }
        // This list would grow without a limit under a supervisor that accounts for nothing.
        if self.unaccounted.len() > 2 * slots {
            return Err(RosterError::Unaccounted { count: self.unaccounted.len(), slots });
        }
        let is_named = assignments.roster_version == 0;
        let expected = match is_named {
            true => Expected {
                sources: self.named(&assignments.expected)?,
                excluded: self.named(&assignments.excluded)?,
                ..Expected::default()
            },
            false => self.slots.rosters().expected(assignments.roster_version)?.clone(),
        };
        let epoch = match assignments.epoch {
            0 => self.config.epoch,
            epoch => Epoch::new(epoch),
        };
        // Only messages that name their sources repeat assignments of completed events.
        let finished = if is_named { self.unaccounted.events() } else { Vec::new() };
        for (event, triggered_ns) in events {
            if finished.binary_search(&event).is_err() {
                let triggered = self.clock.ours(triggered_ns);
                let utc = assignments.utc(triggered_ns);
                self.assign(event, Assigned { triggered, utc, epoch }, &expected, now);
            }
        }
        self.hasten_if_full();
        if assignments.answer != 0 {
            self.accepted = Some(assignments.answer);
        }
        Ok(())
    }

    /// Sets the facts about sources in the next roster version.
    pub fn set_standing(&mut self, standing: Standing) {
        self.slots.set_standing(standing);
    }

    /// Learns the sizes of the largest fragments of sources that had not registered when this
    /// builder joined. `max_fragment` has those of all sources, zero for sources that have still
    /// not.
    pub fn learn_max_fragments(&mut self, max_fragment: &[u64]) {
        for (index, limit) in max_fragment.iter().enumerate().take(self.config.sources.len()) {
            if *limit > 0 && self.config.max_fragment[index] == Bytes::new(0) {
                self.config.max_fragment[index] = Bytes::new(*limit);
                self.lanes.set_max_fragment(LaneIndex::new(index), Bytes::new(*limit));
                self.slots.set_arena_room(arena_room(&self.config));
            }
        }
    }

    /// Applies a new roster version with the sources that are `up` and those that are `awaited`.
    /// Returns the sources that were up or awaited before and now are neither.
    pub fn handle_roster(
        &mut self,
        version: u32,
        up: SourceSet,
        awaited: SourceSet,
        now: Instant,
    ) -> SourceSet {
        self.slots.publish(version, up, awaited, now, |ended| self.lanes.note_end(ended))
    }

    /// Notes how many of this builder's completions are in the supervisor's ledger. The sources of
    /// these events may forget their fragments.
    /// Requirements: docs/reference/protocol.md RUN-20.
    pub fn handle_accounted(&mut self, accounted: &Accounted) -> Result<(), RosterError> {
        let settle = |lane, start| self.lanes.settle(lane, start);
        match self.unaccounted.handle_accounted(accounted.completions, settle) {
            true => Ok(()),
            false => Err(RosterError::NeverCompleted(accounted.completions)),
        }
    }

    /// Notes that the connection to the supervisor is gone. Messages to the supervisor wait for the
    /// next connection.
    pub fn handle_supervisor_lost(&mut self) {
        self.is_supervised = false;
    }

    /// Notes that the builder registered, or registered again, by a greeting that was sent at
    /// `greeted`. The builder then repeats messages that may not have arrived.
    pub fn handle_registered(&mut self, greeted: Instant, now: Instant) {
        self.is_supervised = true;
        self.lease.renew(greeted.min(now));
        self.unaccounted.say_again();
        self.accepted = None;
        self.lanes.forget_told();
        self.guard.iter_mut().for_each(|guard| guard.report_again());
        self.next_heartbeat = now;
    }

    /// Takes an assigned event into a slot. If none is free, one gives way that announcements
    /// opened without an assignment; without such a slot, the event is reported as lost.
    fn assign(&mut self, event: EventId, assigned: Assigned, expected: &Expected, now: Instant) {
        self.slots.make_room(event, |evicted| self.lanes.note_eviction(evicted));
        if !self.slots.assign(event, assigned, expected, now, |ended| self.lanes.note_end(ended)) {
            self.counters.lost += 1;
            let event = Event { id: event, ..Event::default() };
            let exception = exception_of(
                &event,
                Outcome::Lost,
                "the supervisor assigned the event while this builder had no free slot; report this as a fault of evb",
            );
            self.unaccounted.except(exception, core::iter::empty());
        }
    }

    /// Returns the indices of the sources with these `ids`.
    fn named(&self, ids: &[u32]) -> Result<SourceSet, RosterError> {
        let index = |id: &u32| {
            let id = u16::try_from(*id).map(SourceId::new);
            id.ok().and_then(|id| self.config.sources.binary_search(&id).ok())
        };
        ids.iter().map(|id| index(id).ok_or(RosterError::UnknownSource(*id))).collect()
    }
}

/// Returns the exception that reports an event which is incomplete, rejected or lost.
pub(super) fn exception_of(event: &Event, outcome: Outcome, cause: &str) -> Exception {
    let missing = event.missing_sources().map(|source| source.number().into()).collect();
    let missing_causes = event.missing.iter().map(|missing| missing.cause.code().into()).collect();
    let cause = cause.chars().take(MAX_CAUSE).collect();
    Exception { event: event.id.number(), outcome, missing, cause, missing_causes }
}
