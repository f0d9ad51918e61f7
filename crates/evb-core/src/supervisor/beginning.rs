//! The beginning of a run: the run gets its number, every peer prepares for the first event, and
//! only then do triggers count (docs/reference/protocol.md RUN-39).

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::{
    NotReady, Output, Phase, Recipients, RunPlan, SupervisorCore, journal::What, roster::Seat,
    words::reason_of,
};
use crate::{
    id::{Peer, RunNumber},
    ledger::Annotation,
    time::Instant,
    wire::control::{Begin, Begun, Message, RunEnd},
};

/// Time within which all peers must have prepared for the first event.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns what the peers of a run are told about its beginning. A journal of evb 0.1 does not tell
/// when the run began.
pub(super) fn begin_of(plan: &RunPlan, begun: Option<&Begin>) -> Begin {
    Begin { run: plan.run.number(), run_id: plan.run_id, ..begun.cloned().unwrap_or_default() }
}

impl SupervisorCore {
    /// Begins a run that waits for an operator to begin it ([`RunPlan::hold`]
    /// (super::RunPlan::hold)). [`Output::Begun`] has the result, when all peers have answered.
    ///
    /// # Errors
    /// Returns [`NotReady`] if a peer is missing or not connected, or if the run has begun already.
    pub fn begin(&mut self, annotation: &Annotation, now: Instant) -> Result<(), NotReady> {
        match self.phase {
            Phase::Beginning { .. } => return Ok(()),
            Phase::Gathering { .. } => {}
            _ => return Err(NotReady::Begun),
        }
        let missing = self.roster.absent();
        if !missing.is_empty() {
            let reasons = missing.into_iter().map(|peer| (peer, self.roster.parting(peer).to_owned()));
            return Err(NotReady::Missing(reasons.collect()));
        }
        let waiting = self.roster.unconnected();
        if !waiting.is_empty() {
            return Err(NotReady::Unconnected(waiting));
        }
        self.annotation = annotation.clone();
        self.call_to_begin(now)
    }

    /// Begins a run that waits for nobody, as soon as every peer is ready; and starts a run that
    /// begins, as soon as every peer has prepared for it.
    pub(super) fn begin_if_ready(&mut self, now: Instant) {
        if !self.roster.is_ready() {
            return;
        }
        match self.phase {
            Phase::Gathering { .. } if !self.plan.hold => {
                if let Err(reason) = self.call_to_begin(now) {
                    self.give_begin_up(reason, now);
                }
            }
            Phase::Beginning { .. } if self.roster.waits_for_begun().is_empty() => self.start(now),
            _ => {}
        }
    }

    /// Gives the run its number, and asks all peers to prepare for it.
    fn call_to_begin(&mut self, now: Instant) -> Result<(), NotReady> {
        self.plan.run = self.choose_number()?;
        self.membership().publish(now);
        self.books.begin(now);
        let (begun, clock) = self.books.scale().begun();
        let begin = Begin {
            begun_utc_ns: begun.as_nanos(),
            begun_ns: now.as_nanos(),
            clock_state: clock.code().into(),
            kind: self.annotation.kind.clone(),
            comment: self.annotation.comment.clone(),
            ..self.begun()
        };
        tracing::info!(run = %self.plan.run, id = %self.plan.run_id, "the run begins");
        self.outbox.journal(What::Begin(begin.clone()), now);
        self.begun = Some(begin.clone());
        self.roster.forget_begun();
        self.outbox.send(Recipients::Everyone, Message::Begin(begin));
        self.phase = Phase::Beginning { until: now + BEGIN_TIMEOUT };
        Ok(())
    }

    /// Returns true if the run has taken triggers, or could.
    pub fn has_begun(&self) -> bool {
        self.books.is_started()
    }

    /// Returns what the peers of the run are told about its beginning.
    pub fn begun(&self) -> Begin {
        begin_of(&self.plan, self.begun.as_ref())
    }

    /// Returns the number of the run: the configured one or, if none is configured, one that no
    /// storage of a builder knows.
    fn choose_number(&self) -> Result<RunNumber, NotReady> {
        let mut number = self.plan.run;
        if self.plan.fixed_number {
            return Ok(number);
        }
        for seat in self.roster.builders().iter() {
            let Some(highest) = seat.highest_run else { continue };
            let next = highest.number().checked_add(1).map(RunNumber::new);
            let next = next.ok_or(NotReady::NoNumber(Peer::Builder(seat.id)))?;
            number = number.max(next);
        }
        Ok(number)
    }

