//! [`Beginning`]: the run gets its number, every peer prepares for the first event, and only then
//! do triggers count (docs/reference/protocol.md RUN-39).

#[cfg(test)]
mod tests;

use super::{
    FirstReadouts, NotReady, Output, Phase, Recipients, RunPlan, SupervisorCore,
    journal::What,
    least_numbers,
    peer_names::{names_in, reason_of},
    roster::{Roster, Seat, has_all_sources, needs, too_few_to_begin, unconnected, unheard},
};
use crate::{
    id::{Peer, RunNumber},
    ledger::Annotation,
    quantities::counted,
    time::Instant,
    wire::{
        control::{Begin, Begun, Message, RunEnd},
        journal::Started,
    },
};

/// Remark on a run for which the question whether it may begin has found no answer in time.
const NO_PERMISSION: &str = "nothing said in time whether the run may begin, so it began: see in the log of the supervisor's process what the hook run_starts did";

/// The permission of a run that begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Permission {
    pub(super) is_awaited: bool,
    /// Remark on the permission, for the run.
    remark: Option<String>,
}

/// Returns true while a run that begins waits for the answer whether it may.
pub(super) fn asks_permission(core: &SupervisorCore) -> bool {
    core.phase.is_beginning() && core.permission.is_awaited
}

/// The supervisor while a run begins. The error of a method is the reason for which the run cannot
/// begin.
#[derive(Debug)]
pub(super) struct Beginning<'a> {
    pub(super) core: &'a mut SupervisorCore,
}

