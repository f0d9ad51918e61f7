//! [`Assigner`]: the builder of each outstanding event, the choice of the next builder, and the
//! unassigned events.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::{
    Recipients, RunPlan,
    journal::{differences, sums},
    nonsense::{Nonsense, nonsense},
    outbox::Outbox,
    outstanding::{Outstanding, Place},
    roster::Roster,
    slots::Slots,
};
use crate::{
    id::EventId,
    index::BuilderIndex,
    set::SourceSet,
    time::Instant,
    wire::{
        control::{Assignments, Holding, Holdings, Message},
        journal::Held,
    },
};

/// The events that are assigned and not settled, and the slots of builders.
#[derive(Clone, Debug)]
pub(super) struct Assigner {
    slots: Slots,
    outstanding: Outstanding,
    /// Outstanding events whose builder is gone: kept until another builder has a slot, and told to
    /// sources only when it has opened that slot.
    unassigned: BTreeSet<u64>,
    /// The number of the last answer requested from a builder.
    answer: u32,
}

impl Assigner {
    pub(super) fn new(plan: &RunPlan) -> Self {
        Self {
            slots: Slots::new(plan.builders.len(), plan.policy, plan.run_length, plan.slots_at_a_time()),
            outstanding: Outstanding::new(),
            unassigned: BTreeSet::new(),
            answer: 0,
        }
    }

    /// Adds a builder, without slots yet.
    pub(super) fn add_builder(&mut self) {
        self.slots.add_builder();
    }

    /// Returns the number of events that are assigned and not settled.
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

    /// Returns the number of builders, including those that are away.
    pub(super) fn builders(&self) -> u64 {
        self.slots.builders() as u64
    }

    /// Returns true if a builder has a slot for a new event; unassigned events take precedence.
    pub(super) fn has_slot(&self) -> bool {
        self.slots.total() > 0 && self.unassigned.is_empty()
    }

    /// Returns true if an unassigned event can be given to a builder.
    pub(super) fn can_reassign(&self) -> bool {
        self.slots.total() > 0 && !self.unassigned.is_empty()
    }

    /// Takes a slot for a new event, if there is one.
    pub(super) fn take_slot(&mut self, now: Instant) -> Option<BuilderIndex> {
        self.slots.take(now)
    }

    /// Sets the number of a builder's free slots.
    pub(super) fn set_slots(&mut self, builder: BuilderIndex, free: u32, now: Instant) {
        self.slots.set(builder, free, now);
    }

    /// Notes that events begin: earlier time without a free slot does not count as busy.
    pub(super) fn open(&mut self) {
        self.slots.open();
    }

    /// Notes that no more events come.
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

    /// Gives a new event to a builder whose slot is taken.
    pub(super) fn assign(&mut self, event: u64, triggered_ns: u64, version: u32, builder: BuilderIndex) {
        self.outstanding.insert(Place { event, triggered_ns, version, answer: 0, builder: Some(builder) });
    }

    /// Settles an event; returns false if that builder does not have it. `frees_slot` tells whether
    /// its slot becomes free for another event.
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

    /// Takes a builder's events from it; returns their number.
    pub(super) fn unassign(&mut self, builder: BuilderIndex) -> u64 {
        let events = self.outstanding.of(Some(builder));
        for place in &events {
            self.outstanding.hand_over(place.event, None, 0);
            self.unassigned.insert(place.event);
        }
        events.len() as u64
    }

    /// Gives unassigned events to builders that have slots. Returns for each builder its new
    /// events, and the number of the answer that confirms open slots for them
    /// (docs/reference/protocol.md RUN-22).
    pub(super) fn reassign(&mut self, now: Instant) -> Vec<(BuilderIndex, u32, Vec<u64>)> {
        let mut placed: BTreeMap<BuilderIndex, Vec<u64>> = BTreeMap::new();
        while let Some(event) = self.unassigned.first().copied() {
            let Some(builder) = self.slots.take(now) else { break };
            self.unassigned.pop_first();
            placed.entry(builder).or_default().push(event);
        }
        let mut reassigned = Vec::with_capacity(placed.len());
        for (builder, events) in placed {
            self.answer += 1;
            for event in &events {
                self.outstanding.hand_over(*event, Some(builder), self.answer);
            }
            reassigned.push((builder, self.answer, events));
        }
        reassigned
    }

