//! [`Beginning`]: the run gets its number, every peer prepares for the first event, and only then
//! do triggers count (docs/reference/protocol.md RUN-39).

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::{
    NotReady, Output, Phase, Recipients, RunPlan,
    assigner::Assigner,
    books::Books,
    due::Due,
    intake::Intake,
    journal::What,
    membership::{Membership, begin_of},
    outbox::Outbox,
    pulse::Pulse,
    roster::{Roster, Seat},
    scale::WallWatch,
    words::reason_of,
};
use crate::{
    id::{Peer, RunNumber},
    ledger::Annotation,
    time::Instant,
    wire::{
        control::{Begin, Begun, Message, RunEnd},
        journal::Started,
    },
};

/// Time within which all peers must have prepared for the first event.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The parts of the supervisor that change when a run begins. The error of a method is the reason
/// for which the run cannot begin.
#[derive(Debug)]
pub(super) struct Beginning<'a> {
    pub(super) plan: &'a mut RunPlan,
    pub(super) phase: &'a mut Phase,
    pub(super) pulse: &'a mut Pulse,
    pub(super) intake: &'a mut Intake,
    pub(super) roster: &'a mut Roster,
    pub(super) assigner: &'a mut Assigner,
    pub(super) books: &'a mut Books,
    pub(super) outbox: &'a mut Outbox,
    pub(super) due: &'a mut Due,
    pub(super) wall: &'a mut WallWatch,
    pub(super) annotation: &'a mut Annotation,
    /// Message that told peers about the beginning of the run; `None` before that.
    pub(super) begun: &'a mut Option<Begin>,
}

