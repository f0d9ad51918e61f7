//! [`Roster`]: the peers of a run, the sources that are up, and the sources that events expect.

mod lookup;
mod owing;
mod presence;
mod readouts;
mod recall;
mod reports;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;

use lookup::Lookup;
use owing::Owing;
use readouts::Readouts;
pub(super) use reports::keep_report;

use super::{
    Recipients, RunPlan,
    groups::{Groups, TooFew},
    seats::{BuilderSeat, Connection, Leaving, SourceSeat},
};
use crate::{
    id::{BuilderId, Peer, SourceId},
    index::{BuilderIndex, Per, SourceIndex},
    set::SourceSet,
    time::Instant,
    wire::{control::Hello, journal::Registered},
};

/// The peers of the run and their presence. Only this module changes seats.
#[derive(Clone, Debug)]
pub(super) struct Roster {
    sources: Per<SourceIndex, SourceSeat>,
    builders: Per<BuilderIndex, BuilderSeat>,
    lookup: Lookup,
    /// Sources that are connected and not silent.
    up: SourceSet,
    /// Sources for which events wait although they are down, or their readout is quiet.
    awaited: SourceSet,
    readouts: Readouts,
    owing: Owing,
    pub(super) groups: Groups,
    version: u32,
    /// For each roster version under which outstanding events were assigned, the sources that these
    /// events concern.
    audiences: BTreeMap<u32, Audience>,
}

/// The sources that the decisions of a roster version concern.
#[derive(Clone, Debug, Default)]
pub(super) struct Audience {
    /// Sources for which the events wait.
    pub(super) expected: SourceSet,
    /// Sources that get the decisions although no event waits for them, because their readout is
    /// quiet. They send what they have.
    pub(super) quiet: SourceSet,
    /// Sources that are excluded from the events.
    pub(super) excluded: SourceSet,
}

impl Audience {
    /// Returns true if that source gets the decisions.
    pub(super) fn contains(&self, index: usize) -> bool {
        self.expected.contains(index) || self.quiet.contains(index)
    }
}

/// A peer's position in the roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    Source(SourceIndex),
    Builder(BuilderIndex),
}

impl Seat {
    /// Returns the source's number in sets of sources; `None` for a builder.
    pub(super) fn source(self) -> Option<usize> {
        match self {
            Self::Source(index) => Some(index.get()),
            Self::Builder(_) => None,
        }
    }

    /// Returns the builder's position; `None` for a source.
    pub(super) fn builder(self) -> Option<BuilderIndex> {
        match self {
            Self::Builder(index) => Some(index),
            Self::Source(_) => None,
        }
    }
}

impl Roster {
    /// Creates a roster in which no peer has registered.
    pub(super) fn new(plan: &RunPlan) -> Self {
        let mut roster = Self {
            sources: plan.sources.iter().map(|id| SourceSeat::new(*id)).collect(),
            builders: core::iter::empty().collect(),
            lookup: Lookup::default(),
            up: SourceSet::default(),
            awaited: SourceSet::default(),
            readouts: Readouts::default(),
            owing: Owing::of(plan),
            groups: Groups::new(&plan.groups, &plan.sources),
            version: 0,
            audiences: BTreeMap::new(),
        };
        plan.builders.iter().for_each(|id| roster.add_builder(*id));
        roster
    }

    /// Adds a seat for a builder.
    pub(super) fn add_builder(&mut self, id: BuilderId) {
        self.lookup.add(id, BuilderIndex::new(self.builders.len()));
        self.builders.push(BuilderSeat::new(id));
    }

    pub(super) fn sources(&self) -> &Per<SourceIndex, SourceSeat> {
        &self.sources
    }

    pub(super) fn builders(&self) -> &Per<BuilderIndex, BuilderSeat> {
        &self.builders
    }

    pub(super) fn source(&self, index: SourceIndex) -> &SourceSeat {
        &self.sources[index]
    }

    pub(super) fn builder(&self, index: BuilderIndex) -> &BuilderSeat {
        &self.builders[index]
    }

    pub(super) fn source_index(&self, id: SourceId) -> Option<SourceIndex> {
        self.sources.as_slice().binary_search_by_key(&id, |seat| seat.id).ok().map(SourceIndex::new)
    }

    /// Returns the source with that id; `None` if the run has no such source.
    pub(super) fn source_numbered(&self, id: u32) -> Option<SourceIndex> {
        u16::try_from(id).ok().and_then(|id| self.source_index(SourceId::new(id)))
    }

