//! [`Holdings`]: where all outstanding events are, for sources that may have missed it.

use std::collections::BTreeMap;

use super::{
    Recipients, SupervisorCore,
    outstanding::{HOMELESS, Place},
};
use crate::{
    set::SourceSet,
    wire::control::{Holding, Holdings, control::Message},
};

impl SupervisorCore {
    /// Sources that can be told something.
    pub(super) fn connected_sources(&self) -> SourceSet {
        let connected = self.sources.iter().enumerate().filter(|(_, seat)| seat.connection.is_some());
        connected.map(|(index, _)| index).collect()
    }

    /// Tells sources where the events are that expect them; all others up to here are closed for them
    /// (docs/protocol.md RUN-21).
    pub(super) fn send_holdings(&mut self, to: SourceSet) {
        if to.is_empty() || !self.is_under_way_or_reporting() {
            return;
        }
        self.close_batches();
        let mut places: Vec<Place> = self.outstanding.iter().copied().collect();
        places.sort_unstable_by_key(|place| place.event);
        let uniform = places.iter().all(|place| self.expected_by(place.version).is_superset(&to));
        if uniform {
            let message = self.holdings(&places);
            self.send(Recipients::Sources(to), message);
        } else {
            for index in to.iter() {
                let expects = |place: &&Place| self.expected_by(place.version).contains(index);
                let own: Vec<Place> = places.iter().filter(expects).copied().collect();
                let message = self.holdings(&own);
                self.send(Recipients::Source(self.sources[index].id), message);
            }
        }
        let decided = self.outbox.decided();
        to.iter().for_each(|index| self.sources[index].told = decided);
    }

    fn holdings(&self, places: &[Place]) -> Message {
        let mut held: BTreeMap<u32, (Holding, u64)> = BTreeMap::new();
        for place in places {
            let settled = place.builder != HOMELESS && place.answer == 0;
            let builder =
                if settled { self.builders[usize::from(place.builder)].id.number().into() } else { 0 };
            let (holding, last) = held.entry(builder).or_insert((Holding { builder, events: Vec::new() }, 0));
            holding.events.push(place.event - *last);
            *last = place.event;
        }
        let held = held.into_values().map(|(holding, _)| holding).collect();
        Message::Holdings(Holdings { decided: self.outbox.decided(), held })
    }
}