    /// Notes that a builder has opened slots for all events up to that answer; returns true if any
    /// of its events waited for the answer.
    pub(super) fn accept(&mut self, builder: BuilderIndex, answer: u32) -> bool {
        self.outstanding.accept(builder, answer)
    }

    /// Assigns all outstanding events to their builders once more, and has the builders confirm
    /// them. Sources learn of the builders only after that, as it is unknown which messages of the
    /// previous supervisor arrived.
    pub(super) fn ask_for_answers(&mut self) {
        self.answer = 1;
        let held: Vec<Place> =
            self.outstanding.iter().filter(|place| place.builder.is_some()).copied().collect();
        for place in held {
            self.outstanding.hand_over(place.event, place.builder, self.answer);
        }
    }

    /// Takes out all unassigned events in ascending order.
    pub(super) fn take_unassigned(&mut self) -> Vec<u64> {
        let events: Vec<u64> = core::mem::take(&mut self.unassigned).into_iter().collect();
        events.iter().for_each(|event| {
            self.outstanding.take(*event, None);
        });
        events
    }

    /// Takes out all events of a builder in ascending order.
    pub(super) fn take_events(&mut self, builder: BuilderIndex) -> Vec<u64> {
        let places = self.outstanding.of(Some(builder));
        self.outstanding.take_all(builder);
        places.into_iter().map(|place| place.event).collect()
    }

    /// Returns the roster versions of outstanding events.
    pub(super) fn versions(&self) -> BTreeSet<u32> {
        self.outstanding.iter().map(|place| place.version).collect()
    }

    /// Sends a builder its outstanding events whose answer is at least `from`; 0 stands for all of
    /// them.
    pub(super) fn send_again(&self, builder: BuilderIndex, from: u32, roster: &Roster, outbox: &mut Outbox) {
        let mut batches: BTreeMap<(u32, u32), (Assignments, (EventId, u64))> = BTreeMap::new();
        for place in self.outstanding.of(Some(builder)) {
            let Place { event, triggered_ns, version, answer, .. } = place;
            if answer >= from {
                let (message, last) = batches.entry((answer, version)).or_default();
                message.add(last, EventId::new(event), triggered_ns);
            }
        }
        // An answer covers all batches up to it, so it goes with the last batch that requests it.
        let keys: Vec<_> = batches.keys().copied().collect();
        let to = Recipients::Builder(roster.builder(builder).id);
        for (((answer, version), (mut message, _)), next) in
            batches.into_iter().zip(keys.iter().skip(1).map(Some).chain([None]))
        {
            message.expected = roster.numbers(&roster.expected_by(version));
            message.epoch = outbox.epoch().number();
            message.answer = if next.is_some_and(|(next, _)| *next == answer) { 0 } else { answer };
            outbox.send(to, Message::Assignments(message));
        }
    }

    /// Tells sources which builders have their outstanding events; all other events decided so far
    /// are closed for them (docs/reference/protocol.md RUN-21).
    pub(super) fn send_holdings(&self, to: &SourceSet, roster: &Roster, outbox: &mut Outbox) {
        let mut places: Vec<Place> = self.outstanding.iter().copied().collect();
        places.sort_unstable_by_key(|place| place.event);
        let decided = outbox.decided();
        if places.iter().all(|place| roster.expected_by(place.version).is_superset(to)) {
            return outbox.send(Recipients::Sources(*to), holdings(&places, decided, roster));
        }
        for index in Roster::positions(to) {
            let expects = |place: &&Place| roster.expected_by(place.version).contains(index.get());
            let own: Vec<Place> = places.iter().filter(expects).copied().collect();
            outbox.send(Recipients::Source(roster.source(index).id), holdings(&own, decided, roster));
        }
    }

