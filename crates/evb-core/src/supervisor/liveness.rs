//! Who is alive: heartbeats both ways, sources that go down and come up, builders that leave.

use core::time::Duration;

use super::{
    Output, Phase, Recipients, SupervisorCore,
    outstanding::BuilderIndex,
    plan::SourceLoss,
    seats::{Connection, Down},
    words::short,
};
use crate::{
    id::Peer,
    time::Instant,
    wire::control::{Decisions, Heartbeat, MAX_BATCH, Verdict, control::Message},
};

/// When to send heartbeats and to look who is silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulse {
    every: Duration,
    next: Instant,
    /// Since when no source is up, and how long that may be.
    pub(super) no_source_since: Option<(Instant, Duration)>,
    /// While no builder is left, when that has been for too long.
    pub(super) give_up_builders: Option<Instant>,
}

impl Pulse {
    pub(super) fn new(now: Instant, every: Duration) -> Self {
        Self { every, next: now + every, no_source_since: None, give_up_builders: None }
    }

    /// The first heartbeat of a supervisor that goes on comes at once.
    pub(super) fn restart(&mut self, now: Instant) {
        self.next = now;
    }

    pub(super) fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }
}

impl SupervisorCore {
    /// The peer's connection is gone; the cause is for the log.
    pub fn handle_disconnect(&mut self, peer: Peer, cause: &str, now: Instant) {
        match peer {
            Peer::Source(id) => {
                let Some(index) = self.source_index(id) else { return };
                let Some(connection) = self.sources[index].connection.take() else { return };
                self.sources[index].last_heard = connection.last_heard;
                self.sources[index].ready = false;
                self.lower(index, cause, now);
            }
            Peer::Builder(id) => {
                let Some(index) = self.builder_index(id) else { return };
                // Its events stay its own until it can no longer write (docs/protocol.md RUN-22).
                let seat = &mut self.builders[index];
                let Some(connection) = seat.connection.take() else { return };
                seat.last_heard = connection.last_heard;
                seat.parting = short(cause);
                self.offer_slots(index, now);
            }
            Peer::Supervisor => return,
        }
        tracing::warn!(%peer, cause, "left");
        self.close_if_all_reported(now);
    }

    /// Notes that a peer lives; false if it has no connection here any more.
    pub(super) fn heard(&mut self, peer: Peer, now: Instant) -> bool {
        match peer {
            Peer::Source(id) => {
                let Some(index) = self.source_index(id) else { return false };
                let Some(connection) = &mut self.sources[index].connection else { return false };
                connection.last_heard = now;
                if self.sources[index].down.is_some() {
                    self.raise(index, now);
                }
                true
            }
            Peer::Builder(id) => {
                let Some(index) = self.builder_index(id) else { return false };
                let seat = &mut self.builders[index];
                let Some(connection) = &mut seat.connection else { return false };
                connection.last_heard = now;
                if core::mem::take(&mut seat.suspended) {
                    tracing::info!(builder = %id, "speaks again");
                    self.offer_slots(index, now);
                }
                true
            }
            Peer::Supervisor => false,
        }
    }

    pub(super) fn handle_heartbeat(&mut self, peer: Peer, heartbeat: &Heartbeat, now: Instant) {
        let connection = match peer {
            Peer::Source(id) => {
                self.source_index(id).and_then(|index| self.sources[index].connection.as_mut())
            }
            Peer::Builder(id) => {
                self.builder_index(id).and_then(|index| self.builders[index].connection.as_mut())
            }
            Peer::Supervisor => None,
        };
        if let Some(connection) = connection {
            connection.echo = Some((heartbeat.sent_ns, now));
        }
        if let (Peer::Builder(id), Some(load)) = (peer, heartbeat.load)
            && let Some(index) = self.builder_index(id)
        {
            self.handle_load(index, load);
        }
    }

    /// Ends a connection whose peer does not keep to the protocol.
    pub(super) fn expel(&mut self, peer: Peer, reason: &str, now: Instant) {
        self.problem(format!("{peer} was dropped: {reason}"), now);
        if let Peer::Builder(id) = peer
            && let Some(index) = self.builder_index(id)
        {
            self.builders[index].barred = true;
        }
        self.outbox.push(Output::Drop { peer, reason: reason.to_owned() });
        self.handle_disconnect(peer, reason, now);
    }

    /// Sends heartbeats and looks who is silent (docs/protocol.md CTRL-5).
    pub(super) fn beat(&mut self, now: Instant) {
        // We were late ourselves: then what the peers said meanwhile is not read yet, and the silence is ours.
        if now.since(self.pulse.next) > self.plan.down_after / 2 {
            self.hear_everybody(now);
        }
        self.pulse.next = now + self.pulse.every;
        // Before the run begins, peers wait in silence for each other.
        let watch = !matches!(self.phase, Phase::Gathering { .. } | Phase::Recovering { .. });
        for index in 0..self.sources.len() {
            let Some(connection) = self.sources[index].connection else { continue };
            self.send_ahead(Recipients::Source(self.sources[index].id), heartbeat(&connection, now));
            if watch && now.since(connection.last_heard) >= self.plan.down_after {
                self.lower(index, "no heartbeat", now);
            }
        }
        for index in 0..self.builders.len() {
            self.beat_builder(index, watch, now);
        }
        self.check_joining(now);
        self.check_somebody_is_left(now);
        self.close_if_all_reported(now);
    }

