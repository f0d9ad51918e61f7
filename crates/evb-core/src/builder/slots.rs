//! [`Slots`]: the events that are open in a builder or with its sink.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use super::{
    BuilderCoreConfig, arena_room,
    assembly::{Assembly, AssemblyState, Assigned},
    latency::Latency,
    load::load,
    pool::Pool,
    refusals::Refusals,
    roster::{Expected, Rosters, Standing},
    table::EventTable,
    unaccounted::NOWHERE,
};
use crate::{
    event::{Cause, Event},
    id::{EventId, SourceId},
    index::SlotIndex,
    set::SourceSet,
    time::{Instant, earlier},
    wire::{control::Load, record::Announcement},
};

/// Longest time by which an event's assignment may arrive after its first announcement; both follow
/// from one decision of the supervisor. The control connection may wait for TCP's retransmission
/// timer, which is at least 200 ms and doubles.
const ASSIGNMENT_DELAY: Duration = Duration::from_secs(3);

/// Reason for which a builder does not use an announced fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unwanted {
    /// The source has announced a fragment of this event before.
    Duplicate,
    /// The event of the fragment has ended.
    Late,
    /// The event of the fragment is not assigned, and no slot is free.
    Unexpected,
}

/// All slots of a builder and their events. Methods call `ended` for each event that ends, before
/// the sink gets it.
#[derive(Debug)]
pub(super) struct Slots {
    assemblies: Vec<Assembly>,
    free: Vec<SlotIndex>,
    /// True if the last free slot has been taken since the last call of [`Self::take_newly_full`].
    is_newly_full: bool,
    table: EventTable,
    pool: Pool,
    rosters: Rosters,
    refusals: Refusals,
    /// Slots whose event waits for the sink, in the order in which the events ended.
    over: VecDeque<SlotIndex>,
    /// Deadlines in the order of time, each computed when its event was assigned or its deadline
    /// restarted.
    deadlines: VecDeque<(Instant, EventId)>,
    /// Ends of the time for which events wait for sporadic sources alone, in the order of time.
    lingering: VecDeque<(Instant, EventId)>,
    /// Highest event id that was ever assigned to this builder. An event with a lower id that has
    /// no slot has ended.
    highest: EventId,
    latency: Latency,
    spare_events: Vec<Event>,
    memory_peak: usize,
    /// Most bytes that the small fragments of one event can occupy.
    arena_room: usize,
    deadline: Duration,
}

impl Slots {
    /// Returns empty slots, with every source up.
    pub(super) fn new(config: &BuilderCoreConfig) -> Self {
        let sources = config.sources.len();
        Self {
            assemblies: (0..config.slots).map(|_| Assembly::new(sources)).collect(),
            free: (0..config.slots).rev().map(SlotIndex::new).collect(),
            is_newly_full: false,
            table: EventTable::new(config.slots),
            pool: Pool::new(sources, config.slots),
            rosters: Rosters::new(sources),
            refusals: Refusals::default(),
            over: VecDeque::new(),
            deadlines: VecDeque::new(),
            lingering: VecDeque::new(),
            highest: EventId::default(),
            latency: Latency::new(),
            spare_events: Vec::new(),
            memory_peak: 0,
            arena_room: arena_room(config),
            deadline: config.deadline,
        }
    }

    /// Returns the number of slots that are taken.
    pub(super) fn used(&self) -> usize {
        self.assemblies.len() - self.free.len()
    }

    /// Returns the slot of an event that is open or with the sink.
    pub(super) fn find(&self, event: EventId) -> Option<SlotIndex> {
        self.table.slot(event)
    }

    /// Returns true if the last free slot was taken since the last call.
    pub(super) fn take_newly_full(&mut self) -> bool {
        core::mem::take(&mut self.is_newly_full)
    }

    pub(super) fn rosters(&self) -> &Rosters {
        &self.rosters
    }

    pub(super) fn latency(&self) -> &Latency {
        &self.latency
    }

