//! The part of [`PeerMembership`] for sources and builders that are lost, and for readouts that
//! fall silent, leave and come back.

use super::PeerMembership;
use crate::{
    id::Peer,
    index::SourceIndex,
    supervisor::{SourceLoss, roster::Seat},
    time::Instant,
    wire::control::{ReadoutState, ReadoutStatus},
};

impl PeerMembership<'_> {
    /// Notes that a peer has lost its connection, and logs it once.
    pub(in crate::supervisor) fn lose(&mut self, peer: Peer, seat: Seat, cause: &str, now: Instant) {
        let is_told = match seat {
            Seat::Source(index) => self.lower(index, cause, now),
            // The builder keeps its events until its lease no longer permits it to write them
            // (docs/reference/protocol.md RUN-22).
            Seat::Builder(index) => {
                self.offer_slots(index, now);
                false
            }
        };
        if !is_told {
            let named = self.plan.named(peer);
            tracing::warn!(%peer, cause, "the connection to {named} is lost: {cause}; it keeps its data and registers again by itself while it is running, else see its log and start it again");
        }
    }

    /// Marks a source as down: events do not wait for its fragments from the next roster version on
    /// (docs/reference/protocol.md RUN-14). Returns true if the log says so.
    pub(in crate::supervisor) fn lower(&mut self, index: SourceIndex, cause: &str, now: Instant) -> bool {
        if !self.roster.is_up(index) {
            return false;
        }
        self.roster.lower(index, self.outbox);
        if !self.phase.is_under_way() {
            // A run begins without a source that owes nothing, and its events do not wait for it.
            self.due.roster |= self.roster.version() > 0 && !self.roster.owing().owes(index);
            return false;
        }
        let waits = self.is_excused(now) || self.plan.on_source_loss == SourceLoss::Wait;
        let is_awaited = waits && !self.phase.is_draining() && self.roster.owing().owes(index);
        self.roster.note_absence(index, is_awaited, now);
        let seat = self.roster.source(index);
        let (source, named) = (seat.id, self.plan.named(Peer::Source(seat.id)));
        let then = if is_awaited { "the run waits for it" } else { "events are built without it" };
        tracing::warn!(%source, cause, "{named} is down, and {then}: {cause}; it registers again by itself while it is running, else see its log and start it again");
        if self.roster.contributing().is_empty() {
            let limit = self.plan.absence_limit(seat.connection.is_some());
            self.pulse.lose_sources(now, limit);
        }
        self.due.roster = true;
        true
    }

    /// Forgets what is known of a source's readout, when the source registers: it says again if its
    /// readout is quiet. A supervisor that continues a run may know that from the journal.
    pub(in crate::supervisor) fn forget_readout(&mut self, index: SourceIndex) {
        let was_quiet = self.roster.set_readout(index, ReadoutStatus::default(), false);
        if was_quiet && self.roster.is_up(index) {
            self.roster.set_awaited(index, false);
        }
    }

    /// Stores what a source says about its readout. From the next roster version on, events do not
    /// expect a source whose readout is silent or gone, unless the run waits for every source.
    /// Before the run begins, a readout may come and go.
    pub(in crate::supervisor) fn handle_readout(&mut self, index: SourceIndex, status: ReadoutStatus) {
        // A sporadic source has nothing to deliver for most events.
        let counts = self.phase.is_under_way() && !self.roster.owing().is_sporadic(index);
        let changes = self.roster.set_readout(index, status, counts);
        if !changes {
            return;
        }
        let source = self.roster.source(index).id;
        let named = self.plan.named(Peer::Source(source));
        let is_quiet = self.roster.readouts().is_quiet(index);
        let waits = self.plan.on_source_loss == SourceLoss::Wait
            && !self.phase.is_draining()
            && self.roster.owing().owes(index);
        let then = if waits { "the run waits for it" } else { "events are built without it" };
        match (is_quiet, status.state) {
            (false, _) => {
                tracing::info!(%source, "the readout of {named} delivers fragments again, and events expect them again: nothing needs to be done")
            }
            (true, ReadoutState::Gone) => {
                tracing::warn!(%source, "{named} has no readout, because its front ends have closed their connections, and {then}: start its readout program again");
            }
            (true, _) => {
                tracing::warn!(%source, "{named} has no readout, because nothing arrives for events that wait, and {then}: see whether its readout program still sends, and start it again if not");
            }
        }
        self.roster.set_awaited(index, is_quiet && waits);
        self.due.roster = true;
    }
}
