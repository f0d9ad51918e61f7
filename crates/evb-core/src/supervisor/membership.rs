//! Who takes part: peers that register, fall silent, come back and leave; and their reports.

use core::time::Duration;

use super::{
    ChangeError, Output, Recipients, SupervisorCore,
    admission::Admission,
    index::{BuilderIndex, SourceIndex},
    journal::What,
    plan::SourceLoss,
    roster::{Roster, Seat},
    seats::{BuilderSeat, Connection, Leaving},
    words::short,
};
use crate::{
    id::{BuilderId, Peer},
    time::Instant,
    wire::{
        control::{
            Finish, Heartbeat, Hello, MAX_BUILDERS, Refusal, Report, RunEnd, Stop, Welcome, control::Message,
            report,
        },
        journal::{Membership, membership::Change},
    },
};

/// After so long, a builder gets events though not every source has said that it is connected to it.
const CONNECTING: Duration = Duration::from_secs(1);

impl SupervisorCore {
    /// A peer wants to take part. On success the driver connects it before it polls on; a connection that the peer had
    /// before is closed without further notice.
    ///
    /// # Errors
    /// The refusal to be sent, with a reason for people.
    pub fn register(&mut self, hello: &Hello, now: Instant) -> Result<Welcome, Refusal> {
        let (plan, roster, phase, started) = (&self.plan, &self.roster, self.phase, self.books.is_started());
        let (peer, seat) = Admission { plan, roster, phase, started }.check(hello, now)?;
        let shared_clock = self.plan.shares_clock(&hello.boot_id);
        let connection = Connection { last_heard: now, echo: None, shared_clock };
        let incarnation = match seat {
            Seat::Source(index) => {
                // Connected once more: what the old connection was told is not known, so the new one begins below.
                if !(self.roster.source(index).goes_on(hello) && self.phase.is_recovering()) {
                    self.lower(index, "it registered anew", now);
                }
                self.roster.connect_source(index, hello, connection, self.outbox.decided());
                self.roster.source(index).incarnation
            }
            Seat::Builder(index) => {
                self.seat_builder(index, hello, connection, now);
                self.roster.builder(index).incarnation
            }
        };
        tracing::info!(%peer, incarnation, software = %short(&hello.software), "registered");
        self.outbox.journal(What::Registered(self.roster.registered(seat)), now);
        if self.roster.version() > 0 || self.roster.is_complete() {
            self.publish_roster(now);
        }
        self.tell_newcomer(seat, now);
        Ok(self.plan.welcome(incarnation, self.outbox.decided(), shared_clock))
    }

    fn seat_builder(&mut self, index: BuilderIndex, hello: &Hello, connection: Connection, now: Instant) {
        if self.roster.connect_builder(index, hello, connection) {
            return self.offer_slots(index, now);
        }
        self.books.begin_incarnation(index);
        if self.phase.is_gathering() {
            // Lanes to it are to be connected first, by everybody.
            return self.roster.forget_ready();
        }
        // It gets events when lanes to it are connected.
        self.roster.begin_joining(index, now);
        self.pulse.find_builder();
        self.prolong_drain(now);
    }

    /// What a peer is told behind the roster, when it comes while the run goes on (docs/protocol.md RUN-21, RUN-22).
    fn tell_newcomer(&mut self, seat: Seat, now: Instant) {
        if !self.phase.is_under_way() && !self.phase.is_reporting() {
            return;
        }
        match seat {
            Seat::Source(index) => self.send_holdings(&Roster::only(index)),
            Seat::Builder(index) => self.assigner.send_again(index, 0, &self.roster, &mut self.outbox),
        }
        let to = self.roster.recipient(seat);
        if self.phase.is_draining() || self.phase.is_reporting() {
            let stop = Stop { cause: "the run takes no more triggers".to_owned() };
            self.outbox.send(to, Message::Stop(stop));
        }
        if self.phase.is_reporting() {
            self.outbox.send(to, Message::Finish(Finish {}));
        }
        self.check_recovered(now);
    }

    /// A source says that its lanes to all builders of the roster are connected (docs/protocol.md RUN-4).
    pub(super) fn handle_ready(&mut self, index: SourceIndex, now: Instant) {
        self.roster.set_ready(index);
        if self.phase.is_gathering() {
            self.start_if_ready(now);
        } else {
            self.raise(index, now);
        }
        self.check_joining(now);
        self.check_recovered(now);
    }