    pub(super) fn builder_index(&self, id: BuilderId) -> Option<BuilderIndex> {
        self.lookup.find(id)
    }

    pub(super) fn seat(&self, peer: Peer) -> Option<Seat> {
        match peer {
            Peer::Source(id) => self.source_index(id).map(Seat::Source),
            Peer::Builder(id) => self.builder_index(id).map(Seat::Builder),
            Peer::Supervisor => None,
        }
    }

    /// Returns the recipient of messages to the peer of that seat.
    pub(super) fn recipient(&self, seat: Seat) -> Recipients {
        match seat {
            Seat::Source(index) => Recipients::Source(self.sources[index].id),
            Seat::Builder(index) => Recipients::Builder(self.builders[index].id),
        }
    }

    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// Returns the sources that are connected and not silent.
    pub(super) fn up(&self) -> &SourceSet {
        &self.up
    }

    pub(super) fn is_up(&self, index: SourceIndex) -> bool {
        self.up.contains(index.get())
    }

    /// Returns the sources for which events wait although they are down, or their readout is quiet.
    pub(super) fn awaited(&self) -> &SourceSet {
        &self.awaited
    }

    pub(super) fn readouts(&self) -> &Readouts {
        &self.readouts
    }

    /// Returns which sources owe events nothing.
    pub(super) fn owing(&self) -> &Owing {
        &self.owing
    }

    /// Returns the sources that are up and not excluded.
    pub(super) fn contributing(&self) -> SourceSet {
        self.up.without(self.owing.excluded())
    }

    /// Returns true if events expect no source.
    pub(super) fn is_idle(&self) -> bool {
        self.readouts.are_quiet(&self.up, self.owing.excluded())
    }

    /// Returns true if no source can deliver: none is up, or the readout of each is gone.
    #[inline]
    pub(super) fn is_deserted(&self) -> bool {
        self.readouts.are_gone(&self.up, self.owing.excluded())
    }

    /// Returns the sources that outstanding events concern, by roster version.
    pub(super) fn audiences(&self) -> &BTreeMap<u32, Audience> {
        &self.audiences
    }

    /// Returns the sources that events assigned under that roster version concern.
    pub(super) fn audience_of(&self, version: u32) -> Audience {
        self.audiences.get(&version).cloned().unwrap_or_default()
    }

    /// Returns the positions of the sources in a set.
    pub(super) fn positions(set: &SourceSet) -> impl Iterator<Item = SourceIndex> {
        set.iter().map(SourceIndex::new)
    }

    /// Returns the ids of the sources in a set.
    pub(super) fn numbers(&self, set: &SourceSet) -> Vec<u32> {
        Self::positions(set).map(|index| self.sources[index].id.number().into()).collect()
    }

    /// Returns all peers that may take part: sources in the order of the roster, then builders.
    pub(super) fn peers(&self) -> Vec<Peer> {
        let sources = self.sources.iter().map(|seat| Peer::Source(seat.id));
        sources.chain(self.builders.iter().map(|seat| Peer::Builder(seat.id))).collect()
    }

    /// Returns the peers that are not connected, because they have not registered or have left.
    pub(super) fn absent(&self) -> Vec<Peer> {
        let sources = self.needed_sources().filter(|seat| seat.connection.is_none());
        let builders = self.builders.iter().filter(|seat| seat.connection.is_none() && seat.is_member());
        sources.map(|seat| Peer::Source(seat.id)).chain(builders.map(|seat| Peer::Builder(seat.id))).collect()
    }

    /// Returns the seats of the sources without which a run does not begin.
    fn needed_sources(&self) -> impl Iterator<Item = &SourceSeat> {
        self.sources.iter().filter(|seat| self.owes(seat.id))
    }

    /// Returns the seats of the sources that are connected and not excluded.
    fn joining_sources(&self) -> impl Iterator<Item = &SourceSeat> {
        let seats = self.sources.iter().enumerate().filter(|(_, seat)| seat.connection.is_some());
        seats.filter(|(index, _)| !self.owing.excluded().contains(*index)).map(|(_, seat)| seat)
    }

    /// Returns true if events are owed fragments of that source.
    pub(super) fn owes(&self, id: SourceId) -> bool {
        self.source_index(id).is_some_and(|index| self.owing.owes(index))
    }

