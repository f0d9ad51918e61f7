//! [`Assigner`]: keeps the builder of each outstanding event, chooses the builder for the next
//! event, and keeps the unassigned events.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::{
    Recipients, RunPlan,
    journal::{differences, sums},
    nonsense::{Nonsense, nonsense},
    outbox::Outbox,
    outstanding::{Outstanding, OutstandingEvent},
    roster::{Audience, Roster},
    slots::Slots,
};
use crate::{
    id::{BuilderId, EventId},
    index::BuilderIndex,
    set::SourceSet,
    time::Instant,
    wire::{
        control::{Assignments, Holding, Holdings, Message},
        journal::Held,
    },
};

/// The outstanding events (assigned and not settled), and the free slots of builders.
#[derive(Clone, Debug)]
pub(super) struct Assigner {
    slots: Slots,
    outstanding: Outstanding,
    /// Outstanding events that have no builder any more. Each unassigned event waits until another
    /// builder has a free slot, and sources are told of the new builder only when it has opened
    /// that slot.
    unassigned: BTreeSet<u64>,
    /// Number of the last confirmation that was requested from a builder; 0 if none was. In
    /// messages, the number of a confirmation is called `answer`.
    last_confirmation: u32,
}

impl Assigner {
    /// Creates an assigner without outstanding events, and with no slots offered yet.
    pub(super) fn new(plan: &RunPlan) -> Self {
        Self {
            slots: Slots::new(plan.builders.len(), plan.policy, plan.run_length, plan.slots_at_a_time()),
            outstanding: Outstanding::new(),
            unassigned: BTreeSet::new(),
            last_confirmation: 0,
        }
    }

    /// Adds a builder, without slots yet.
    pub(super) fn add_builder(&mut self) {
        self.slots.add_builder();
    }

    /// Returns the number of outstanding events.
    pub(super) fn outstanding(&self) -> u64 {
        self.outstanding.len() as u64
    }

