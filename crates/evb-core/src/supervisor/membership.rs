//! [`PeerMembership`]: handles peers that register, fall silent, return and leave, and tells the
//! other peers.
// tidy: long because each change of a peer has its line for operators.

mod readout;
mod excuses;

use core::time::Duration;

use super::{
    ChangeError, Output, Recipients, RunPlan,
    assigner::Assigner,
    books::Books,
    journal::What,
    outbox::Outbox,
    peer_names::{names_in, reason_of, short, with_reasons},
    phase::Phase,
    pulse::Pulse,
    roster::{Roster, Seat, too_few_to_begin, unconnected},
    roster_updates::RosterUpdates,
    seats::{BuilderSeat, Connection, Leaving},
};
use crate::{
    alignment::{Episode, message_of},
    id::{BuilderId, Peer},
    index::{BuilderIndex, SourceIndex},
    quantities::counted,
    time::Instant,
    wire::{
        control::{
            Begin, Episodes, Finish, Heartbeat, Hello, MAX_BUILDERS, Message, Name, Reason, Refusal, RunEnd,
            Stop, Welcome,
        },
        journal::{Change, Membership as Entry},
    },
};

/// Time after which a builder that joins gets events even if not every source has confirmed its
/// connection to the builder.
const CONNECTING: Duration = Duration::from_secs(1);

/// Returns the message that tells the peers of a run about its beginning. A journal of evb 0.1 does
/// not tell when the run began. The names are those of the plan, also in a recovered run.
pub(super) fn begin_of(plan: &RunPlan, begun: Option<&Begin>) -> Begin {
    let name = |id: u16, name: &String| Name { id: id.into(), name: name.clone() };
    let builders = plan.builder_names.iter().take(MAX_BUILDERS);
    Begin {
        run: plan.run.number(),
        run_id: plan.run_id,
        sources: plan.source_names.iter().map(|(id, text)| name(id.number(), text)).collect(),
        builders: builders.map(|(id, text)| name(id.number(), text)).collect(),
        clocks: plan.clocks.clocks.iter().map(|(source, clock)| message_of(*source, clock)).collect(),
        // The id plus 1, or 0 for no lead.
        lead: plan.clocks.lead_source().map_or(0, |source| 1 + u32::from(source.number())),
        host_times: plan.clocks.host_times,
        ..begun.cloned().unwrap_or_default()
    }
}

/// The parts of the supervisor that change when a peer joins or leaves. Methods here may extend the
/// time limit of a drain; they do not change the phase in any other way.
#[derive(Debug)]
pub(super) struct PeerMembership<'a> {
    pub(super) plan: &'a RunPlan,
    pub(super) phase: &'a mut Phase,
    pub(super) pulse: &'a mut Pulse,
    pub(super) roster: &'a mut Roster,
    pub(super) assigner: &'a mut Assigner,
    pub(super) books: &'a mut Books,
    pub(super) outbox: &'a mut Outbox,
    pub(super) due: &'a mut RosterUpdates,
    /// Message that told peers about the beginning of the run; `None` before that.
    pub(super) begun: &'a Option<Begin>,
}