    /// Returns all outstanding events for the journal.
    pub(super) fn held(&self) -> Vec<Held> {
        let mut groups: BTreeMap<(u32, u32), Vec<Place>> = BTreeMap::new();
        for place in self.outstanding.iter() {
            let builder = place.builder.map_or(0, |builder| builder.get() as u32 + 1);
            groups.entry((builder, place.version)).or_default().push(*place);
        }
        // Unassigned events come last.
        let first = groups.keys().take_while(|(builder, _)| *builder == 0).count();
        let group = |((builder, version), mut places): ((u32, u32), Vec<Place>)| {
            places.sort_unstable_by_key(|place| place.event);
            Held {
                builder,
                version,
                events: differences(places.iter().map(|place| place.event)),
                triggered_ns: differences(places.iter().map(|place| place.triggered_ns)),
            }
        };
        let mut held: Vec<Held> = groups.into_iter().map(group).collect();
        held.rotate_left(first);
        held
    }

    /// Restores events that the journal lists as outstanding at a builder, or as not assigned yet.
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
            let place = Place { event, triggered_ns, version: held.version, answer: 0, builder };
            self.recall(place, triggered, roster)?;
        }
        Ok(())
    }

    /// Takes an outstanding event, which was not there before, from the journal.
    pub(super) fn recall(&mut self, place: Place, triggered: u64, roster: &Roster) -> Result<(), Nonsense> {
        if place.event == 0 || place.event > triggered {
            return nonsense("an event is assigned that was not triggered");
        }
        if self.outstanding.get(place.event).is_some() {
            return nonsense("an event is assigned twice");
        }
        if !roster.expected().contains_key(&place.version) {
            return nonsense("an event is assigned under an unknown roster version");
        }
        self.outstanding.insert(place);
        if place.builder.is_none() {
            self.unassigned.insert(place.event);
        }
        Ok(())
    }

    /// Gives an unassigned event to a builder, as the journal says.
    pub(super) fn recall_reassignment(&mut self, event: u64, builder: BuilderIndex) -> Result<(), Nonsense> {
        if !self.unassigned.remove(&event) {
            return nonsense("an event is assigned again that has a builder already");
        }
        self.outstanding.hand_over(event, Some(builder), 0);
        Ok(())
    }

    /// Takes out an event that is lost, as the journal says; returns the builder that had it.
    pub(super) fn recall_loss(&mut self, event: u64) -> Result<Option<BuilderIndex>, Nonsense> {
        let Some(place) = self.outstanding.get(event) else {
            return nonsense("an event is lost that is not outstanding");
        };
        self.outstanding.take(event, place.builder);
        self.unassigned.remove(&event);
        Ok(place.builder)
    }

    /// Puts all trigger times on a clock that is `nanos` ahead.
    pub(super) fn shift_times(&mut self, nanos: i64) {
        self.outstanding.shift_times(nanos);
    }

    /// Returns the number of events that each builder has.
    pub(super) fn counts(&self, roster: &Roster) -> Vec<u64> {
        let mut held = vec![0; roster.builders().len()];
        self.outstanding
            .iter()
            .filter_map(|place| place.builder)
            .for_each(|builder| held[builder.get()] += 1);
        held
    }

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub(super) fn invariants(&self, roster: &Roster) {
        self.slots.invariants();
        self.outstanding.invariants();
        let mut unassigned = 0;
        for place in self.outstanding.iter() {
            assert!(roster.expected().contains_key(&place.version), "{place:?}");
            match place.builder {
                Some(builder) => assert!(roster.builders().get(builder).is_some(), "{place:?}"),
                None => unassigned += usize::from(self.unassigned.contains(&place.event)),
            }
        }
        assert_eq!(unassigned, self.unassigned.len(), "unassigned events are outstanding");
    }
}

/// Returns the builders of these events; an event whose builder has not opened a slot yet counts as
/// unassigned.
fn holdings(places: &[Place], decided: u64, roster: &Roster) -> Message {
    let mut held: BTreeMap<u32, (Holding, u64)> = BTreeMap::new();
    for place in places {
        let builder = place.builder.filter(|_| place.answer == 0);
        let builder = builder.map_or(0, |builder| roster.builder(builder).id.number().into());
        let (holding, last) = held.entry(builder).or_insert((Holding { builder, events: Vec::new() }, 0));
        holding.events.push(place.event - *last);
        *last = place.event;
    }
    let held = held.into_values().map(|(holding, _)| holding).collect();
    Message::Holdings(Holdings { decided, held })
}