    pub(super) fn is_idle(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Returns the number of free slots of all builders together.
    pub(super) fn free_slots(&self) -> u64 {
        self.slots.total().into()
    }

    /// Returns the number of builders, including builders that are not connected.
    pub(super) fn builders(&self) -> u64 {
        self.slots.builders() as u64
    }

    /// Returns true if a builder has a slot for a new event. Unassigned events take precedence over
    /// new events.
    pub(super) fn has_slot(&self) -> bool {
        self.slots.total() > 0 && self.unassigned.is_empty()
    }

    /// Returns true if an unassigned event can be given to a builder.
    pub(super) fn can_reassign(&self) -> bool {
        self.slots.total() > 0 && !self.unassigned.is_empty()
    }

    /// Takes a free slot for a new event; returns its builder, or `None` if no slot is free.
    pub(super) fn take_slot(&mut self, now: Instant) -> Option<BuilderIndex> {
        self.slots.take(now)
    }

    /// Sets the number of free slots of a builder.
    pub(super) fn set_slots(&mut self, builder: BuilderIndex, free: u32, now: Instant) {
        self.slots.set(builder, free, now);
    }

    /// Notes that events can now be assigned: time before this does not count as busy.
    pub(super) fn open(&mut self) {
        self.slots.open();
    }

    /// Notes that no more events will be assigned: time after this does not count as busy.
    pub(super) fn close(&mut self, now: Instant) {
        self.slots.close(now);
    }

    /// Returns the time for which no builder had a free slot.
    pub(super) fn all_busy(&self) -> Duration {
        self.slots.all_busy()
    }

    /// Returns the time for which that builder had no free slot.
    pub(super) fn busy(&self, builder: BuilderIndex) -> Duration {
        self.slots.busy(builder)
    }

    /// Records a new event at a builder whose slot was taken for it.
    pub(super) fn assign(&mut self, event: u64, triggered_ns: u64, version: u32, builder: BuilderIndex) {
        self.outstanding.insert(OutstandingEvent {
            event,
            triggered_ns,
            version,
            confirmation: 0,
            builder: Some(builder),
        });
    }

    /// Settles an event; returns false if the builder does not have that event. `frees_slot` is
    /// true if the slot becomes free for another event.
    pub(super) fn settle(
        &mut self,
        event: u64,
        builder: BuilderIndex,
        frees_slot: bool,
        now: Instant,
    ) -> bool {
        let had = self.outstanding.take(event, Some(builder));
        if had && frees_slot {
            self.slots.give(builder, now);
        }
        had
    }

    /// Makes all events of a builder unassigned; returns their number.
    pub(super) fn unassign(&mut self, builder: BuilderIndex) -> u64 {
        let events = self.outstanding.of(Some(builder));
        for entry in &events {
            self.outstanding.hand_over(entry.event, None, 0);
            self.unassigned.insert(entry.event);
        }
        events.len() as u64
    }

    /// Gives unassigned events to builders that have free slots. Returns each of these builders
    /// with the number of the confirmation by which it will state that it has opened the slots, and
    /// its new events (docs/reference/protocol.md RUN-22).
    pub(super) fn reassign(&mut self, now: Instant) -> Vec<(BuilderIndex, u32, Vec<u64>)> {
        let mut placed: BTreeMap<BuilderIndex, Vec<u64>> = BTreeMap::new();
        while let Some(event) = self.unassigned.first().copied() {
            let Some(builder) = self.slots.take(now) else { break };
            self.unassigned.pop_first();
            placed.entry(builder).or_default().push(event);
        }
        let mut reassigned = Vec::with_capacity(placed.len());
        for (builder, events) in placed {
            self.last_confirmation += 1;
            for event in &events {
                self.outstanding.hand_over(*event, Some(builder), self.last_confirmation);
            }
            reassigned.push((builder, self.last_confirmation, events));
        }
        reassigned
    }

    /// Notes that a builder has opened its slots for all events up to the confirmation with this
    /// number. Returns true if any of the builder's events waited for that.
    pub(super) fn accept(&mut self, builder: BuilderIndex, confirmation: u32) -> bool {
        self.outstanding.accept(builder, confirmation)
    }

    /// Marks all outstanding events of builders as not confirmed, for a supervisor that has
    /// restored them from a journal. It is unknown which messages of the previous supervisor
    /// arrived, so sources are told of the builders only after the builders have confirmed their
    /// slots.
    pub(super) fn require_confirmations(&mut self) {
        // This supervisor has requested no confirmation yet; one per builder covers all its events.
        self.last_confirmation = 1;
        let held: Vec<OutstandingEvent> =
            self.outstanding.iter().filter(|entry| entry.builder.is_some()).copied().collect();
        for entry in held {
            self.outstanding.hand_over(entry.event, entry.builder, self.last_confirmation);
        }
    }

    /// Removes all unassigned events, and returns them in ascending order.
    pub(super) fn take_unassigned(&mut self) -> Vec<u64> {
        let events: Vec<u64> = core::mem::take(&mut self.unassigned).into_iter().collect();
        events.iter().for_each(|event| {
            self.outstanding.take(*event, None);
        });
        events
    }

    /// Removes all events of a builder, and returns them in ascending order.
    pub(super) fn take_events(&mut self, builder: BuilderIndex) -> Vec<u64> {
        let entries = self.outstanding.of(Some(builder));
        self.outstanding.take_all(builder);
        entries.into_iter().map(|entry| entry.event).collect()
    }

    /// Returns the roster versions under which the outstanding events were assigned.
    pub(super) fn versions(&self) -> BTreeSet<u32> {
        self.outstanding.iter().map(|entry| entry.version).collect()
    }

    /// Sends a builder again those of its outstanding events that wait for the confirmation `from`
    /// or a later one; 0 stands for all its events.
    pub(super) fn send_again(&self, builder: BuilderIndex, from: u32, roster: &Roster, outbox: &mut Outbox) {
        // A message for each confirmation and roster version, with what was added to it last.
        let mut batches: BTreeMap<(u32, u32), (Assignments, (EventId, u64))> = BTreeMap::new();
        for entry in self.outstanding.of(Some(builder)) {
            let OutstandingEvent { event, triggered_ns, version, confirmation, .. } = entry;
            if confirmation >= from {
                let (message, last) = batches.entry((confirmation, version)).or_default();
                message.add(last, EventId::new(event), triggered_ns);
            }
        }
        // A confirmation covers all earlier messages, too, so only the last message that needs this
        // number requests it.
        let keys: Vec<_> = batches.keys().copied().collect();
        let id = roster.builder(builder).id;
        for (((confirmation, version), (mut message, _)), next) in
            batches.into_iter().zip(keys.iter().skip(1).map(Some).chain([None]))
        {
            let audience = roster.audience_of(version);
            message.expected = roster.numbers(&audience.expected);
            message.excluded = roster.numbers(&audience.excluded);
            message.epoch = outbox.epoch().number();
            message.utc_zero_ns = outbox.utc_zero_ns();
            message.answer =
                if next.is_some_and(|(next, _)| *next == confirmation) { 0 } else { confirmation };
            outbox.send(Recipients::Builder(id), Message::Assignments(message));
        }
    }

    /// Tells sources which builders have the outstanding events. All other events decided so far
    /// are closed for the sources (docs/reference/protocol.md RUN-21).
    pub(super) fn send_holdings(&self, to: &SourceSet, roster: &Roster, outbox: &mut Outbox) {
        let mut entries: Vec<OutstandingEvent> = self.outstanding.iter().copied().collect();
        entries.sort_unstable_by_key(|entry| entry.event);
        let decided = outbox.decided();
        // Sources that the same roster versions concern get the same message.
        let versions: Vec<(u32, &Audience)> = roster
            .audiences()
            .iter()
            .map(|(version, audience)| (*version, audience))
            .filter(|(version, _)| entries.iter().any(|entry| entry.version == *version))
            .collect();
        let mut groups: BTreeMap<Vec<bool>, SourceSet> = BTreeMap::new();
        for index in to.iter() {
            let concerned = versions.iter().map(|(_, audience)| audience.contains(index)).collect();
            groups.entry(concerned).or_default().insert(index);
        }
        for (concerned, group) in groups {
            let versions: BTreeSet<u32> = versions
                .iter()
                .zip(concerned)
                .filter_map(|((version, _), concerned)| concerned.then_some(*version))
                .collect();
            let of_group: Vec<OutstandingEvent> =
                entries.iter().filter(|entry| versions.contains(&entry.version)).copied().collect();
            outbox.send(Recipients::Sources(group), holdings(&of_group, decided, roster));
        }
    }

    /// Returns all outstanding events for the journal.
    pub(super) fn held(&self) -> Vec<Held> {
        let mut groups: BTreeMap<(u32, u32), Vec<OutstandingEvent>> = BTreeMap::new();
        for entry in self.outstanding.iter() {
            // The journal has the position plus 1, and 0 for an unassigned event.
            let builder = entry.builder.map_or(0, |builder| builder.get() as u32 + 1);
            groups.entry((builder, entry.version)).or_default().push(*entry);
        }
        // Put the unassigned events last.
        let first = groups.keys().take_while(|(builder, _)| *builder == 0).count();
        let group = |((builder, version), mut entries): ((u32, u32), Vec<OutstandingEvent>)| {
            entries.sort_unstable_by_key(|entry| entry.event);
            Held {
                builder,
                version,
                events: differences(entries.iter().map(|entry| entry.event)),
                triggered_ns: differences(entries.iter().map(|entry| entry.triggered_ns)),
            }
        };
        let mut held: Vec<Held> = groups.into_iter().map(group).collect();
        held.rotate_left(first);
        held
    }

    /// Restores events that the journal lists as outstanding, at a builder or unassigned.
    pub(super) fn recall_held(
        &mut self,
        held: &Held,
        triggered: u64,
        roster: &Roster,
    ) -> Result<(), Nonsense> {
        let builder = match held.builder.checked_sub(1) {
            None => None,
            Some(position) => {
                let found = roster.builders().positions().nth(position as usize);
                match found.filter(|index| roster.builder(*index).is_alive()) {
                    None => return nonsense("the run has no such builder, or it takes no part"),
                    found => found,
                }
            }
        };
        if held.events.len() != held.triggered_ns.len() {
            return nonsense("outstanding events and trigger times differ in number");
        }
        for (event, triggered_ns) in sums(&held.events).zip(sums(&held.triggered_ns)) {
            let entry =
                OutstandingEvent { event, triggered_ns, version: held.version, confirmation: 0, builder };
            self.recall(entry, triggered, roster)?;
        }
        Ok(())
    }

    /// Restores an outstanding event from the journal; it must not be outstanding already.
    pub(super) fn recall(
        &mut self,
        entry: OutstandingEvent,
        triggered: u64,
        roster: &Roster,
    ) -> Result<(), Nonsense> {
        if entry.event == 0 || entry.event > triggered {
            return nonsense("an event is assigned that was not triggered");
        }
        if self.outstanding.get(entry.event).is_some() {
            return nonsense("an event is assigned twice");
        }
        if !roster.audiences().contains_key(&entry.version) {
            return nonsense("an event is assigned under an unknown roster version");
        }
        self.outstanding.insert(entry);
        if entry.builder.is_none() {
            self.unassigned.insert(entry.event);
        }
        Ok(())
    }

    /// Assigns an unassigned event to a builder, as recorded in the journal.
    pub(super) fn recall_reassignment(&mut self, event: u64, builder: BuilderIndex) -> Result<(), Nonsense> {
        if !self.unassigned.remove(&event) {
            return nonsense("an event is assigned again that has a builder already");
        }
        self.outstanding.hand_over(event, Some(builder), 0);
        Ok(())
    }

    /// Removes a lost event, as recorded in the journal; returns the builder that had the event.
    pub(super) fn recall_loss(&mut self, event: u64) -> Result<Option<BuilderIndex>, Nonsense> {
        let Some(entry) = self.outstanding.get(event) else {
            return nonsense("an event is lost that is not outstanding");
        };
        self.outstanding.take(event, entry.builder);
        self.unassigned.remove(&event);
        Ok(entry.builder)
    }

    /// Converts all trigger times to a clock that is `nanos` ahead of the present one.
    pub(super) fn shift_times(&mut self, nanos: i64) {
        self.outstanding.shift_times(nanos);
    }

    /// Returns the number of outstanding events of each builder.
    pub(super) fn counts(&self, roster: &Roster) -> Vec<u64> {
        let mut held = vec![0; roster.builders().len()];
        self.outstanding
            .iter()
            .filter_map(|entry| entry.builder)
            .for_each(|builder| held[builder.get()] += 1);
        held
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self, roster: &Roster) {
        self.slots.invariants();
        self.outstanding.invariants();
        let mut unassigned = 0;
        for entry in self.outstanding.iter() {
            assert!(roster.audiences().contains_key(&entry.version), "{entry:?}");
            match entry.builder {
                Some(builder) => assert!(roster.builders().get(builder).is_some(), "{entry:?}"),
                None => unassigned += usize::from(self.unassigned.contains(&entry.event)),
            }
        }
        assert_eq!(unassigned, self.unassigned.len(), "unassigned events are outstanding");
    }
}

/// Returns the message that names the builders of these events. An event whose builder has not
/// confirmed its slot yet is named as unassigned.
fn holdings(entries: &[OutstandingEvent], decided: u64, roster: &Roster) -> Message {
    let mut held: BTreeMap<Option<BuilderId>, (Holding, u64)> = BTreeMap::new();
    for entry in entries {
        let builder = entry.builder.filter(|_| entry.confirmation == 0);
        let builder = builder.map(|builder| roster.builder(builder).id);
        let (holding, last) = held.entry(builder).or_insert_with(|| (Holding::of(builder), 0));
        holding.events.push(entry.event - *last);
        *last = entry.event;
    }
    let held = held.into_values().map(|(holding, _)| holding).collect();
    Message::Holdings(Holdings { decided, held })
}
