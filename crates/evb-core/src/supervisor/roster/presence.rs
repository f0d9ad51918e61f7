//! Methods of [`Roster`] for the presence of peers: sources that go down and come up, silent peers,
//! and the roster versions that announce such changes.

use std::collections::BTreeSet;

use super::{Audience, Roster, Seat, SourceSeat};
use crate::{
    index::{BuilderIndex, SourceIndex},
    set::SourceSet,
    supervisor::{Recipients, journal::What, outbox::Outbox, peer_names::short, seats::BuilderSeat},
    time::Instant,
    wire::{
        control::{BuilderAddress, Decisions, Load, MAX_BATCH, Message, ReadoutStatus, Verdict},
        journal::RosterChange,
    },
};

impl Roster {
    /// Notes that a message of a peer arrived; returns true if the peer counted as silent before,
    /// or `None` if it has no connection any more.
    pub(in crate::supervisor) fn hear(&mut self, seat: Seat, now: Instant) -> Option<bool> {
        let (connection, was_silent) = match seat {
            Seat::Source(index) => {
                let seat = &mut self.sources[index];
                (&mut seat.connection, seat.down.is_some())
            }
            Seat::Builder(index) => {
                let seat = &mut self.builders[index];
                let suspended = seat.suspended && seat.connection.is_some();
                seat.suspended &= !suspended;
                (&mut seat.connection, suspended)
            }
        };
        connection.as_mut()?.last_heard = now;
        Some(was_silent)
    }

    /// Stores the sending time in a peer's heartbeat, for the next heartbeat to that peer.
    pub(in crate::supervisor) fn note_heartbeat(&mut self, seat: Seat, sent_ns: u64, now: Instant) {
        let connection = match seat {
            Seat::Source(index) => &mut self.sources[index].connection,
            Seat::Builder(index) => &mut self.builders[index].connection,
        };
        if let Some(connection) = connection {
            connection.echo = Some((sent_ns, now));
        }
    }

    /// Stores the load of a builder's slots, as the builder reported it.
    pub(in crate::supervisor) fn note_load(&mut self, index: BuilderIndex, load: Load) {
        self.builders[index].load = load;
    }

    /// Treats all peers as if messages from them had arrived at this time.
    pub(in crate::supervisor) fn hear_everybody(&mut self, now: Instant) {
        let sources = self.sources.iter_mut().map(|seat| (&mut seat.connection, &mut seat.last_heard));
        let builders = self.builders.iter_mut().map(|seat| (&mut seat.connection, &mut seat.last_heard));
        for (connection, last_heard) in sources.chain(builders) {
            *last_heard = now;
            if let Some(connection) = connection {
                connection.last_heard = now;
            }
        }
    }

    /// Notes that a peer's connection is gone; returns false if the peer had no connection.
    pub(in crate::supervisor) fn disconnect(&mut self, seat: Seat, cause: &str) -> bool {
        match seat {
            Seat::Source(index) => {
                let seat = &mut self.sources[index];
                let Some(connection) = seat.connection.take() else { return false };
                seat.last_heard = connection.last_heard;
                seat.parting = short(cause);
                seat.ready = false;
            }
            Seat::Builder(index) => {
                let seat = &mut self.builders[index];
                let Some(connection) = seat.connection.take() else { return false };
                seat.last_heard = connection.last_heard;
                seat.parting = short(cause);
            }
        }
        true
    }

    /// Ends a builder's incarnation; returns true if the builder had a connection.
    pub(in crate::supervisor) fn end_incarnation(&mut self, index: BuilderIndex) -> bool {
        let seat = &mut self.builders[index];
        (seat.over, seat.joining) = (true, None);
        let was_connected = seat.connection.take().is_some();
        self.lookup.note(index, &self.builders[index]);
        was_connected
    }

    /// Returns true if a source is down, but ready to contribute again.
    pub(in crate::supervisor) fn can_rise(&self, index: SourceIndex) -> bool {
        !self.is_up(index) && self.sources[index].is_ready()
    }

    /// Marks a source as up from the next roster version on. Returns true if events waited for it.
    /// Otherwise the source is told that all events decided while it was down are closed.
    pub(in crate::supervisor) fn raise(
        &mut self,
        index: SourceIndex,
        outbox: &mut Outbox,
        now: Instant,
    ) -> bool {
        let awaited = self.awaited.remove(index.get());
        let verdict = if self.owing.is_excluded(index) { Verdict::Excluded } else { Verdict::Closed };
        let seat = &mut self.sources[index];
        if !awaited {
            tell_past(seat, verdict, outbox);
        }
        seat.end_absence(now);
        self.up.insert(index.get());
        awaited
    }

    /// Excludes a source from the next event on, as [`Owing::exclude`](super::Owing::exclude) does.
    pub(in crate::supervisor) fn exclude(&mut self, index: SourceIndex, releases: bool) {
        self.owing.exclude(index, releases);
        self.awaited.remove(index.get());
    }

    /// Includes a source from the next event on.
    pub(in crate::supervisor) fn include(&mut self, index: SourceIndex, is_awaited: bool) {
        self.owing.include(index);
        self.set_awaited(index, is_awaited);
    }

    /// Sends later decisions to the sources that are up, under the present roster version.
    pub(in crate::supervisor) fn address(&self, outbox: &mut Outbox) {
        outbox.address(self.contributing(), self.up.intersection(self.owing.excluded()), self.version);
    }

    /// Marks a source as down: later decisions are no longer sent to it.
    pub(in crate::supervisor) fn lower(&mut self, index: SourceIndex, outbox: &mut Outbox) {
        self.up.remove(index.get());
        self.address(outbox);
        self.sources[index].told = outbox.decided();
    }