    /// The peer's connection is gone; the cause is for the log.
    pub fn handle_disconnect(&mut self, peer: Peer, cause: &str, now: Instant) {
        let Some(seat) = self.roster.seat(peer).filter(|seat| self.roster.disconnect(*seat, cause)) else {
            return;
        };
        match seat {
            Seat::Source(index) => self.lower(index, cause, now),
            // Its events stay its own until it can no longer write (docs/protocol.md RUN-22).
            Seat::Builder(index) => self.offer_slots(index, now),
        }
        tracing::warn!(%peer, cause, "left");
        self.close_if_all_reported(now);
    }

    /// Notes that a peer lives; `None`: it has no connection here any more.
    pub(super) fn heard(&mut self, peer: Peer, now: Instant) -> Option<Seat> {
        let seat = self.roster.seat(peer)?;
        let was_silent = self.roster.hear(seat, now)?;
        match seat {
            Seat::Source(index) if was_silent => self.raise(index, now),
            Seat::Builder(index) if was_silent => {
                tracing::info!(%peer, "speaks again");
                self.offer_slots(index, now);
            }
            _ => {}
        }
        Some(seat)
    }

    pub(super) fn handle_heartbeat(&mut self, seat: Seat, heartbeat: &Heartbeat, now: Instant) {
        self.roster.note_heartbeat(seat, heartbeat.sent_ns, now);
        if let (Seat::Builder(index), Some(load)) = (seat, heartbeat.load) {
            self.roster.note_load(index, load);
            self.books.set_culprits(self.roster.culprits(self.plan.slots));
        }
    }

    /// Ends a connection whose peer does not keep to the protocol.
    pub(super) fn expel(&mut self, peer: Peer, reason: &str, now: Instant) {
        self.problem(format!("{peer} was dropped: {reason}"), now);
        if let Some(Seat::Builder(index)) = self.roster.seat(peer) {
            self.roster.bar(index);
        }
        self.outbox.push(Output::Drop { peer, reason: reason.to_owned() });
        self.handle_disconnect(peer, reason, now);
    }