    /// Requirements: docs/protocol.md RUN-15, RUN-22.
    fn beat_builder(&mut self, index: usize, watch: bool, now: Instant) {
        let seat = &self.builders[index];
        if !seat.is_alive() {
            return;
        }
        let (id, connection) = (seat.id, seat.connection);
        let silence = now.since(connection.map_or(seat.last_heard, |connection| connection.last_heard));
        if watch && silence >= self.two_leases().max(self.plan.down_after) {
            let cause = match connection {
                Some(_) => format!("it was silent for {:.1} s", silence.as_secs_f64()),
                None => seat.parting.clone(),
            };
            return self.end_incarnation(index, &cause, now);
        }
        let Some(connection) = connection else { return };
        self.send_ahead(Recipients::Builder(id), heartbeat(&connection, now));
        if watch && silence >= self.plan.down_after && !self.builders[index].suspended {
            tracing::warn!(builder = %id, "no heartbeat: it gets no more events");
            self.builders[index].suspended = true;
            self.offer_slots(index, now);
        }
    }

    /// Lets every peer's time to speak begin now.
    pub(super) fn hear_everybody(&mut self, now: Instant) {
        let sources = self.sources.iter_mut().filter_map(|seat| seat.connection.as_mut());
        let builders = self.builders.iter_mut().filter_map(|seat| seat.connection.as_mut());
        sources.chain(builders).for_each(|connection| connection.last_heard = now);
        self.sources.iter_mut().for_each(|seat| seat.last_heard = now);
        self.builders.iter_mut().for_each(|seat| seat.last_heard = now);
    }

    /// Expects a source from the next roster version on, if it can be.
    pub(super) fn raise(&mut self, index: usize, now: Instant) {
        let raised = matches!(self.phase, Phase::Running { .. } | Phase::Recovering { .. });
        if !raised || self.up.contains(index) || !self.sources[index].is_ready() {
            return;
        }
        self.close_batches();
        let awaited = self.awaited.remove(index);
        if !awaited {
            self.tell_closed(index);
        }
        let assigned = self.tally.triggered - self.tally.inhibited;
        let seat = &mut self.sources[index];
        seat.end_absence(assigned, now);
        tracing::info!(source = %seat.id, "up");
        self.up.insert(index);
        self.pulse.no_source_since = None;
        self.publish_roster(now);
        if awaited {
            self.send_holdings([index].into_iter().collect());
        }
    }

    /// Expects nothing from a source from the next roster version on (docs/protocol.md RUN-14).
    pub(super) fn lower(&mut self, index: usize, cause: &str, now: Instant) {
        if !self.up.contains(index) {
            return;
        }
        self.close_batches();
        self.up.remove(index);
        let assigned = self.tally.triggered - self.tally.inhibited;
        let decided = self.outbox.decided();
        let seat = &mut self.sources[index];
        seat.told = decided;
        if !self.is_under_way() {
            return;
        }
        let is_awaited =
            self.plan.on_source_loss == SourceLoss::Wait && !matches!(self.phase, Phase::Draining { .. });
        if is_awaited {
            self.awaited.insert(index);
        }
        let silent = self.sources[index].connection.is_some();
        let seat = &mut self.sources[index];
        seat.down = Some(Down { since: now, assigned: (!is_awaited).then_some(assigned) });
        tracing::warn!(source = %seat.id, cause, "down");
        if self.up.is_empty() {
            let limit = self.absence_limit(silent);
            self.pulse.no_source_since = Some((now, limit));
        }
        self.publish_roster(now);
    }

    /// How long the run waits while nobody of a kind is left: longer where it may be the network alone that is gone.
    pub(super) fn absence_limit(&self, silent: bool) -> Duration {
        if silent { self.plan.patience.max(self.plan.give_up_after) } else { self.plan.give_up_after }
    }

    /// Closes for a source all events that were decided while it was down.
    fn tell_closed(&mut self, index: usize) {
        let decided = self.outbox.decided();
        let mut told = self.sources[index].told;
        while told < decided {
            let count = (decided - told).min(MAX_BATCH);
            let mut decisions = Decisions { first: told + 1, runs: Vec::new() };
            decisions.extend(count as u32, Verdict::Closed);
            self.send(Recipients::Source(self.sources[index].id), Message::Decisions(decisions));
            told += count;
        }
        self.sources[index].told = told;
    }

    /// Accounts a builder's events as lost with it.
    pub(super) fn take_outstanding(&mut self, index: usize) -> u64 {
        let before = self.outstanding.len();
        self.outstanding.take_all(|builder| builder == index as BuilderIndex);
        let lost = (before - self.outstanding.len()) as u64;
        self.builders[index].tally.lost_with_it += lost;
        self.tally.lost += lost;
        lost
    }

    fn check_somebody_is_left(&mut self, now: Instant) {
        if self.stalled.is_some() {
            return;
        }
        let too_long = |(since, limit): (Instant, Duration)| now.since(since) >= limit;
        if self.is_running() && self.pulse.no_source_since.is_some_and(too_long) {
            self.failure("no source is left".to_owned(), now);
            self.stop("no source is left", now);
        }
        if self.is_under_way() && self.pulse.give_up_builders.is_some_and(|at| now >= at) {
            self.pulse.give_up_builders = None;
            self.failure("no builder is left".to_owned(), now);
            self.lose_homeless("no builder was left to build them", now);
            self.stop("no builder is left", now);
        }
    }
}

fn heartbeat(connection: &Connection, now: Instant) -> Message {
    let (echo_ns, echo_delay_ns) = connection.echo.map_or((0, 0), |(sent_ns, came)| {
        (sent_ns, u64::try_from(now.since(came).as_nanos()).unwrap_or(u64::MAX))
    });
    Message::Heartbeat(Heartbeat { sent_ns: now.as_nanos(), echo_ns, echo_delay_ns, load: None })
}