    /// Notes that a source went down. `is_awaited` is true if events wait for the source.
    pub(in crate::supervisor) fn note_absence(&mut self, index: SourceIndex, is_awaited: bool, now: Instant) {
        if is_awaited {
            self.awaited.insert(index.get());
        }
        self.sources[index].down = Some(now);
    }

    /// Stores the state of a source's readout: see [`Readouts::note`](super::Readouts::note).
    pub(in crate::supervisor) fn set_readout(
        &mut self,
        index: SourceIndex,
        status: ReadoutStatus,
        counts: bool,
    ) -> bool {
        self.sources[index].readout = status;
        self.readouts.note(index, status, counts)
    }

    /// Notes whether events wait for a source: for its readout, or until it connects again.
    pub(in crate::supervisor) fn set_awaited(&mut self, index: SourceIndex, is_awaited: bool) {
        if is_awaited {
            self.awaited.insert(index.get());
        } else {
            self.awaited.remove(index.get());
        }
    }

    /// Ends the absence of all sources at the end of the run.
    pub(in crate::supervisor) fn end_absences(&mut self, at: Instant) {
        self.sources.iter_mut().for_each(|seat| seat.end_absence(at));
    }

    /// Stops all waiting of events for sources that are down; returns true if any event waited for
    /// one.
    pub(in crate::supervisor) fn stop_waiting(&mut self) -> bool {
        !core::mem::take(&mut self.awaited).is_empty()
    }

    /// Notes that sources know all decisions up to event `decided`.
    pub(in crate::supervisor) fn note_told(&mut self, to: &SourceSet, decided: u64) {
        Self::positions(to).for_each(|index| self.sources[index].told = decided);
    }

    /// Sends a new roster version to all peers, after all decisions under the old version
    /// (docs/reference/protocol.md RUN-2). `used` contains the versions of outstanding events.
    /// While `gathering`, before the run begins, the roster contains only the sources and builders
    /// that are connected.
    pub(in crate::supervisor) fn publish(
        &mut self,
        gathering: bool,
        used: &BTreeSet<u32>,
        outbox: &mut Outbox,
        now: Instant,
    ) {
        self.version += 1;
        if gathering {
            self.up = self.connected_sources();
        }
        self.remember_audience(used);
        self.address(outbox);
        outbox.journal(What::Roster(change_of(self)), now);
        outbox.send(Recipients::Everyone, Message::Roster(message_of(self, gathering)));
    }

    /// Keeps the audiences only of the versions in `used` and of the present version.
    pub(super) fn remember_audience(&mut self, used: &BTreeSet<u32>) {
        self.audiences.retain(|version, _| used.contains(version));
        self.audiences.insert(self.version, audience_of(self));
    }
}

/// Returns the journal entry for the present roster version.
fn change_of(roster: &Roster) -> RosterChange {
    let positions = |set: &SourceSet| set.iter().map(|index| index as u32).collect();
    RosterChange {
        version: roster.version,
        up: positions(&roster.up),
        awaited: positions(&roster.awaited),
        quiet: positions(roster.readouts.quiet()),
        excluded: positions(roster.owing.excluded()),
        released: positions(roster.owing.released()),
    }
}

/// Returns the message about the present roster version. While `gathering`, it has only the
/// builders that are connected.
fn message_of(roster: &Roster, gathering: bool) -> crate::wire::control::Roster {
    let is_in = |seat: &&BuilderSeat| if gathering { seat.connection.is_some() } else { seat.is_alive() };
    let address = |seat: &BuilderSeat| BuilderAddress {
        id: seat.id.number().into(),
        listen: seat.listen.clone(),
        incarnation: seat.incarnation,
    };
    crate::wire::control::Roster {
        version: roster.version,
        sources: roster.sources.iter().map(|seat| seat.id.number().into()).collect(),
        up: roster.numbers(&roster.up),
        builders: roster.builders.iter().filter(is_in).map(address).collect(),
        max_fragment: roster.sources.iter().map(|seat| seat.max_fragment).collect(),
        incarnations: roster.sources.iter().map(|seat| seat.incarnation).collect(),
        awaited: roster.numbers(&roster.awaited),
        quiet: roster.numbers(roster.readouts.quiet()),
        excluded: roster.numbers(roster.owing.excluded()),
        expendable: roster.numbers(&roster.owing.expendable.without(&roster.owing.sporadic)),
        released: roster.numbers(roster.owing.released()),
        sporadic: roster.numbers(&roster.owing.sporadic),
        sporadic_wait_ns: roster.owing.sporadic_wait.as_nanos() as u64,
    }
}

/// Returns the sources that the events of the present roster version concern.
fn audience_of(roster: &Roster) -> Audience {
    let contributing = roster.contributing();
    let expected = contributing.without(roster.readouts.quiet()).union(&roster.awaited);
    let quiet = contributing.without(&expected);
    Audience { expected, quiet, excluded: roster.owing.excluded().clone() }
}

/// Tells a source the verdict on all events that were decided while it was away.
fn tell_past(seat: &mut SourceSeat, verdict: Verdict, outbox: &mut Outbox) {
    let decided = outbox.decided();
    while seat.told < decided {
        let count = (decided - seat.told).min(MAX_BATCH);
        let mut decisions = Decisions { first: seat.told + 1, runs: Vec::new() };
        decisions.extend(count as u32, verdict);
        outbox.send(Recipients::Source(seat.id), Message::Decisions(decisions));
        seat.told += count;
    }
}