    pub(super) fn is_complete(&self) -> bool {
        self.needed_sources().all(|seat| seat.connection.is_some())
            && self.builders.iter().all(|seat| seat.connection.is_some() || !seat.is_member())
    }

    /// Returns true if every peer that a run needs has registered and all lanes are connected.
    pub(super) fn is_ready(&self) -> bool {
        self.is_complete() && self.joining_sources().all(SourceSeat::is_ready)
    }

    /// Returns true if the run has no builder that may build events.
    pub(super) fn lacks_builders(&self) -> bool {
        !self.builders.iter().any(BuilderSeat::is_alive)
    }

    /// Returns true if at least one builder gets events.
    pub(super) fn has_active_builder(&self) -> bool {
        self.builders.iter().any(BuilderSeat::is_active)
    }

    /// Returns the sources that have a connection.
    pub(super) fn connected_sources(&self) -> SourceSet {
        let connected = self.sources.iter().enumerate().filter(|(_, seat)| seat.connection.is_some());
        connected.map(|(index, _)| index).collect()
    }

    /// Notes that a source has connected. The source knows all decisions up to event `decided`.
    pub(super) fn connect_source(
        &mut self,
        index: SourceIndex,
        hello: &Hello,
        connection: Connection,
        decided: u64,
    ) {
        self.sources[index].connect(hello, connection, decided);
    }

    /// Notes that a builder has connected; returns false if it is another process than before.
    pub(super) fn connect_builder(
        &mut self,
        index: BuilderIndex,
        hello: &Hello,
        connection: Connection,
    ) -> bool {
        let goes_on = self.builders[index].connect(hello, connection);
        self.lookup.note(index, &self.builders[index]);
        goes_on
    }

    /// Requires all sources to confirm their lanes again, as they do not know a new builder.
    pub(super) fn forget_ready(&mut self) {
        self.sources.iter_mut().for_each(|seat| seat.ready = false);
    }

    /// Notes that a source has connected lanes to all builders.
    pub(super) fn set_ready(&mut self, index: SourceIndex) {
        let seat = &mut self.sources[index];
        (seat.ready, seat.reaches_all) = (true, true);
    }

    /// Returns the reason why that peer left, or cannot take part; empty if not known.
    pub(super) fn parting(&self, peer: Peer) -> &str {
        match self.seat(peer) {
            Some(Seat::Source(index)) => &self.sources[index].parting,
            Some(Seat::Builder(index)) => &self.builders[index].parting,
            None => "",
        }
    }

    /// Notes the reason why a peer left, or cannot take part.
    pub(super) fn note_parting(&mut self, seat: Seat, reason: String) {
        match seat {
            Seat::Source(index) => self.sources[index].parting = reason,
            Seat::Builder(index) => self.builders[index].parting = reason,
        }
    }

    /// Notes that a peer has prepared for the first event of the run.
    pub(super) fn set_begun(&mut self, seat: Seat) {
        match seat {
            Seat::Source(index) => self.sources[index].begun = true,
            Seat::Builder(index) => self.builders[index].begun = true,
        }
    }

    /// Requires all peers to prepare for the first event of the run.
    pub(super) fn forget_begun(&mut self) {
        self.sources.iter_mut().for_each(|seat| seat.begun = false);
        self.builders.iter_mut().for_each(|seat| seat.begun = false);
    }

    /// Returns the peers that have not prepared for the first event of the run yet.
    pub(super) fn waits_for_begun(&self) -> Vec<Peer> {
        let needed = self.needed_sources().filter(|seat| seat.connection.is_none());
        let unready = needed.chain(self.joining_sources()).filter(|seat| !seat.begun);
        let sources = unready.map(|seat| Peer::Source(seat.id));
        let builders = self.builders.iter().filter(|seat| !seat.begun && seat.is_member());
        sources.chain(builders.map(|seat| Peer::Builder(seat.id))).collect()
    }

    /// Notes the highest run number that a builder's storage knows, as encoded in messages.
    pub(super) fn note_highest(&mut self, seat: Seat, highest_run: u64) {
        if let Seat::Builder(index) = seat {
            self.builders[index].note_highest(highest_run);
        }
    }

    /// Notes that a builder joins during the run, which gets no events before lanes to it are open.
    pub(super) fn begin_joining(&mut self, index: BuilderIndex, now: Instant) {
        self.builders[index].joining = Some(now);
        self.lookup.note(index, &self.builders[index]);
        self.sources.iter_mut().for_each(|seat| seat.reaches_all = false);
    }