    /// Sends heartbeats and looks who is silent (docs/protocol.md CTRL-5).
    pub(super) fn beat(&mut self, now: Instant) {
        // We were late ourselves: then what the peers said meanwhile is not read yet, and the silence is ours.
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
                self.lower(index, "no heartbeat", now);
            }
        }
        for index in self.roster.builders().positions() {
            self.beat_builder(index, watch, now);
        }
        self.check_joining(now);
        self.check_somebody_is_left(now);
        self.close_if_all_reported(now);
    }

    /// Requirements: docs/protocol.md RUN-15, RUN-22.
    fn beat_builder(&mut self, index: BuilderIndex, watch: bool, now: Instant) {
        let seat = self.roster.builder(index);
        if !seat.is_alive() {
            return;
        }
        let (id, silence) = (seat.id, now.since(seat.heard_at()));
        if watch && silence >= self.plan.two_leases().max(self.plan.down_after) {
            let cause = match seat.connection {
                Some(_) => format!("it was silent for {:.1} s", silence.as_secs_f64()),
                None => seat.parting.clone(),
            };
            return self.end_incarnation(index, &cause, now);
        }
        let Some(connection) = seat.connection else { return };
        let falls_silent = watch && silence >= self.plan.down_after && !seat.suspended;
        self.outbox.send_ahead(Recipients::Builder(id), connection.heartbeat(now));
        if falls_silent {
            tracing::warn!(builder = %id, "no heartbeat: it gets no more events");
            self.roster.suspend(index);
            self.offer_slots(index, now);
        }
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
            self.lose_unassigned("no builder was left to build them", now);
            self.stop("no builder is left", now);
        }
    }

    /// Expects a source from the next roster version on, if it can be.
    fn raise(&mut self, index: SourceIndex, now: Instant) {
        if !self.phase.is_triggering() || !self.roster.can_rise(index) {
            return;
        }
        let awaited = self.roster.raise(index, self.books.assigned(), &mut self.outbox, now);
        tracing::info!(source = %self.roster.source(index).id, "up");
        self.pulse.find_source();
        self.publish_roster(now);
        if awaited {
            self.send_holdings(&Roster::only(index));
        }
    }

    /// Expects nothing from a source from the next roster version on (docs/protocol.md RUN-14).
    pub(super) fn lower(&mut self, index: SourceIndex, cause: &str, now: Instant) {
        if !self.roster.is_up(index) {
            return;
        }
        self.roster.lower(index, &mut self.outbox);
        if !self.phase.is_under_way() {
            return;
        }
        let is_awaited = self.plan.on_source_loss == SourceLoss::Wait && !self.phase.is_draining();
        self.roster.note_absence(index, (!is_awaited).then(|| self.books.assigned()), now);
        let seat = self.roster.source(index);
        tracing::warn!(source = %seat.id, cause, "down");
        if self.roster.up().is_empty() {
            let limit = self.plan.absence_limit(seat.connection.is_some());
            self.pulse.lose_sources(now, limit);
        }
        self.publish_roster(now);
    }

    /// A builder's life in the run is over: what it had is given to others (docs/protocol.md RUN-22).
    pub(super) fn end_incarnation(&mut self, index: BuilderIndex, cause: &str, now: Instant) {
        self.outbox.close_batches();
        let silent = self.roster.end_incarnation(index);
        let seat = self.roster.builder(index);
        let (id, is_leaving) = (seat.id, seat.leaving != Leaving::No);
        // Who is gone before its two leases are over, with nothing in hand, is noticed when the others have reported already.
        let is_missed = self.phase.is_reporting() && seat.report.is_none();
        self.assigner.set_slots(index, 0, now);
        if silent {
            self.outbox.push(Output::Drop { peer: Peer::Builder(id), reason: cause.to_owned() });
        }
        let moved = self.assigner.unassign(index);
        self.outbox.journal(What::Over(id.number().into()), now);
        self.outbox.raise_epoch(now);
        self.books.take_away(index, moved);
        tracing::warn!(builder = %id, cause, moved, "over");
        if is_leaving {
            self.leave(index, now);
        }
        if is_missed || self.phase.is_under_way() {
            let remark =
                format!("builder {id} left the run: {cause}; {moved} events of its were given to others");
            self.books.remark(remark, &mut self.outbox, now);
        }
        if self.phase.is_under_way() {
            self.publish_roster(now);
            self.send_holdings(&self.roster.connected_sources());
            self.note_absence_of_builders(silent, now);
        }
        self.close_if_all_reported(now);
    }

    /// No builder: the run waits for one, longer where it may be the network alone that is gone.
    fn note_absence_of_builders(&mut self, silent: bool, now: Instant) {
        if self.roster.lacks_builders() {
            let until = now + self.plan.absence_limit(silent);
            self.pulse.lose_builders(until);
            self.phase.drain_until(until);
        }
    }

    /// Sends a new roster version to everybody, behind all decisions of the old one.
    pub(super) fn publish_roster(&mut self, now: Instant) {
        self.roster.publish(self.phase.is_gathering(), &self.assigner.versions(), &mut self.outbox, now);
    }

    /// Gives builders their slots when all sources have said that they are connected, or have had the time.
    fn check_joining(&mut self, now: Instant) {
        let connected = self.roster.reaches_all();
        for index in self.roster.builders().positions() {
            let Some(since) = self.roster.builder(index).joining else { continue };
            if connected || self.is_over(since + CONNECTING, now) {
                self.roster.end_joining(index);
                self.offer_slots(index, now);
            }
        }
    }

    /// One builder more may register, in a run that goes on as well.
    ///
    /// # Errors
    /// [`ChangeError`]: it is one already, there are too many, or the run is over.
    pub fn add_builder(&mut self, id: BuilderId, now: Instant) -> Result<(), ChangeError> {
        if !self.phase.is_gathering() && !self.phase.is_triggering() {
            return Err(ChangeError::NotRunning);
        }
        let count = self.roster.builders().len();
        match self.roster.builder_index(id) {
            Some(index) => match self.roster.builder(index).leaving {
                Leaving::No => return Err(ChangeError::KnownBuilder(id)),
                Leaving::Asked | Leaving::Finishing => return Err(ChangeError::LeavingBuilder(id)),
                Leaving::Gone => self.roster.set_leaving(index, Leaving::No),
            },
            None if count >= MAX_BUILDERS => return Err(ChangeError::TooManyBuilders),
            None if !self.plan.fits(count + 1) => {
                return Err(ChangeError::TooManyOutstanding(self.plan.slots));
            }
            None => self.make_seat(id),
        }
        self.journal_membership(id, Change::Added, now);
        Ok(())
    }

    pub(super) fn make_seat(&mut self, id: BuilderId) {
        self.roster.add_builder(id);
        self.books.add_builder();
        self.assigner.add_builder();
        self.outbox.add_builder(id);
    }

    /// The builder gets no more events. When it has none left it reports and leaves.
    ///
    /// # Errors
    /// [`ChangeError`]: it is none, it is the last one, or the run is over.
    pub fn remove_builder(&mut self, id: BuilderId, now: Instant) -> Result<(), ChangeError> {
        let gathering = self.phase.is_gathering();
        if !gathering && !self.phase.is_triggering() {
            return Err(ChangeError::NotRunning);
        }
        let member = |seat: &BuilderSeat| seat.leaving == Leaving::No;
        let index = self.roster.builder_index(id).filter(|index| member(self.roster.builder(*index)));
        let index = index.ok_or(ChangeError::UnknownBuilder(id))?;
        let is_alive = self.roster.builder(index).is_alive();
        // While the run goes on, those that are dead do not stand in for it.
        let stays = |seat: &BuilderSeat| member(seat) && seat.id != id && (gathering || seat.is_alive());
        if (gathering || is_alive) && !self.roster.builders().iter().any(stays) {
            return Err(ChangeError::LastBuilder(id));
        }
        tracing::info!(builder = %id, "is to leave");
        self.roster.set_leaving(index, Leaving::Asked);
        self.journal_membership(id, Change::Leaving, now);
        self.offer_slots(index, now);
        if !is_alive {
            self.leave(index, now);
        }
        Ok(())
    }

    /// Asks those that are to leave for their report, once they have nothing left.
    pub(super) fn dismiss_builders(&mut self) {
        for index in self.roster.builders().positions() {
            let seat = self.roster.builder(index);
            if seat.leaving == Leaving::Asked
                && seat.connection.is_some()
                && self.books.outstanding(index) == 0
                && self.phase.is_under_way()
            {
                self.outbox.send(Recipients::Builder(seat.id), Message::Finish(Finish {}));
                self.roster.set_leaving(index, Leaving::Finishing);
            }
        }
    }

    /// Its report is here: it leaves, and lanes to it end.
    fn dismiss(&mut self, index: BuilderIndex, now: Instant) {
        let id = self.roster.builder(index).id;
        let end = RunEnd { exit_code: 0, verdict: "it has left the run".to_owned() };
        self.outbox.send(Recipients::Builder(id), Message::RunEnd(end));
        self.roster.end_incarnation(index);
        self.assigner.set_slots(index, 0, now);
        self.outbox.journal(What::Over(id.number().into()), now);
        self.leave(index, now);
        self.note_absence_of_builders(false, now);
        self.publish_roster(now);
        self.send_holdings(&self.roster.connected_sources());
    }

    fn leave(&mut self, index: BuilderIndex, now: Instant) {
        let id = self.roster.builder(index).id;
        self.roster.set_leaving(index, Leaving::Gone);
        tracing::info!(builder = %id, "has left");
        self.journal_membership(id, Change::Gone, now);
    }

    fn journal_membership(&mut self, id: BuilderId, change: Change, now: Instant) {
        let what = Membership { builder: id.number().into(), change: change.into() };
        self.outbox.journal(What::Membership(what), now);
    }

    /// Requirements: docs/protocol.md RUN-17.
    pub(super) fn handle_report(&mut self, peer: Peer, seat: Seat, report: Report, now: Instant) {
        let sources = self.roster.sources().len();
        let roster = &mut self.roster;
        let is_due = self.phase.is_reporting()
            || matches!(seat, Seat::Builder(index) if roster.builder(index).leaving == Leaving::Finishing);
        match (seat, report.report, report.live) {
            (Seat::Source(index), Some(report::Report::Source(own)), Some(live)) => {
                roster.note_source(index, own, live, now);
            }
            (Seat::Builder(_), Some(report::Report::Builder(own)), Some(_)) if own.lanes.len() > sources => {
                self.expel(peer, "it reports more lanes than there are sources", now);
            }
            (Seat::Builder(index), Some(report::Report::Builder(own)), Some(live)) => {
                roster.note_builder(index, own, live, now);
            }
            (_, _, Some(_)) => self.expel(peer, "its report is of another role", now),
            _ if !is_due => self.expel(peer, "it reported before it was asked to", now),
            (Seat::Source(index), Some(report::Report::Source(own)), None) => {
                roster.set_source_report(index, own);
                self.close_if_all_reported(now);
            }
            (Seat::Builder(index), Some(report::Report::Builder(own)), None) => {
                roster.set_builder_report(index, own);
                if roster.builder(index).leaving == Leaving::Finishing && self.phase.is_under_way() {
                    self.dismiss(index, now);
                }
                self.close_if_all_reported(now);
            }
            _ => self.expel(peer, "its final report is of another role", now),
        }
    }

    pub(super) fn close_if_all_reported(&mut self, now: Instant) {
        if self.phase.is_reporting() && self.roster.has_reported(self.plan.two_leases(), now) {
            self.close_ledger(now);
        }
    }

    /// Tells one peer that the run is over for it; it closes its connection then.
    pub(super) fn let_go(&mut self, seat: Seat) {
        let verdict = "it left before the run began".to_owned();
        let to = self.roster.recipient(seat);
        self.outbox.send(to, Message::RunEnd(RunEnd { exit_code: 0, verdict }));
    }
}