    /// Returns the time at which to call [`Self::expire`].
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let first = |queue: &VecDeque<(Instant, EventId)>| queue.front().map(|(time, _)| *time);
        earlier(first(&self.deadlines), first(&self.lingering))
    }

    /// Returns the number of events that occupy slots, by what they wait for.
    pub(super) fn load(&self, sources: &[SourceId]) -> Load {
        load(&self.assemblies, sources)
    }

    /// Returns the capacity of the arenas of all slots, in bytes.
    pub(super) fn arenas(&self) -> usize {
        self.assemblies.iter().map(Assembly::arena_capacity).sum()
    }

    #[cfg(test)]
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Computes the payload memory of all slots now, and keeps the peak.
    pub(super) fn sum_memory(&mut self) {
        self.memory_peak = self.memory_peak.max(self.arenas() + self.pool.peak());
    }

    /// Returns the peak of the payload memory that [`Self::sum_memory`] found.
    pub(super) fn memory_peak(&self) -> usize {
        self.memory_peak
    }

    /// Adds a source's announced fragment to its event. Returns the slot for the fragment's bytes.
    /// Requirements: docs/reference/protocol.md LANE-14, RUN-11.
    pub(super) fn announce(
        &mut self,
        source: usize,
        start: u64,
        announcement: &Announcement,
        now: Instant,
    ) -> Result<SlotIndex, Unwanted> {
        let event = announcement.event;
        let slot = match self.table.slot(event) {
            Some(slot) => match &self.assemblies[slot.get()] {
                known if known.is_announced(source) => return Err(Unwanted::Duplicate),
                known if known.state() != AssemblyState::Open => return Err(Unwanted::Late),
                _ => slot,
            },
            None if event <= self.highest => return Err(Unwanted::Late),
            // The announcement came before the assignment, because the source learned of the
            // decision earlier than this builder.
            None => match self.open(event, now) {
                Some(slot) => slot,
                None => {
                    self.refusals.note(event, source);
                    return Err(Unwanted::Unexpected);
                }
            },
        };
        self.assemblies[slot.get()].announce(source, start, announcement);
        Ok(slot)
    }

    /// Returns the assembly in that slot, and the memory pool for its large fragments.
    pub(super) fn room(&mut self, slot: SlotIndex) -> (&mut Assembly, &mut Pool) {
        (&mut self.assemblies[slot.get()], &mut self.pool)
    }

    /// Adds an intact fragment to its event, or gives up a damaged or a lost one.
    #[inline]
    pub(super) fn conclude(
        &mut self,
        slot: SlotIndex,
        source: usize,
        is_intact: bool,
        now: Instant,
        mut ended: impl FnMut(&Assembly),
    ) {
        let assembly = &mut self.assemblies[slot.get()];
        if is_intact {
            assembly.arrive(source, now);
        } else {
            let cause = if assembly.is_lost(source) { Cause::LostPackets } else { Cause::Damaged };
            assembly.give_up_unfinished(source, cause);
        }
        self.end_if_over(slot, now, &mut ended);
    }

    /// Assigns an event to a slot, to wait for the sources in `expected`; a repeated assignment is
    /// allowed. Returns false if no slot is free.
    pub(super) fn assign(
        &mut self,
        event: EventId,
        assigned: Assigned,
        expected: &Expected,
        now: Instant,
        mut ended: impl FnMut(&Assembly),
    ) -> bool {
        self.highest = self.highest.max(event);
        let Some(slot) = self.table.slot(event).or_else(|| self.open(event, now)) else { return false };
        let assembly = &mut self.assemblies[slot.get()];
        let standing = self.rosters.standing();
        if assembly.assigned().is_none() {
            assembly.set_owing(&expected.excluded, &standing.expendable, &standing.sporadic);
            // Nobody expects fragments of these sources, although they owe them.
            for (spared, cause) in
                [(&expected.quiet, Cause::NoReadout), (&standing.released, Cause::Released)]
            {
                if !spared.is_empty() {
                    assembly.give_up(spared, cause);
                }
            }
        }
        if assembly.assign(assigned, &expected.sources, self.rosters.reachable()) {
            self.put_off(slot, now);
            self.end_if_over(slot, now, &mut ended);
        }
        true
    }

    /// Sets the most bytes that the small fragments of an event can occupy.
    pub(super) fn set_arena_room(&mut self, room: usize) {
        self.arena_room = room;
    }

    /// Sets the facts about sources in the next roster version.
    pub(super) fn set_standing(&mut self, standing: Standing) {
        self.rosters.set_standing(standing);
    }

    /// Applies a new roster version. Returns the sources that are no longer expected.
    pub(super) fn publish(
        &mut self,
        version: u32,
        up: SourceSet,
        awaited: SourceSet,
        now: Instant,
        mut ended: impl FnMut(&Assembly),
    ) -> SourceSet {
        let change = self.rosters.publish(version, up, awaited);
        if change.gone.is_empty() && change.back.is_empty() && change.released.is_empty() {
            return change.gone;
        }
        // Only the end of the run stops the waiting for sources that are still down.
        let at_the_end = change.gone.intersection(&change.back);
        for slot in self.all() {
            let assembly = &mut self.assemblies[slot.get()];
            if !assembly.is_waiting() {
                continue;
            }
            let waits_for_them = assembly.awaits_any(&change.back);
            assembly.give_up(&change.released, Cause::Released);
            assembly.give_up(&at_the_end, Cause::GivenUp);
            assembly.give_up(&change.gone, Cause::Down);
            if waits_for_them {
                self.put_off(slot, now);
            }
            self.end_if_over(slot, now, &mut ended);
        }
        change.gone
    }

    /// Restarts the time for which events wait, because the builder stood still, and what arrived
    /// meanwhile is unread.
    pub(super) fn wait_anew(&mut self, now: Instant) {
        for slot in self.all() {
            let assembly = &mut self.assemblies[slot.get()];
            if assembly.is_provisional() {
                assembly.wait_anew(now);
            } else if assembly.is_waiting() {
                self.put_off(slot, now);
            }
        }
    }

    /// Gives up fragments that were not announced by their event's deadline, unless the roster says
    /// that their source is awaited.
    pub(super) fn expire(&mut self, now: Instant, mut ended: impl FnMut(&Assembly)) {
        while let Some((deadline, event)) = self.deadlines.pop_front_if(|(deadline, _)| *deadline <= now) {
            let Some(slot) = self.table.slot(event) else { continue };
            let assembly = &mut self.assemblies[slot.get()];
            if !assembly.is_due_at(deadline) {
                continue;
            }
            if assembly.expire(self.rosters.awaited(), &self.refusals.of(event)) {
                self.end_if_over(slot, now, &mut ended);
            }
        }
        while let Some((_, event)) = self.lingering.pop_front_if(|(end, _)| *end <= now) {
            if let Some(slot) = self.table.slot(event).filter(|slot| self.assemblies[slot.get()].is_waiting())
            {
                self.assemblies[slot.get()].end_lingering();
                self.end_if_over(slot, now, &mut ended);
            }
        }
    }

    /// Stops waiting for fragments that `source` announced and has not delivered.
    pub(super) fn give_up(&mut self, source: usize, now: Instant, mut ended: impl FnMut(&Assembly)) {
        for slot in self.all() {
            if self.assemblies[slot.get()].give_up_unfinished(source, Cause::LostInNetwork) {
                self.end_if_over(slot, now, &mut ended);
            }
        }
    }

    /// Withdraws the announcements of a source that restarted. The source will announce again those
    /// fragments that have not arrived and whose events still wait for them.
    pub(super) fn withdraw(&mut self, source: usize, now: Instant, mut ended: impl FnMut(&Assembly)) {
        self.refusals.forget(source);
        let is_expected = self.rosters.reachable().contains(source);
        for slot in self.all() {
            let assembly = &mut self.assemblies[slot.get()];
            if !assembly.withdraw(source, NOWHERE, &mut self.pool) || assembly.assigned().is_none() {
                continue;
            }
            if is_expected {
                self.put_off(slot, now);
            } else {
                assembly.give_up(&SourceSet::from_iter([source]), Cause::Down);
            }
            self.end_if_over(slot, now, &mut ended);
        }
    }

    /// Makes room for an assigned event if no slot is free. Of the slots that announcements opened
    /// without an assignment, it frees the one that was opened first, and calls `evicted` for its
    /// event.
    pub(super) fn make_room(&mut self, event: EventId, evicted: impl FnMut(&Assembly)) {
        if !self.free.is_empty() || self.table.slot(event).is_some() {
            return;
        }
        let provisional = self.all().filter(|slot| self.assemblies[slot.get()].is_provisional());
        if let Some(oldest) = provisional.min_by_key(|slot| self.assemblies[slot.get()].opened()) {
            self.evict(oldest, evicted);
        }
    }

    /// Frees the slots of events that sources announced and the supervisor did not assign in time.
    pub(super) fn evict_provisional(&mut self, now: Instant, mut evicted: impl FnMut(&Assembly)) {
        let patience = (self.deadline * 2).max(ASSIGNMENT_DELAY);
        for slot in self.all() {
            let assembly = &self.assemblies[slot.get()];
            if assembly.is_provisional() && now.since(assembly.opened()) > patience {
                self.evict(slot, &mut evicted);
            }
        }
    }

    /// Returns the assigned events that wait for fragments, but for none of an awaited source. Each
    /// comes with the sources whose fragments it lacks, announced and not announced.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (EventId, SourceSet, SourceSet)> {
        let awaited = self.rosters.awaited();
        let open = self.assemblies.iter().filter(|slot| slot.is_waiting());
        open.filter(move |slot| !slot.awaits_any(awaited)).map(|slot| {
            let lacking = slot.awaits();
            let announced: SourceSet = lacking.iter().filter(|source| slot.is_announced(*source)).collect();
            let silent = lacking.without(&announced);
            (slot.event(), announced, silent)
        })
    }

    /// Returns the next ended event for the sink.
    #[inline]
    pub(super) fn take_event(&mut self, config: &BuilderCoreConfig) -> Option<Event> {
        let assembly = &mut self.assemblies[self.over.pop_front()?.get()];
        let mut event = self.spare_events.pop().unwrap_or_default();
        event.run_id = config.run_id;
        event.run = config.run;
        event.epoch = assembly.assigned().map_or(config.epoch, |assigned| assigned.epoch);
        event.builder = config.id;
        assembly.fill(&mut event, &config.sources, &mut self.pool);
        Some(event)
    }

    /// Returns the lanes that delivered an event's fragments, and the lane offsets at which the
    /// fragments begin.
    pub(super) fn starts(&self, slot: SlotIndex) -> impl Iterator<Item = (usize, u64)> {
        self.assemblies[slot.get()].arrived()
    }

    /// Frees the slot of an event that returns from the sink.
    pub(super) fn release(&mut self, slot: SlotIndex, mut event: Event, sources: &[SourceId]) {
        let assembly = &mut self.assemblies[slot.get()];
        assembly.recycle(&mut event, sources, &mut self.pool);
        assembly.close();
        self.table.remove(event.id);
        self.free.push(slot);
        if self.spare_events.len() < self.assemblies.len() {
            self.spare_events.push(event);
        }
    }

    /// Checks the invariants.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        let is_in = |slot: &SlotIndex, state| self.assemblies[slot.get()].state() == state;
        assert!(self.free.iter().all(|slot| is_in(slot, AssemblyState::Free)), "{:?}", self.free);
        assert_eq!(self.all().filter(|slot| is_in(slot, AssemblyState::Free)).count(), self.free.len());
        assert!(self.over.iter().all(|slot| is_in(slot, AssemblyState::Writing)), "{:?}", self.over);
        for slot in self.all() {
            let assembly = &self.assemblies[slot.get()];
            assembly.invariants();
            if assembly.state() != AssemblyState::Free {
                assert_eq!(self.table.slot(assembly.event()), Some(slot), "the table has it: {assembly:?}");
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = SlotIndex> + use<> {
        (0..self.assemblies.len()).map(SlotIndex::new)
    }

    fn open(&mut self, event: EventId, now: Instant) -> Option<SlotIndex> {
        let slot = self.free.pop()?;
        self.assemblies[slot.get()].open(event, self.arena_room, now);
        self.table.insert(event, slot);
        self.is_newly_full |= self.free.is_empty();
        Some(slot)
    }

    /// Restarts the deadline of the event in that slot.
    fn put_off(&mut self, slot: SlotIndex, now: Instant) {
        let deadline = now + self.deadline;
        let assembly = &mut self.assemblies[slot.get()];
        assembly.put_off(deadline);
        self.deadlines.push_back((deadline, assembly.event()));
        // Entries of events that have ended or were put off again are removed now and then.
        if self.deadlines.len() > 2 * self.assemblies.len() {
            let (table, assemblies) = (&self.table, &self.assemblies);
            let slot = |event: EventId| table.slot(event).map(|slot| &assemblies[slot.get()]);
            self.deadlines
                .retain(|(deadline, event)| slot(*event).is_some_and(|slot| slot.is_due_at(*deadline)));
        }
    }

    /// Ends an event that waits for no more fragments, or for those of sporadic sources alone and
    /// long enough. Otherwise, if the deadline passed while the event waited for awaited sources
    /// and none of these is awaited any more, restarts the deadline for the sources that have
    /// announced nothing (docs/reference/protocol.md RUN-36).
    fn end_if_over(&mut self, slot: SlotIndex, now: Instant, ended: &mut impl FnMut(&Assembly)) {
        let slots = self.assemblies.len();
        let assembly = &mut self.assemblies[slot.get()];
        if assembly.begins_to_linger() {
            match self.rosters.standing().sporadic_wait {
                Duration::ZERO => assembly.end_lingering(),
                wait => {
                    self.lingering.push_back((now + wait, assembly.event()));
                    if self.lingering.len() > 2 * slots {
                        self.lingering.retain(|(_, event)| self.table.slot(*event).is_some());
                    }
                }
            }
        }
        if !assembly.is_over() {
            if assembly.is_overdue() && !assembly.awaits_any(self.rosters.awaited()) {
                self.put_off(slot, now);
            }
            return;
        }
        if let (Some(assigned), Some(_)) = (assembly.assigned(), assembly.completed_by()) {
            self.latency.record(now.since(assigned.triggered).as_nanos() as u64);
        }
        ended(assembly);
        assembly.end();
        self.over.push_back(slot);
    }

    /// Frees a slot without an outcome of its event, whose announced fragments are refused then.
    fn evict(&mut self, slot: SlotIndex, mut evicted: impl FnMut(&Assembly)) {
        let assembly = &mut self.assemblies[slot.get()];
        evicted(assembly);
        assembly.announced().for_each(|(source, _)| self.refusals.note(assembly.event(), source));
        self.table.remove(assembly.event());
        assembly.abandon(&mut self.pool);
        self.free.push(slot);
    }
}