    pub(super) fn end_joining(&mut self, index: BuilderIndex) {
        self.builders[index].joining = None;
        self.lookup.note(index, &self.builders[index]);
    }

    /// Returns the lists of builders of which few are in a certain state.
    pub(super) fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    /// Extends the time limit for connecting lanes to new builders by `time`, during which the run
    /// could not make progress.
    pub(super) fn put_off_joining(&mut self, time: core::time::Duration) {
        self.builders.iter_mut().filter_map(|seat| seat.joining.as_mut()).for_each(|since| *since += time);
    }

    pub(super) fn set_leaving(&mut self, index: BuilderIndex, leaving: Leaving) {
        self.builders[index].leaving = leaving;
        self.lookup.note(index, &self.builders[index]);
    }

    /// Notes that a builder broke the protocol; only a new incarnation of it may register.
    pub(super) fn bar(&mut self, index: BuilderIndex) {
        self.builders[index].barred = true;
    }

    pub(super) fn suspend(&mut self, index: BuilderIndex) {
        self.builders[index].suspended = true;
    }

    /// Returns the journal entry for a peer that has registered.
    pub(super) fn registered(&self, seat: Seat) -> Registered {
        match seat {
            Seat::Source(index) => self.sources[index].registered(),
            Seat::Builder(index) => self.builders[index].registered(),
        }
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub(super) fn invariants(&self) {
        let all = SourceSet::first(self.sources.len());
        assert!(all.is_superset(&self.up) && all.is_superset(&self.awaited), "{self:?}");
        assert!(self.awaited.is_disjoint(self.owing.excluded()), "events await no excluded source: {self:?}");
        self.readouts.invariants(&all);
        assert!(self.lookup.agrees(&self.builders), "{:?}", self.lookup);
        for seat in self.builders.iter() {
            assert!(
                seat.connection.is_none() || seat.incarnation > 0,
                "a connected builder has registered: {seat:?}"
            );
        }
    }
}

/// Returns true if all peers of the run before the restart are back, with their lanes.
pub(super) fn is_back(roster: &Roster) -> bool {
    Roster::positions(&roster.up).all(|index| roster.sources[index].is_ready())
        && roster.builders.iter().all(|seat| !seat.is_alive() || seat.connection.is_some())
}

/// Returns true if all peers have reported that still can report. A peer that lost its
/// connection less than `patience` ago may still return and report.
pub(super) fn has_reported(roster: &Roster, patience: core::time::Duration, now: Instant) -> bool {
    let gone = |connected: bool, heard: Instant| !connected && now.since(heard) >= patience;
    let sources = roster.sources.iter().all(|seat| {
        seat.report.is_some() || seat.incarnation == 0 || gone(seat.connection.is_some(), seat.last_heard)
    });
    let builders = roster.builders.iter().all(|seat| {
        seat.report.is_some() || !seat.is_alive() || gone(seat.connection.is_some(), seat.last_heard)
    });
    sources && builders
}

/// Returns true if every source that is not excluded has registered.
pub(super) fn has_all_sources(roster: &Roster) -> bool {
    roster.connected_sources().union(roster.owing.excluded()).len() == roster.sources.len()
}

/// Returns the group because of which the run cannot begin: before the run, sources take part that
/// are connected to all builders and not excluded.
pub(super) fn too_few_to_begin(plan: &RunPlan, roster: &Roster) -> Option<TooFew> {
    let takes_part =
        |index: SourceIndex| roster.sources[index].is_ready() && !roster.owing.is_excluded(index);
    roster.groups.find_short(&plan.groups, takes_part)?.named(&plan.groups)
}

/// Returns the builders that could not say which runs their storages know.
pub(super) fn unheard(roster: &Roster) -> Vec<Peer> {
    let unheard = roster.builders.iter().filter(|seat| seat.highest_run.is_none() && seat.is_member());
    unheard.map(|seat| Peer::Builder(seat.id)).collect()
}

/// Returns the sources that have registered, but have not connected lanes to all builders.
pub(super) fn unconnected(roster: &Roster) -> Vec<Peer> {
    let waiting = roster.joining_sources().filter(|seat| !seat.ready);
    waiting.map(|seat| Peer::Source(seat.id)).collect()
}

/// Returns true if a run does not begin without that peer.
pub(super) fn needs(roster: &Roster, peer: Peer) -> bool {
    if let Peer::Source(id) = peer { roster.owes(id) } else { true }
}
