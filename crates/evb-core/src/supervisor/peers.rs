//! Inputs from peers: they register, become ready, report and disconnect, or send nothing.

use super::{
    ChangeError, NotReady, Output, Recipients, SupervisorCore,
    admission::PeerAdmission,
    beginning::Beginning,
    culprits::tell_drain,
    least_numbers,
    output::is_paused,
    peer_names::reason_of,
    roster::{Seat, has_reported, keep_report, needs},
    seats::Leaving,
};
use crate::{
    id::{BuilderId, Peer},
    index::{BuilderIndex, SourceIndex},
    ledger::Annotation,
    quantities::{SAME_RELEASE, split_remedy, time},
    time::Instant,
    wire::control::{Begun, Heartbeat, Hello, Message, ReadoutStatus, Refusal, Report, Welcome},
};

/// End of a run without sources.
const NO_SOURCE: &str =
    "no source is up any more; check the hosts and the network of the sources, then their logs";

/// End of a run without builders.
const NO_BUILDER: &str =
    "no builder is up any more; check the hosts and the network of the builders, then their logs";

/// Cause of the loss of events that no builder had.
const NOBODY_BUILT: &str =
    "no builder was left to build them; check the hosts and the network of the builders, then their logs";

/// Returns the problem that a peer broke the protocol, with the reason's remedy or the usual one.
fn expulsion(named: &str, reason: &str) -> String {
    let what = "broke evb's protocol, so the supervisor closed its connection, and the run goes on";
    let (reason, remedy) = split_remedy(reason);
    format!("{named} {what}: {reason}; {}", remedy.unwrap_or(SAME_RELEASE))
}

impl SupervisorCore {
    /// Registers a peer that wants to take part in the run. If the result is `Ok`, the driver must
    /// connect the peer before it polls again; it closes an older connection of the peer without
    /// further notice.
    ///
    /// # Errors
    /// Returns the refusal to send to the peer, with a reason for people.
    pub fn register(&mut self, hello: &Hello, now: Instant) -> Result<Welcome, Refusal> {
        let (plan, roster, phase, started) = (&self.plan, &self.roster, self.phase, self.books.is_started());
        let (peer, seat) = PeerAdmission { plan, roster, phase, started }.check(hello, now)?;
        if !hello.unable.is_empty() {
            return Err(self.membership().refuse(peer, seat, &hello.unable));
        }
        let welcome = self.membership().enter(peer, seat, hello, now);
        self.check_recovered(now);
        Ok(welcome)
    }

    /// Notes that a source's lanes to all builders of the roster are connected
    /// (docs/reference/protocol.md RUN-4).
    pub(super) fn handle_ready(&mut self, index: SourceIndex, now: Instant) {
        self.roster.set_ready(index);
        if self.phase.is_gathering() {
            self.begin_if_ready(now);
        } else {
            self.membership().raise(index, now);
        }
        self.membership().check_joining(now);
        self.check_recovered(now);
    }

    /// Notes that the peer's connection is gone; `cause` is for the log.
    pub fn handle_disconnect(&mut self, peer: Peer, cause: &str, now: Instant) {
        let Some(seat) = self.roster.seat(peer).filter(|seat| self.roster.disconnect(*seat, cause)) else {
            return;
        };
        self.membership().lose(peer, seat, cause, now);
        self.begin_if_ready(now);
        self.close_if_all_reported(now);
    }

    /// Closes the connection of a peer that breaks the protocol.
    pub(super) fn expel(&mut self, peer: Peer, reason: &str, now: Instant) {
        self.books.problem(expulsion(&self.plan.named(peer), reason), &mut self.outbox, now);
        if let Some(index) = self.roster.seat(peer).and_then(Seat::builder) {
            self.roster.bar(index);
        }
        self.outbox.push(Output::Drop { peer, reason: reason.to_owned() });
        self.handle_disconnect(peer, reason, now);
    }

    /// Sends heartbeats and checks for silent peers (docs/reference/protocol.md CTRL-5).
    pub(super) fn beat(&mut self, now: Instant) {
        tell_drain(&mut self.phase, &self.roster, &self.plan, self.assigner.outstanding(), now);
        // What peers sent while the supervisor stood still is unread, so all peers count as heard.
        if self.pulse.beat(now) > self.plan.down_after / 2 {
            self.roster.hear_everybody(now);
        }
        self.membership().end_excuses(now);
        least_numbers::count(self, now);
        // Before the run begins, peers are not checked for silence.
        let watch = !self.phase.is_gathering() && !self.phase.is_recovering();
        let (periods, down_after) = (self.plan.periods_of_source(), self.plan.source_down_after());
        for index in self.roster.sources().positions() {
            let seat = self.roster.source(index);
            let Some(connection) = seat.connection else { continue };
            if self.pulse.is_for(index.get(), periods) {
                let heartbeat = Heartbeat { is_paused: is_paused(self), ..connection.heartbeat(now) };
                self.outbox.send_ahead(Recipients::Source(seat.id), Message::Heartbeat(heartbeat));
            }
            if watch && now.since(connection.last_heard) >= down_after {
                let silence = format!("it sent nothing for {}", time(now.since(connection.last_heard)));
                self.membership().lower(index, &silence, now);
            }
        }
        for index in self.roster.builders().positions() {
            if self.membership().beat_builder(index, watch, now) {
                self.close_if_all_reported(now);
            }
        }
        self.membership().check_joining(now);
        self.check_somebody_is_left(now);
        self.close_if_all_reported(now);
    }

