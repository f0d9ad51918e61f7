//! Who is alive: heartbeats both ways, sources that go down and come up, builders that leave.

use core::time::Duration;

use super::{Output, Phase, Recipients, SupervisorCore, outstanding::BuilderIndex, seats::Connection};
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
    /// Since when no source is up.
    no_source_since: Option<Instant>,
}

impl Pulse {
    pub(super) fn new(now: Instant, every: Duration) -> Self {
        Self { every, next: now + every, no_source_since: None }
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
                if self.sources[index].connection.take().is_none() {
                    return;
                }
                self.sources[index].ready = false;
                self.lower(index, cause, now);
            }
            Peer::Builder(id) => {
                let Some(index) = self.builder_index(id) else { return };
                if self.builders[index].connection.take().is_none() {
                    return;
                }
                self.lose_builder(index, cause, now);
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
    }

    /// Ends a connection whose peer does not keep to the protocol.
    pub(super) fn expel(&mut self, peer: Peer, reason: &str, now: Instant) {
        self.findings.problem(format!("{peer} was dropped: {reason}"));
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
        let watch = !matches!(self.phase, Phase::Gathering { .. });
        for index in 0..self.sources.len() {
            let Some(connection) = self.sources[index].connection else { continue };
            self.send(Recipients::Source(self.sources[index].id), heartbeat(&connection, now));
            if watch && now.since(connection.last_heard) >= self.plan.down_after {
                self.lower(index, "no heartbeat", now);
            }
        }
        for index in 0..self.builders.len() {
            let Some(connection) = self.builders[index].connection else { continue };
            let (id, silence) = (self.builders[index].id, now.since(connection.last_heard));
            if watch && silence >= self.plan.give_up_after {
                self.expel(Peer::Builder(id), "it was silent for too long", now);
                continue;
            }
            self.send(Recipients::Builder(id), heartbeat(&connection, now));
            if watch && silence >= self.plan.down_after && !self.builders[index].suspended {
                tracing::warn!(builder = %id, "no heartbeat: it gets no more events");
                self.builders[index].suspended = true;
                self.offer_slots(index, now);
            }
        }
        self.check_somebody_is_left(now);
    }

    /// Lets every peer's time to speak begin now.
    pub(super) fn hear_everybody(&mut self, now: Instant) {
        let sources = self.sources.iter_mut().filter_map(|seat| seat.connection.as_mut());
        let builders = self.builders.iter_mut().filter_map(|seat| seat.connection.as_mut());
        sources.chain(builders).for_each(|connection| connection.last_heard = now);
    }

    /// Expects a source from the next roster version on, if it can be.
    pub(super) fn raise(&mut self, index: usize, now: Instant) {
        if !self.is_running() || self.up.contains(index) || !self.sources[index].is_ready() {
            return;
        }
        self.close_batches();
        self.tell_closed(index);
        let assigned = self.tally.triggered - self.tally.inhibited;
        let seat = &mut self.sources[index];
        if let Some((since, assigned_then)) = seat.down.take() {
            seat.down_time += now.since(since);
            seat.events_without += assigned - assigned_then;
        }
        tracing::info!(source = %seat.id, "up");
        self.up.insert(index);
        self.pulse.no_source_since = None;
        self.publish_roster();
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
        if !self.is_running_or_draining() {
            return;
        }
        let seat = &mut self.sources[index];
        seat.down = Some((now, assigned));
        tracing::warn!(source = %seat.id, cause, "down");
        if self.up.is_empty() {
            self.pulse.no_source_since = Some(now);
        }
        self.publish_roster();
    }

    fn is_running_or_draining(&self) -> bool {
        matches!(self.phase, Phase::Running { .. } | Phase::Draining { .. })
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

    /// Requirements: docs/protocol.md RUN-15.
    fn lose_builder(&mut self, index: usize, cause: &str, now: Instant) {
        self.offer_slots(index, now);
        let lost = self.take_outstanding(index);
        let id = self.builders[index].id;
        if lost > 0 {
            self.findings.loss(format!("builder {id} left: {cause}"), lost);
        }
        match self.phase {
            Phase::Gathering { .. } => {}
            Phase::Running { .. } | Phase::Draining { .. } => {
                self.findings.problem(format!("builder {id} left the run: {cause}"));
                self.publish_roster();
                if self.builders.iter().all(|seat| seat.connection.is_none()) {
                    self.findings.problem("no builder is left".to_owned());
                    self.stop("no builder is left", now);
                }
            }
            Phase::Reporting { .. } | Phase::Ended => {}
        }
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
        let too_long =
            |since: Option<Instant>| since.is_some_and(|since| now.since(since) >= self.plan.give_up_after);
        if self.is_running() && too_long(self.pulse.no_source_since) {
            self.findings.problem("no source is left".to_owned());
            self.stop("no source is left", now);
        }
    }
}

fn heartbeat(connection: &Connection, now: Instant) -> Message {
    let (echo_ns, echo_delay_ns) = connection.echo.map_or((0, 0), |(sent_ns, came)| {
        (sent_ns, u64::try_from(now.since(came).as_nanos()).unwrap_or(u64::MAX))
    });
    Message::Heartbeat(Heartbeat { sent_ns: now.as_nanos(), echo_ns, echo_delay_ns })
}