    /// Returns the number that the run has if it begins now, for people.
    pub(super) fn provisional_number(&self) -> RunNumber {
        match self.phase {
            Phase::Gathering { .. } => self.choose_number().unwrap_or(self.plan.run),
            _ => self.plan.run,
        }
    }

    /// Handles a peer's answer to [`Begin`].
    pub(super) fn handle_begun(&mut self, peer: Peer, seat: Seat, begun: &Begun, now: Instant) {
        if begun.refusal.is_empty() {
            self.roster.set_begun(seat);
            self.begin_if_ready(now);
            if let (Seat::Builder(index), true) = (seat, self.phase.is_settling()) {
                self.membership().offer_slots(index, now);
            }
            return;
        }
        self.roster.note_highest(seat, begun.highest_run);
        let reason = reason_of(&begun.refusal);
        tracing::warn!(%peer, run = %self.plan.run, reason, "a peer cannot take part in the run");
        match self.phase {
            Phase::Beginning { .. } => self.give_begin_up(NotReady::Refused { peer, reason }, now),
            // An answer to a beginning that was given up.
            Phase::Gathering { .. } | Phase::Ended => {}
            _ => self.turn_away(peer, seat, reason, now),
        }
    }

    /// Dismisses a peer that cannot take part in the run that is under way.
    fn turn_away(&mut self, peer: Peer, seat: Seat, reason: String, now: Instant) {
        let verdict = format!("{peer} cannot take part in run {}: {reason}", self.plan.run);
        self.books.remark(verdict.clone(), &mut self.outbox, now);
        let to = self.roster.recipient(seat);
        self.outbox.send(to, Message::RunEnd(RunEnd { exit_code: 1, verdict }));
        self.roster.note_parting(seat, reason);
    }

    /// Handles a peer's message that it ends its part in the run.
    pub(super) fn handle_leaving(&mut self, peer: Peer, seat: Seat, reason: &str, now: Instant) {
        let reason = reason_of(reason);
        self.outbox.push(Output::Drop { peer, reason: reason.clone() });
        self.handle_disconnect(peer, &reason, now);
        self.roster.note_parting(seat, reason.clone());
        if self.phase.is_beginning() {
            self.give_begin_up(NotReady::Refused { peer, reason }, now);
        }
    }

    /// Ends the wait for peers that did not answer.
    pub(super) fn end_begin(&mut self, now: Instant) {
        let absent = self.roster.absent();
        let reason = match absent.is_empty() {
            true => NotReady::Silent(self.roster.waits_for_begun()),
            false => {
                let reasons = absent.into_iter().map(|peer| (peer, self.roster.parting(peer).to_owned()));
                NotReady::Missing(reasons.collect())
            }
        };
        self.give_begin_up(reason, now);
    }

    /// Returns to the state before the beginning if an operator may begin again, and fails
    /// otherwise.
    fn give_begin_up(&mut self, reason: NotReady, now: Instant) {
        self.phase = Phase::Gathering { until: now + self.plan.start_timeout };
        if self.plan.hold {
            tracing::warn!(run = %self.plan.run, %reason, "the run did not begin");
            return self.outbox.push(Output::Begun(Err(reason)));
        }
        let problem = reason.to_string();
        self.begin_draining(&problem, now);
        self.failure(problem, now);
    }

    /// Lets the run take triggers.
    fn start(&mut self, now: Instant) {
        self.membership().publish(now);
        let (sources, builders) = (self.roster.sources().len(), self.roster.builders().len());
        let (run, id) = (self.plan.run, self.plan.run_id);
        tracing::info!(%run, %id, sources, builders, "running");
        self.plan.hold = false;
        self.phase = Phase::Running { until: self.plan.duration.map(|duration| now + duration) };
        let started = self.books.start(now);
        self.outbox.set_scale(self.books.scale().utc_zero_ns());
        self.outbox.journal(What::Started(started), now);
        for builder in self.roster.unheard() {
            let remark = format!(
                "{builder} could not say in time which runs its storage knows; it may know another run {run}"
            );
            tracing::warn!("{remark}");
            self.books.remark(remark, &mut self.outbox, now);
        }
        self.roster.hear_everybody(now);
        self.intake.start(now);
        self.assigner.open();
        self.membership().offer_all_slots(now);
        self.outbox.push(Output::Begun(Ok(())));
    }
}
