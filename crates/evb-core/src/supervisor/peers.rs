//! Inputs from peers: they register, fall silent, report and leave.

use super::{
    ChangeError, Output, Recipients, SupervisorCore, admission::Admission, roster::Seat, seats::Leaving,
};
use crate::{
    id::{BuilderId, Peer},
    index::{BuilderIndex, SourceIndex},
    time::Instant,
    wire::control::{Hello, Message, Refusal, Report, RunEnd, Welcome},
};

impl SupervisorCore {
    /// Registers a peer that wants to take part. On success the driver connects it before it polls
    /// again; an older connection of the peer is closed without further notice.
    ///
    /// # Errors
    /// The refusal to be sent, with a reason for people.
    pub fn register(&mut self, hello: &Hello, now: Instant) -> Result<Welcome, Refusal> {
        let (plan, roster, phase, started) = (&self.plan, &self.roster, self.phase, self.books.is_started());
        let (peer, seat) = Admission { plan, roster, phase, started }.check(hello, now)?;
        let welcome = self.membership().enter(peer, seat, hello, now);
        self.check_recovered(now);
        Ok(welcome)
    }

    /// Notes that a source's lanes to all builders of the roster are connected
    /// (docs/reference/protocol.md RUN-4).
    pub(super) fn handle_ready(&mut self, index: SourceIndex, now: Instant) {
        self.roster.set_ready(index);
        if self.phase.is_gathering() {
            self.start_if_ready(now);
        } else {
            self.membership().raise(index, now);
        }
        self.membership().check_joining(now);
        self.check_recovered(now);
    }

    /// Notes that the peer's connection is gone; the cause is for the log.
    pub fn handle_disconnect(&mut self, peer: Peer, cause: &str, now: Instant) {
        let Some(seat) = self.roster.seat(peer).filter(|seat| self.roster.disconnect(*seat, cause)) else {
            return;
        };
        match seat {
            Seat::Source(index) => self.membership().lower(index, cause, now),
            // The builder keeps its events until it can no longer write (docs/reference/protocol.md
            // RUN-22).
            Seat::Builder(index) => self.membership().offer_slots(index, now),
        }
        tracing::warn!(%peer, cause, "lost the connection to a peer");
        self.close_if_all_reported(now);
    }

    /// Ends the connection of a peer that breaks the protocol.
    pub(super) fn expel(&mut self, peer: Peer, reason: &str, now: Instant) {
        self.problem(format!("{peer} was dropped: {reason}"), now);
        if let Some(index) = self.roster.seat(peer).and_then(Seat::builder) {
            self.roster.bar(index);
        }
        self.outbox.push(Output::Drop { peer, reason: reason.to_owned() });
        self.handle_disconnect(peer, reason, now);
    }

    /// Sends heartbeats and checks for silent peers (docs/reference/protocol.md CTRL-5).
    pub(super) fn beat(&mut self, now: Instant) {
        // If this heartbeat is late, messages of the peers are still unread, and their silence is
        // our fault.
        if self.pulse.beat(now) > self.plan.down_after / 2 {
            self.roster.hear_everybody(now);
        }
        // Before the run begins, peers wait in silence for each other.
        let watch = !self.phase.is_gathering() && !self.phase.is_recovering();
        for index in self.roster.sources().positions() {
            let seat = self.roster.source(index);
            let Some(connection) = seat.connection else { continue };
            self.outbox.send_ahead(Recipients::Source(seat.id), connection.heartbeat(now));
            if watch && now.since(connection.last_heard) >= self.plan.down_after {
                self.membership().lower(index, "no heartbeat", now);
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

    fn check_somebody_is_left(&mut self, now: Instant) {
        if self.outbox.is_stalled() {
            return;
        }
        if self.phase.is_running() && self.pulse.lacks_sources(now) {
            self.failure("no source is left".to_owned(), now);
            self.stop("no source is left", now);
        }
        if self.phase.is_under_way() && self.pulse.lacks_builders(now) {
            self.pulse.find_builder();
            self.failure("no builder is left".to_owned(), now);
            self.dispatch().lose_unassigned("no builder was left to build them", now);
            self.stop("no builder is left", now);
        }
    }

    /// Requirements: docs/reference/protocol.md RUN-17.
    pub(super) fn handle_report(&mut self, peer: Peer, seat: Seat, report: Report, now: Instant) {
        let is_final = report.live.is_none();
        let finishes = |index: &BuilderIndex| self.roster.builder(*index).leaving == Leaving::Finishing;
        let leaving = seat.builder().filter(finishes);
        if is_final && !self.phase.is_reporting() && leaving.is_none() {
            return self.expel(peer, "it sent its final report before it was asked to", now);
        }
        if let Err(reason) = self.roster.keep_report(seat, report, now) {
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
        if self.phase.is_reporting() && self.roster.has_reported(self.plan.two_leases(), now) {
            self.close_ledger(now);
        }
    }

    /// Tells one peer that the run is over for it, so that it closes its connection.
    pub(super) fn let_go(&mut self, seat: Seat) {
        let verdict = "the peer left before the run began".to_owned();
        let to = self.roster.recipient(seat);
        self.outbox.send(to, Message::RunEnd(RunEnd { exit_code: 0, verdict }));
    }

    /// Lets one more builder register, even while the run goes on.
    ///
    /// # Errors
    /// [`ChangeError`]: it takes part already, there are too many, or the run is over.
    pub fn add_builder(&mut self, id: BuilderId, now: Instant) -> Result<(), ChangeError> {
        self.membership().add_builder(id, now)
    }

    /// Gives the builder no more events. When it has none left, it reports and leaves.
    ///
    /// # Errors
    /// [`ChangeError`]: it takes no part, it is the last one, or the run is over.
    pub fn remove_builder(&mut self, id: BuilderId, now: Instant) -> Result<(), ChangeError> {
        self.membership().remove_builder(id, now)
    }
}