impl Beginning<'_> {
    /// Returns the parts of the supervisor that change when a peer joins or leaves.
    fn membership(&mut self) -> Membership<'_> {
        let Self { plan, phase, pulse, roster, assigner, books, outbox, due, begun, .. } = self;
        Membership { plan, phase, pulse, roster, assigner, books, outbox, due, begun }
    }

    /// Begins a run that waits for an operator.
    pub(super) fn begin(&mut self, annotation: &Annotation, now: Instant) -> Result<(), NotReady> {
        match self.phase {
            Phase::Beginning { .. } => return Ok(()),
            Phase::Gathering { .. } => {}
            _ => return Err(NotReady::Begun),
        }
        self.find_absent()?;
        let waiting = self.roster.unconnected();
        if !waiting.is_empty() {
            return Err(NotReady::Unconnected(waiting));
        }
        self.annotation.clone_from(annotation);
        self.call(now)
    }

    /// Begins a run that waits for nobody, as soon as every peer is ready; and starts a run that
    /// begins, as soon as every peer has prepared for it.
    pub(super) fn advance(&mut self, now: Instant) -> Result<(), NotReady> {
        if self.roster.is_ready() {
            match self.phase {
                Phase::Gathering { .. } if !self.plan.hold => self.call(now)?,
                Phase::Beginning { .. } if self.roster.waits_for_begun().is_empty() => self.start(now),
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives the run its number, and asks all peers to prepare for it.
    fn call(&mut self, now: Instant) -> Result<(), NotReady> {
        self.plan.run = choose_number(self.plan, self.roster)?;
        self.membership().publish(now);
        let wall = self.wall.begin(now);
        let begin = Begin {
            begun_utc_ns: wall.utc.as_nanos(),
            begun_ns: now.as_nanos(),
            clock_state: wall.state.code().into(),
            kind: self.annotation.kind.clone(),
            comment: self.annotation.comment.clone(),
            ..begin_of(self.plan, self.begun.as_ref())
        };
        tracing::info!(run = %self.plan.run, id = %self.plan.run_id, "the run begins");
        self.outbox.journal(What::Begin(begin.clone()), now);
        *self.begun = Some(begin.clone());
        self.roster.forget_begun();
        self.outbox.send(Recipients::Everyone, Message::Begin(begin));
        *self.phase = Phase::Beginning { until: now + BEGIN_TIMEOUT };
        Ok(())
    }

    /// Handles a peer's answer to [`Begin`].
    pub(super) fn handle_begun(
        &mut self,
        peer: Peer,
        seat: Seat,
        begun: &Begun,
        now: Instant,
    ) -> Result<(), NotReady> {
        if begun.refusal.is_empty() {
            self.roster.set_begun(seat);
            self.advance(now)?;
            if let (Seat::Builder(index), true) = (seat, self.phase.is_settling()) {
                self.membership().offer_slots(index, now);
            }
            return Ok(());
        }
        self.roster.note_highest(seat, begun.highest_run);
        let reason = reason_of(&begun.refusal);
        tracing::warn!(%peer, run = %self.plan.run, reason, "a peer cannot take part in the run");
        match self.phase {
            Phase::Beginning { .. } => return Err(NotReady::Refused { peer, reason }),
            // An answer to a beginning that was given up.
            Phase::Gathering { .. } | Phase::Ended => {}
            _ => self.turn_away(peer, seat, reason, now),
        }
        Ok(())
    }

    /// Dismisses a peer that cannot take part in the run that is under way.
    fn turn_away(&mut self, peer: Peer, seat: Seat, reason: String, now: Instant) {
        let verdict = format!("{peer} cannot take part in run {}: {reason}", self.plan.run);
        self.books.remark(verdict.clone(), self.outbox, now);
        let to = self.roster.recipient(seat);
        self.outbox.send(to, Message::RunEnd(RunEnd { exit_code: 1, verdict }));
        self.roster.note_parting(seat, reason);
    }

    /// Returns an error that names the peers that are absent, or else those that have not answered.
    pub(super) fn find_silent(&self) -> Result<(), NotReady> {
        self.find_absent()?;
        Err(NotReady::Silent(self.roster.waits_for_begun()))
    }

    /// Returns an error if peers are absent, with the reasons.
    fn find_absent(&self) -> Result<(), NotReady> {
        let absent = self.roster.absent();
        if absent.is_empty() {
            return Ok(());
        }
        let reasons = absent.into_iter().map(|peer| (peer, self.roster.parting(peer).to_owned()));
        Err(NotReady::Missing(reasons.collect()))
    }

    /// Lets the run take triggers.
    fn start(&mut self, now: Instant) {
        self.membership().publish(now);
        let (sources, builders) = (self.roster.sources().len(), self.roster.builders().len());
        let (run, id) = (self.plan.run, self.plan.run_id);
        tracing::info!(%run, %id, sources, builders, "running");
        self.plan.hold = false;
        *self.phase = Phase::Running { until: self.plan.duration.map(|duration| now + duration) };
        self.books.start(now);
        self.outbox.set_scale(begin_of(self.plan, self.begun.as_ref()).utc_zero_ns());
        self.outbox.journal(What::Started(Started {}), now);
        for builder in self.roster.unheard() {
            let remark = format!(
                "{builder} could not say in time which runs its storage knows; it may know another run {run}"
            );
            tracing::warn!("{remark}");
            self.books.remark(remark, self.outbox, now);
        }
        self.roster.hear_everybody(now);
        self.intake.start(now);
        self.assigner.open();
        self.membership().offer_all_slots(now);
        self.outbox.push(Output::Begun(Ok(())));
    }
}

/// Returns the number of the run: the configured one or, if none is configured, one that no storage
/// of a builder knows.
///
/// # Errors
/// Returns [`NotReady::NoNumber`] if a builder knows the highest possible number.
pub(super) fn choose_number(plan: &RunPlan, roster: &Roster) -> Result<RunNumber, NotReady> {
    let mut number = plan.run;
    if plan.fixed_number {
        return Ok(number);
    }
    for seat in roster.builders().iter() {
        let Some(highest) = seat.highest_run else { continue };
        let next = highest.number().checked_add(1).map(RunNumber::new);
        number = number.max(next.ok_or(NotReady::NoNumber(Peer::Builder(seat.id)))?);
    }
    Ok(number)
}
