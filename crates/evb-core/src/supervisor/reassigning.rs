//! Events whose builder is gone: kept until another one has a slot, and said to sources only when it has opened it.

use std::collections::BTreeMap;

use super::{
    Recipients, SupervisorCore,
    journal::{What, differences},
    outstanding::{BuilderIndex, HOMELESS, Place},
};
use crate::{
    id::{BuilderId, EventId},
    time::Instant,
    wire::{
        control::{Assignments, control::Message},
        journal,
    },
};

impl SupervisorCore {
    /// Takes a builder's events from it; says how many.
    pub(super) fn unhouse(&mut self, index: usize) -> u64 {
        let events = self.outstanding.of(index as BuilderIndex);
        for place in &events {
            self.outstanding.hand_over(place.event, HOMELESS, 0);
            self.homeless.insert(place.event);
        }
        events.len() as u64
    }

    /// Gives events without a builder to those that have slots (docs/protocol.md RUN-22).
    pub(super) fn place_homeless(&mut self, now: Instant) {
        if self.homeless.is_empty() || self.slots.total() == 0 || !self.is_settling() {
            return;
        }
        let mut placed: BTreeMap<BuilderIndex, Vec<u64>> = BTreeMap::new();
        while let Some(event) = self.homeless.first().copied() {
            let Some(builder) = self.slots.take(now) else { break };
            self.homeless.pop_first();
            placed.entry(builder).or_default().push(event);
        }
        for (builder, events) in placed {
            self.answer += 1;
            for event in &events {
                self.outstanding.hand_over(*event, builder, self.answer);
            }
            let seat = &mut self.builders[usize::from(builder)];
            seat.tally.assigned += events.len() as u64;
            let number = seat.id.number().into();
            tracing::info!(builder = number, events = events.len(), "takes over");
            let what = journal::Reassigned { builder: number, events: differences(events.iter().copied()) };
            self.journal(What::Reassigned(what), now);
            self.send_again(usize::from(builder), self.answer);
        }
        self.prolong_drain(now);
    }

    /// Sends a builder its outstanding events that are to be answered by at least `from`; 0: all of them.
    pub(super) fn send_again(&mut self, index: usize, from: u32) {
        let mut batches: BTreeMap<(u32, u32), (Assignments, (EventId, u64))> = BTreeMap::new();
        for place in self.outstanding.of(index as BuilderIndex) {
            let Place { event, triggered_ns, version, answer, .. } = place;
            if answer >= from {
                let (message, last) = batches.entry((answer, version)).or_default();
                message.add(last, EventId::new(event), triggered_ns);
            }
        }
        // One answer is for all batches up to it, so each answer goes with the last batch that has it.
        let keys: Vec<_> = batches.keys().copied().collect();
        let to = Recipients::Builder(self.builders[index].id);
        for (((answer, version), (mut message, _)), next) in
            batches.into_iter().zip(keys.iter().skip(1).map(Some).chain([None]))
        {
            message.expected = self.source_ids(self.expected_by(version));
            message.epoch = self.epoch.number();
            message.answer = if next.is_some_and(|(next, _)| *next == answer) { 0 } else { answer };
            self.send(to, Message::Assignments(message));
        }
    }

    /// A builder has opened slots: now sources may announce (docs/protocol.md RUN-22).
    pub(super) fn handle_accepted(&mut self, id: BuilderId, answer: u32) {
        let Some(index) = self.builder_index(id) else { return };
        if self.outstanding.accept(index as BuilderIndex, answer) {
            self.send_holdings(self.connected_sources());
        }
    }

    /// Nobody came to build them.
    pub(super) fn lose_homeless(&mut self, cause: &str, now: Instant) {
        let events = core::mem::take(&mut self.homeless);
        if events.is_empty() {
            return;
        }
        for event in &events {
            self.outstanding.take(*event, HOMELESS);
        }
        let count = events.len() as u64;
        self.tally.lost += count;
        self.findings.loss(cause.to_owned(), count);
        let what = journal::Lost { events: differences(events.into_iter()), cause: cause.to_owned() };
        self.journal(What::Lost(what), now);
    }
}