    /// Ends the run if all sources or builders have been away too long, unless the disk is stalled.
    fn check_somebody_is_left(&mut self, now: Instant) {
        if self.outbox.is_stalled() {
            return;
        }
        if self.phase.is_running() && self.pulse.lacks_sources(now) {
            self.failure(NO_SOURCE.to_owned(), now);
            self.stop(NO_SOURCE, now);
        }
        if self.phase.is_under_way() && self.pulse.lacks_builders(now) {
            self.pulse.find_builder();
            self.failure(NO_BUILDER.to_owned(), now);
            self.dispatch().lose_unassigned(NOBODY_BUILT, now);
            self.stop(NO_BUILDER, now);
        }
    }

    /// Keeps a report of a peer; the final one comes only after it was asked for.
    /// Requirements: docs/reference/protocol.md RUN-17.
    pub(super) fn handle_report(&mut self, peer: Peer, seat: Seat, report: Report, now: Instant) {
        let is_final = report.live.is_none();
        let finishes = |index: &BuilderIndex| self.roster.builder(*index).leaving == Leaving::Finishing;
        let leaving = seat.builder().filter(finishes);
        if is_final && !self.phase.is_reporting() && leaving.is_none() {
            return self.expel(peer, "it sent its final report before it was asked to", now);
        }
        if let Err(reason) = keep_report(&mut self.roster, seat, report, now) {
            return self.expel(peer, reason, now);
        }
        if let Some(index) = leaving.filter(|_| is_final && self.phase.is_under_way()) {
            self.membership().dismiss(index, now);
        }
        if is_final {
            self.close_if_all_reported(now);
        }
    }

    pub(super) fn close_if_all_reported(&mut self, now: Instant) {
        if self.phase.is_reporting() && has_reported(&self.roster, self.plan.two_leases(), now) {
            self.close_ledger(now);
        }
    }

    /// Begins a run that waits for an operator to begin it
    /// ([`RunPlan::hold`](super::RunPlan::hold)). [`Output::Begun`] has the result, when all peers
    /// have answered.
    ///
    /// # Errors
    /// Returns [`NotReady`] if a peer is missing or not connected, or if the run has begun already.
    pub fn begin(&mut self, annotation: &Annotation, now: Instant) -> Result<(), NotReady> {
        Beginning { core: self }.begin(annotation, now)
    }

    /// Stores what a source says about its readout, for which the beginning of the run may wait.
    pub(super) fn handle_readout(&mut self, index: SourceIndex, told: ReadoutStatus, now: Instant) {
        self.membership().handle_readout(index, told);
        least_numbers::count(self, now);
        self.begin_if_ready(now);
    }

    /// Continues the beginning of the run after a change of its peers.
    pub(super) fn begin_if_ready(&mut self, now: Instant) {
        let advanced = Beginning { core: self }.advance(now);
        Beginning { core: self }.settle(advanced, now);
    }

    /// Handles a peer's answer to the supervisor's call to begin.
    pub(super) fn handle_begun(&mut self, peer: Peer, seat: Seat, begun: &Begun, now: Instant) {
        let advanced = Beginning { core: self }.handle_begun(peer, seat, begun, now);
        Beginning { core: self }.settle(advanced, now);
    }

    /// Handles a peer's message that it ends its part in the run.
    pub(super) fn handle_leaving(&mut self, peer: Peer, seat: Seat, reason: &str, now: Instant) {
        let reason = reason_of(reason);
        self.outbox.push(Output::Drop { peer, reason: reason.clone() });
        self.handle_disconnect(peer, &reason, now);
        self.roster.note_parting(seat, reason.clone());
        if self.phase.is_beginning() && needs(&self.roster, peer) {
            Beginning { core: self }.settle(Err(NotReady::Refused { peer, reason }), now);
        }
    }

    /// Permits one more builder to register. That is possible during the run, too.
    ///
    /// # Errors
    /// Returns [`ChangeError`] if the builder is part of the run already, the run has too many
    /// builders, or the run takes no more triggers.
    pub fn add_builder(&mut self, id: BuilderId, now: Instant) -> Result<(), ChangeError> {
        self.membership().add_builder(id, now)
    }

    /// Gives the builder no new events. When the builder's last event is settled, the builder
    /// reports and leaves.
    ///
    /// # Errors
    /// Returns [`ChangeError`] if the builder is not part of the run, it is the last one, or the
    /// run takes no more triggers.
    pub fn remove_builder(&mut self, id: BuilderId, now: Instant) -> Result<(), ChangeError> {
        self.membership().remove_builder(id, now)
    }
}