impl Beginning<'_> {
    /// Begins a run that waits for an operator.
    pub(super) fn begin(&mut self, annotation: &Annotation, now: Instant) -> Result<(), NotReady> {
        match self.core.phase {
            Phase::Beginning { .. } => return Ok(()),
            Phase::Gathering { .. } => {}
            _ => return Err(NotReady::Begun),
        }
        self.find_absent()?;
        let waiting = unconnected(&self.core.roster);
        if !waiting.is_empty() {
            return Err(NotReady::Unconnected(waiting));
        }
        if let Some(reason) = too_few_to_begin(&self.core.plan, &self.core.roster) {
            return Err(NotReady::TooFew(reason));
        }
        let without = without_front_ends(&self.core.roster);
        if self.core.plan.first_readouts == FirstReadouts::Refuse && !without.is_empty() {
            return Err(NotReady::NoReadout(without));
        }
        self.core.annotation.clone_from(annotation);
        self.call(now)
    }

    /// Begins a run without an operator as soon as every peer is ready, and if the plan says so,
    /// every source has a readout; and starts a run that begins, as soon as every peer has prepared
    /// for it.
    pub(super) fn advance(&mut self, now: Instant) -> Result<(), NotReady> {
        if self.core.roster.is_ready() && too_few_to_begin(&self.core.plan, &self.core.roster).is_none() {
            match self.core.phase {
                Phase::Gathering { until } if !self.core.plan.hold => {
                    let waits = self.core.plan.first_readouts != FirstReadouts::Warn;
                    let is_whole = has_all_sources(&self.core.roster)
                        && (!waits || without_front_ends(&self.core.roster).is_empty());
                    if now >= until || is_whole {
                        self.call(now)?;
                    }
                }
                Phase::Beginning { .. }
                    if self.core.roster.waits_for_begun().is_empty() && !self.core.permission.is_awaited =>
                {
                    self.start(now);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// After an error, returns to the state before the beginning if an operator may begin again,
    /// and fails otherwise.
    pub(super) fn settle(&mut self, advanced: Result<(), NotReady>, now: Instant) {
        let Err(reason) = advanced else { return };
        self.core.phase = Phase::Gathering { until: now + self.core.plan.start_timeout };
        if self.core.plan.hold {
            let (run, told) = (self.core.plan.run, self.told(&reason));
            tracing::warn!(%run, %reason, "run {run} did not begin: {told}, then start the run again");
            return self.core.outbox.push(Output::Begun(Err(reason)));
        }
        let problem = self.told(&reason);
        self.core.begin_draining(&problem, now);
        self.core.failure(problem, now);
    }

    fn told(&self, reason: &NotReady) -> String {
        reason.told(|peers| names_in(&self.core.plan, peers))
    }

    /// Gives the run its number, and asks all peers to prepare for it.
    fn call(&mut self, now: Instant) -> Result<(), NotReady> {
        self.core.plan.run = choose_number(&self.core.plan, &self.core.roster)?;
        let clocks = self.core.roster.sources().iter().filter_map(|seat| Some((seat.id, seat.clock?)));
        let clocks: Vec<_> = clocks.collect();
        self.core.verdicts().adopt_clocks(clocks);
        self.core.membership().publish(now);
        let wall = self.core.wall.begin(now);
        let begin = Begin {
            begun_utc_ns: wall.utc.as_nanos(),
            begun_ns: now.as_nanos(),
            clock_state: wall.state.code().into(),
            kind: self.core.annotation.kind.clone(),
            comment: self.core.annotation.comment.clone(),
            ..self.core.begun()
        };
        let (run, id) = (self.core.plan.run, self.core.plan.run_id);
        tracing::info!(%run, %id, "run {run} (id {}) begins: its sources and builders prepare for the first event, then it takes triggers by itself", id.short());
        self.core.outbox.journal(What::Begin(begin.clone()), now);
        self.core.begun = Some(begin.clone());
        self.core.roster.forget_begun();
        // A front end may be done and gone before the last peer has answered.
        self.core.without_readout = without_front_ends(&self.core.roster);
        self.core.permission = Permission { is_awaited: self.core.plan.asks_permission, remark: None };
        self.core.verdicts().tell_changes();
        self.core.outbox.send(Recipients::Everyone, Message::Begin(begin));
        self.core.phase = Phase::Beginning { until: now + self.core.plan.begin_timeout };
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
            self.core.roster.set_begun(seat);
            self.advance(now)?;
            if let (Seat::Builder(index), true) = (seat, self.core.phase.is_settling()) {
                self.core.membership().offer_slots(index, now);
            }
            return Ok(());
        }
        self.core.roster.note_highest(seat, begun.highest_run);
        let reason = reason_of(&begun.refusal);
        let (run, named) = (self.core.plan.run, self.core.plan.named(peer));
        let is_needed = self.core.phase.is_beginning() && needs(&self.core.roster, peer);
        let fate = match self.core.phase {
            _ if is_needed => "which does not begin",
            Phase::Gathering { .. } => "which has not begun",
            Phase::Ended => "which is over",
            _ => "which goes on without it",
        };
        tracing::warn!(peer = named, %run, reason, "{named} cannot take part in run {run}, {fate}: {reason}; correct that on its host, where the end of its log has the details");
        match self.core.phase {
            _ if is_needed => return Err(NotReady::Refused { peer, reason }),
            // An answer to a beginning that was given up.
            Phase::Gathering { .. } | Phase::Ended => {}
            _ => self.turn_away(peer, seat, reason, now),
        }
        Ok(())
    }

    /// Dismisses a peer that cannot take part in the run that is under way.
    fn turn_away(&mut self, peer: Peer, seat: Seat, reason: String, now: Instant) {
        let (run, named) = (self.core.plan.run, self.core.plan.named(peer));
        let verdict = format!(
            "{named} cannot take part in run {run}, which goes on without it: {reason}; before the next run, correct that on its host, where the end of its log has the details"
        );
        self.core.books.remark(verdict.clone(), &mut self.core.outbox, now);
        let to = self.core.roster.recipient(seat);
        self.core.outbox.send(to, Message::RunEnd(RunEnd { exit_code: 1, verdict }));
        self.core.roster.note_parting(seat, reason);
    }

    /// Ends the wait for answers. Returns an error that names the peers that are absent, or else
    /// those that have not answered; without those that owe nothing, the run starts.
    pub(super) fn stop_waiting(&mut self, now: Instant) -> Result<(), NotReady> {
        self.find_absent()?;
        let silent = self.core.roster.waits_for_begun();
        if silent.iter().any(|peer| needs(&self.core.roster, *peer)) {
            return Err(NotReady::Silent(silent));
        }
        if self.core.permission.is_awaited {
            self.core.permission.remark = Some(NO_PERMISSION.to_owned());
        }
        self.start(now);
        Ok(())
    }

    /// Returns an error if peers are absent, with the reasons.
    fn find_absent(&self) -> Result<(), NotReady> {
        let absent = self.core.roster.absent();
        if absent.is_empty() {
            return Ok(());
        }
        let reasons = absent.into_iter().map(|peer| (peer, self.core.roster.parting(peer).to_owned()));
        Err(NotReady::Missing(reasons.collect()))
    }

    /// Takes the answer to the question whether the run may begin.
    pub(super) fn permit(&mut self, answer: Result<Option<String>, String>, now: Instant) {
        if asks_permission(self.core) {
            let taken = answer.map_err(NotReady::Vetoed).and_then(|remark| {
                self.core.permission = Permission { is_awaited: false, remark };
                self.advance(now)
            });
            self.settle(taken, now);
        }
    }

    /// Lets the run take triggers.
    fn start(&mut self, now: Instant) {
        self.core.membership().publish(now);
        let sources = counted(self.core.roster.sources().len(), "source");
        let builders = counted(self.core.roster.builders().len(), "builder");
        let (run, id) = (self.core.plan.run, self.core.plan.run_id);
        tracing::info!(%run, %id, "run {run} takes triggers, with {sources} and {builders}: nothing needs to be done");
        self.core.plan.hold = false;
        self.core.phase = Phase::Running { until: self.core.plan.duration.map(|duration| now + duration) };
        self.core.permission.is_awaited = false;
        self.core.books.start(now);
        least_numbers::count(self.core, now);
        self.core.outbox.set_scale(self.core.begun().utc_zero_ns());
        self.core.outbox.journal(What::Started(Started {}), now);
        for builder in unheard(&self.core.roster) {
            let remark = format!(
                "{} could not say in time which runs its storage knows: if that holds files of an earlier run {run}, move them elsewhere",
                self.core.plan.named(builder)
            );
            tracing::warn!("{remark}");
            self.core.books.remark(remark, &mut self.core.outbox, now);
        }
        if let Some(remark) = self.core.permission.remark.take() {
            tracing::warn!("{remark}");
            self.core.books.remark(remark, &mut self.core.outbox, now);
        }
        for source in core::mem::take(&mut self.core.without_readout) {
            let remark = format!(
                "{} had no readout at the start of the run, because none of its front ends was connected: start its readout program, which may join during the run",
                self.core.plan.named(source)
            );
            tracing::warn!("{remark}");
            self.core.books.remark(remark, &mut self.core.outbox, now);
        }
        self.core.roster.hear_everybody(now);
        self.core.intake.start(now);
        self.core.assigner.open();
        self.core.membership().offer_all_slots(now);
        self.core.outbox.push(Output::Begun(Ok(())));
    }
}

/// Returns the number of the run: the configured one or, if none is configured, one that no storage
/// of a builder knows.
///
/// # Errors
/// Returns [`NotReady::NoNumber`] if a builder knows the highest possible number.
fn choose_number(plan: &RunPlan, roster: &Roster) -> Result<RunNumber, NotReady> {
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

/// Returns the registered sources that should have front ends, none of which is connected or has
/// sent a fragment for the run.
pub(super) fn without_front_ends(roster: &Roster) -> Vec<Peer> {
    let seats = roster.sources().iter().filter(|seat| seat.connection.is_some());
    let lacking = seats.filter(|seat| seat.lacks_front_end() && roster.owes(seat.id));
    lacking.map(|seat| Peer::Source(seat.id)).collect()
}

/// Returns the number that the run has if it begins now, for people.
pub(super) fn provisional_number(core: &SupervisorCore) -> RunNumber {
    match core.phase {
        Phase::Gathering { .. } => choose_number(&core.plan, &core.roster).unwrap_or(core.plan.run),
        _ => core.plan.run,
    }
}