impl PeerMembership<'_> {
    /// Connects a peer that may take part in the run; returns the reply to the peer.
    pub(super) fn enter(&mut self, peer: Peer, seat: Seat, hello: &Hello, now: Instant) -> Welcome {
        let shared_clock = self.plan.shares_clock(&hello.boot_id);
        let connection = Connection { last_heard: now, echo: None, shared_clock };
        let heartbeat = match seat {
            Seat::Source(_) => self.plan.heartbeat_of_source(),
            Seat::Builder(_) => self.plan.heartbeat,
        };
        let incarnation = match seat {
            Seat::Source(index) => {
                // It is unknown which messages the old connection delivered, so the source first
                // counts as down. Events that the source may not know are then closed for it.
                if !(self.roster.source(index).goes_on(hello) && self.phase.is_recovering()) {
                    self.lower(index, "its process began a new connection", now);
                }
                self.roster.connect_source(index, hello, connection, self.outbox.decided());
                self.forget_readout(index);
                self.roster.source(index).incarnation
            }
            Seat::Builder(index) => {
                self.seat_builder(index, hello, connection, now);
                self.roster.builder(index).incarnation
            }
        };
        let (named, software) = (self.plan.named(peer), short(&hello.software));
        tracing::info!(%peer, incarnation, software, "{named} has registered with the supervisor, and runs {software}: nothing needs to be done");
        self.outbox.journal(What::Registered(self.roster.registered(seat)), now);
        if self.roster.version() > 0 || self.roster.is_complete() {
            self.due.roster = true;
        }
        self.due.newcomers.push(seat);
        let under_way = !self.phase.is_gathering();
        self.plan.welcome(heartbeat, incarnation, self.outbox.decided(), shared_clock, under_way)
    }

    /// Offers the free slots of a builder for assignment, or none if the builder may not get events
    /// now.
    pub(super) fn offer_slots(&mut self, index: BuilderIndex, now: Instant) {
        let seat = self.roster.builder(index);
        let offered = self.phase.is_settling() && seat.is_active() && seat.begun;
        let taken = self.books.outstanding(index);
        let free = if offered { u64::from(self.plan.slots).saturating_sub(taken) } else { 0 };
        self.assigner.set_slots(index, free as u32, now);
    }

    pub(super) fn offer_all_slots(&mut self, now: Instant) {
        self.roster.builders().positions().for_each(|index| self.offer_slots(index, now));
    }

    /// Gives a builder its seat. The same process on a new connection gets new slots at once; a new
    /// process first waits until the sources have connected lanes to it.
    fn seat_builder(&mut self, index: BuilderIndex, hello: &Hello, connection: Connection, now: Instant) {
        if self.roster.connect_builder(index, hello, connection) {
            return self.offer_slots(index, now);
        }
        self.books.begin_incarnation(index);
        if self.phase.is_gathering() {
            // The run begins only when all sources have connected lanes to this builder.
            return self.roster.forget_ready();
        }
        // The builder gets events when the sources have connected lanes to it.
        self.roster.begin_joining(index, now);
        self.pulse.find_builder();
        self.phase.drain_until(now + self.plan.drain_time());
    }

    /// Sends a new roster version to all peers if peers have come or gone, after all decisions
    /// under the previous version; then the messages that must follow it
    /// (docs/reference/protocol.md RUN-21, RUN-22).
    pub(super) fn publish(&mut self, now: Instant) {
        if self.due.is_empty() {
            return;
        }
        let RosterUpdates { roster, mut holdings, newcomers } = core::mem::take(self.due);
        if roster {
            self.roster.publish(self.phase.is_gathering(), &self.assigner.versions(), self.outbox, now);
        }
        if self.phase.is_beginning() {
            newcomers.iter().for_each(|seat| self.call_to_begin(*seat));
        }
        if !self.phase.is_under_way() && !self.phase.is_reporting() {
            return;
        }
        newcomers.iter().filter_map(|seat| seat.source()).for_each(|source| {
            holdings.insert(source);
        });
        if !holdings.is_empty() {
            self.assigner.send_holdings(&holdings, self.roster, self.outbox);
            self.roster.note_told(&holdings, self.outbox.decided());
        }
        newcomers.into_iter().for_each(|seat| self.tell_newcomer(seat));
    }

    /// Asks a peer that joins while the run begins or is under way to prepare for its first event.
    fn call_to_begin(&mut self, seat: Seat) {
        let to = self.roster.recipient(seat);
        let begin = begin_of(self.plan, self.begun.as_ref());
        // Only builders compare timestamps.
        let relations = begin.relations.filter(|_| seat.source().is_none());
        if let (Some(changes), None) = (self.books.findings().changes(), seat.source()) {
            self.outbox.send(to.clone(), changes);
        }
        self.outbox.send(to, Message::Begin(Begin { relations, ..begin }));
    }

    /// Sends a peer that joins during the run the state of the run.
    fn tell_newcomer(&mut self, seat: Seat) {
        self.call_to_begin(seat);
        if let Seat::Builder(index) = seat {
            self.assigner.send_again(index, 0, self.roster, self.outbox);
        }
        let to = self.roster.recipient(seat);
        let episodes = self.books.findings().episodes();
        if let (Seat::Builder(_), false) = (seat, episodes.is_empty()) {
            let episodes = episodes.iter().map(Episode::message).collect();
            self.outbox.send(to.clone(), Message::Episodes(Episodes { episodes }));
        }
        if self.phase.is_draining() || self.phase.is_reporting() {
            let stop = Stop { cause: "the run takes no more triggers".to_owned() };
            self.outbox.send(to.clone(), Message::Stop(stop));
        }
        if self.phase.is_reporting() {
            self.outbox.send(to, Message::Finish(Finish {}));
        }
    }

    /// Has all sources told the builders of all outstanding events, because the sources may have
    /// missed earlier messages.
    pub(super) fn tell_sources(&mut self) {
        self.due.holdings = self.roster.connected_sources();
    }

    pub(super) fn handle_heartbeat(&mut self, seat: Seat, heartbeat: &Heartbeat, now: Instant) {
        self.roster.note_heartbeat(seat, heartbeat.sent_ns, now);
        if let (Seat::Builder(index), Some(load)) = (seat, heartbeat.load) {
            self.roster.note_load(index, load);
            self.books.ask_for_culprits();
        }
    }

    /// Sends a builder a heartbeat, and checks whether the builder is silent. Returns true if the
    /// builder's incarnation has just ended.
    /// Requirements: docs/reference/protocol.md RUN-15, RUN-22.
    pub(super) fn beat_builder(&mut self, index: BuilderIndex, watch: bool, now: Instant) -> bool {
        let seat = self.roster.builder(index);
        if !seat.is_alive() {
            return false;
        }
        let (id, silence) = (seat.id, now.since(seat.heard_at()));
        if watch && silence >= self.plan.two_leases().max(self.plan.down_after) {
            let cause = match seat.connection {
                Some(_) => format!("it sent nothing for {:.1} s", silence.as_secs_f64()),
                None => seat.parting.clone(),
            };
            self.end_incarnation(index, &cause, now);
            return true;
        }
        let Some(connection) = seat.connection else { return false };
        let falls_silent = watch && silence >= self.plan.down_after && !seat.suspended;
        self.outbox.send_ahead(Recipients::Builder(id), Message::Heartbeat(connection.heartbeat(now)));
        if falls_silent {
            let named = self.plan.named(Peer::Builder(id));
            tracing::warn!(builder = %id, "{named} has not answered for {:.1} s, so it gets no more events until it answers, and nothing is lost so far: look at its host and its network", silence.as_secs_f64());
            self.roster.suspend(index);
            self.offer_slots(index, now);
        }
        false
    }

    /// Marks a source as up if it is ready: events wait for its fragments from the next roster
    /// version on.
    pub(super) fn raise(&mut self, index: SourceIndex, now: Instant) {
        if !self.phase.is_triggering() || !self.roster.can_rise(index) {
            return;
        }
        let awaited = self.roster.raise(index, self.outbox, now);
        let source = self.roster.source(index).id;
        tracing::info!(%source, "{} is up: it is connected to all builders, as it should be", self.plan.named(Peer::Source(source)));
        if !self.roster.owing().is_excluded(index) {
            self.pulse.find_source();
        }
        self.due.roster = true;
        if awaited {
            self.due.holdings.insert(index.get());
        }
    }

    /// Tells one peer that the run has ended for it, so that the peer closes its connection.
    pub(super) fn let_go(&mut self, peer: Peer, seat: Seat) {
        let named = self.plan.named(peer);
        let verdict = format!(
            "{named} left before the run began, as it asked, and has no part in it; to take part, start it again"
        );
        let to = self.roster.recipient(seat);
        self.outbox.send(to, Message::RunEnd(RunEnd { exit_code: 0, verdict }));
    }

    /// Returns the refusal of a peer that says that it cannot take part.
    pub(super) fn refuse(&mut self, peer: Peer, seat: Seat, unable: &str) -> Refusal {
        let reason = reason_of(unable);
        let named = self.plan.named(peer);
        tracing::warn!(
            peer = named,
            reason,
            "{named} cannot take part in the run, so it is refused: {reason}; correct that on its host, where the end of its log has the details, and start it again"
        );
        self.roster.note_parting(seat, reason.clone());
        Refusal::because(Reason::Configuration, format!("{named} cannot take part: {reason}"))
    }

    /// Returns the reason why the run has not started in time.
    pub(super) fn not_started(&self) -> String {
        let limit = self.plan.start_timeout.as_secs_f64();
        let absent = self.roster.absent();
        if let Some(reason) = too_few_to_begin(self.plan, self.roster).filter(|_| self.roster.is_ready()) {
            return reason.to_string();
        }
        if absent.is_empty() {
            let waiting = names_in(self.plan, &unconnected(self.roster));
            return format!(
                "after {limit} s, these sources had not connected to all builders: {waiting}; check the network from them to the builders, then start the run again"
            );
        }
        let reasons = absent.into_iter().map(|peer| (peer, self.roster.parting(peer).to_owned()));
        let reasons = with_reasons(&reasons.collect::<Vec<_>>(), |peers| names_in(self.plan, peers));
        format!(
            "after {limit} s, these had not registered with the supervisor: {reasons}; start them, then the run again"
        )
    }

    /// Goes on without the peers that are not connected after a restart of the supervisor.
    pub(super) fn leave_absent(&mut self, cause: &str, now: Instant) {
        for index in self.roster.sources().positions() {
            if self.roster.source(index).connection.is_none() {
                self.lower(index, cause, now);
            }
        }
        if self.roster.contributing().is_empty() {
            // From now on, the run ends if no source comes back in time.
            self.pulse.lose_sources(now, self.plan.absence_limit(true));
        }
        for index in self.roster.builders().positions() {
            let seat = self.roster.builder(index);
            if seat.is_alive() && seat.connection.is_none() {
                self.end_incarnation(index, cause, now);
            }
        }
        // A peer that is connected counts as heard now, because nothing was heard during the
        // restart.
        self.roster.hear_everybody(now);
        if self.roster.lacks_builders() {
            // It is unknown whether the builders have died or only the network has failed.
            self.pulse.lose_builders(now + self.plan.absence_limit(true));
        }
        self.offer_all_slots(now);
    }

    /// Ends a builder's incarnation and makes its events available to other builders
    /// (docs/reference/protocol.md RUN-22).
    pub(super) fn end_incarnation(&mut self, index: BuilderIndex, cause: &str, now: Instant) {
        self.outbox.close_batches();
        let silent = self.roster.end_incarnation(index);
        let seat = self.roster.builder(index);
        let (id, is_leaving) = (seat.id, seat.leaving != Leaving::No);
        // While peers report, the two leases of an absent builder may still run. For this reason,
        // the report mentions the end of a builder even if the builder had no events.
        let is_missed = self.phase.is_reporting() && seat.report.is_none();
        self.assigner.set_slots(index, 0, now);
        if silent {
            self.outbox.push(Output::Drop { peer: Peer::Builder(id), reason: cause.to_owned() });
        }
        let moved = self.assigner.unassign(index);
        self.outbox.journal(What::Over(id.number().into()), now);
        self.outbox.raise_epoch(now);
        self.books.take_away(index, moved);
        let named = self.plan.named(Peer::Builder(id));
        let events = counted(moved, "event");
        let fate = match (moved, self.roster.has_active_builder()) {
            (0, _) => "it had no events to build".to_owned(),
            (_, true) => format!("other builders took its {events}"),
            (_, false) => {
                format!("its {events} waited for another builder, and are lost if none was connected in time")
            }
        };
        let advice = match is_leaving {
            true => "nothing needs to be done, because it was to leave anyway",
            false => "look at its host and its log, and start it again",
        };
        tracing::warn!(builder = %id, cause, "{named} is gone ({cause}), and {fate}; {advice}");
        if is_leaving {
            self.leave(index, now);
        }
        if is_missed || self.phase.is_under_way() {
            let remark = format!("{named} left the run ({cause}), and {fate}; {advice}");
            self.books.remark(remark, self.outbox, now);
        }
        if self.phase.is_under_way() {
            self.due.roster = true;
            self.tell_sources();
            self.note_absence_of_builders(silent, now);
        }
    }

    /// Sets the time limit of a run without builders, which is longer if only the network may have
    /// failed.
    fn note_absence_of_builders(&mut self, silent: bool, now: Instant) {
        if self.roster.lacks_builders() {
            let until = now + self.plan.absence_limit(silent);
            self.pulse.lose_builders(until);
            self.phase.drain_until(until);
        }
    }

    /// Offers the slots of joining builders once all sources have confirmed their connections to
    /// them, or have had enough time for that.
    pub(super) fn check_joining(&mut self, now: Instant) {
        if self.roster.lookup().joining().is_empty() {
            return;
        }
        let connected =
            Roster::positions(self.roster.up()).all(|index| self.roster.source(index).reaches_all);
        for index in self.roster.lookup().joining().clone().iter() {
            let Some(since) = self.roster.builder(index).joining else { continue };
            let in_time = self.outbox.is_stalled() || now < since + CONNECTING;
            if connected || !in_time {
                self.roster.end_joining(index);
                self.offer_slots(index, now);
            }
        }
    }

    /// Permits one more builder to register.
    pub(super) fn add_builder(&mut self, id: BuilderId, now: Instant) -> Result<(), ChangeError> {
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

    /// Gives a builder no new events, so that the builder leaves when its last event is settled.
    pub(super) fn remove_builder(&mut self, id: BuilderId, now: Instant) -> Result<(), ChangeError> {
        let gathering = self.phase.is_gathering();
        if !gathering && !self.phase.is_triggering() {
            return Err(ChangeError::NotRunning);
        }
        let index = self.roster.builder_index(id).filter(|index| self.roster.builder(*index).stays());
        let index = index.ok_or(ChangeError::UnknownBuilder(id))?;
        let is_alive = self.roster.builder(index).is_alive();
        // During the run, a dead builder does not count as a remaining builder.
        let remains = |seat: &BuilderSeat| seat.stays() && seat.id != id && (gathering || seat.is_alive());
        if (gathering || is_alive) && !self.roster.builders().iter().any(remains) {
            return Err(ChangeError::LastBuilder(id));
        }
        tracing::info!(builder = %id, "{} is to leave the run, as an operator asked: it gets no more events, and leaves by itself when its last one is written", self.plan.named(Peer::Builder(id)));
        self.roster.set_leaving(index, Leaving::Asked);
        self.journal_membership(id, Change::Leaving, now);
        self.offer_slots(index, now);
        if !is_alive {
            self.leave(index, now);
        }
        Ok(())
    }

    /// Requests the report of each builder that has to leave and has no events left.
    pub(super) fn dismiss_builders(&mut self) {
        if self.roster.lookup().asked().is_empty() || !self.phase.is_under_way() {
            return;
        }
        for index in self.roster.lookup().asked().clone().iter() {
            let seat = self.roster.builder(index);
            if seat.connection.is_some() && self.books.outstanding(index) == 0 {
                self.outbox.send(Recipients::Builder(seat.id), Message::Finish(Finish {}));
                self.roster.set_leaving(index, Leaving::Finishing);
            }
        }
    }

    /// Removes a builder that has sent its report from the run; the lanes to it end.
    pub(super) fn dismiss(&mut self, index: BuilderIndex, now: Instant) {
        let id = self.roster.builder(index).id;
        let named = self.plan.named(Peer::Builder(id));
        let end = RunEnd { exit_code: 0, verdict: format!("{named} has left the run, as an operator asked") };
        self.outbox.send(Recipients::Builder(id), Message::RunEnd(end));
        self.roster.end_incarnation(index);
        self.assigner.set_slots(index, 0, now);
        self.outbox.journal(What::Over(id.number().into()), now);
        self.leave(index, now);
        self.note_absence_of_builders(false, now);
        self.due.roster = true;
        self.tell_sources();
    }

    fn leave(&mut self, index: BuilderIndex, now: Instant) {
        let id = self.roster.builder(index).id;
        self.roster.set_leaving(index, Leaving::Gone);
        tracing::info!(builder = %id, "{} has left the run, as an operator asked, and the run goes on without it: nothing needs to be done", self.plan.named(Peer::Builder(id)));
        self.journal_membership(id, Change::Gone, now);
    }

    fn journal_membership(&mut self, id: BuilderId, change: Change, now: Instant) {
        let what = Entry { builder: id.number().into(), change };
        self.outbox.journal(What::Membership(what), now);
    }

    /// Notes that a message of a peer arrived; returns `None` if the peer has no connection any
    /// more.
    pub(super) fn heard(&mut self, peer: Peer, now: Instant) -> Option<Seat> {
        let seat = self.roster.seat(peer)?;
        let was_silent = self.roster.hear(seat, now)?;
        match seat {
            Seat::Source(index) if was_silent => self.raise(index, now),
            Seat::Builder(index) if was_silent => {
                tracing::info!(%peer, "{} answers again, and gets events again: nothing needs to be done", self.plan.named(peer));
                self.offer_slots(index, now);
            }
            _ => {}
        }
        Some(seat)
    }

    /// Adds a seat for a new builder to all parts.
    pub(super) fn make_seat(&mut self, id: BuilderId) {
        self.roster.add_builder(id);
        self.books.add_builder();
        self.assigner.add_builder();
        self.outbox.add_builder(id);
    }
}
