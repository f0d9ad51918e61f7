//! Transitions between the phases of a run: it begins, continues after a restart of the supervisor,
//! drains, waits for reports, and ends.

use super::{
    Output, Phase, Recipients, SupervisorCore, dispatch::Taken, journal::What, least_numbers,
    roster::is_back, summary::Summary,
};
use crate::{
    quantities::counted,
    time::Instant,
    wire::control::{Finish, Message, RunEnd, Stop},
};

/// Cause of the loss of events that waited for a slot until the end of the run.
const NO_FREE_SLOT: &str = "no builder had a free slot for them before the run ended; check the disks of the builders, then their logs";

impl SupervisorCore {
    /// Ends the wait for the run's peers and first readouts.
    pub(super) fn stop_gathering(&mut self, now: Instant) {
        if self.progress().ready {
            return self.begin_if_ready(now);
        }
        let problem = self.membership().not_started();
        self.begin_draining(&problem, now);
        self.failure(problem, now);
    }

    /// Ends the run: takes no more triggers, settles the outstanding events, and closes the ledger.
    pub fn stop(&mut self, cause: &str, now: Instant) {
        match self.phase {
            Phase::Gathering { .. } | Phase::Beginning { .. } => {
                let remark = format!("the run was stopped before it began, so it has no events: {cause}");
                self.books.remark(remark, &mut self.outbox, now);
                self.begin_draining(cause, now);
            }
            Phase::Running { .. } => self.stop_running(cause, now),
            // The supervisor first waits for builders to reconnect, and assigns the events of those
            // that do not to other builders; that may take longer than the drain itself.
            Phase::Recovering { .. } => self.stop_when_recovered(cause, now),
            Phase::Draining { .. } | Phase::Reporting { .. } | Phase::Ended => {}
        }
    }

    pub(super) fn stop_running(&mut self, cause: &str, now: Instant) {
        self.settle_pending(now);
        if self.phase.is_running() {
            self.begin_draining(cause, now);
        }
    }

    /// Takes no more triggers; the drain begins when the recovery is complete.
    fn stop_when_recovered(&mut self, cause: &str, now: Instant) {
        if !self.books.is_stopped() {
            tracing::info!(run = %self.plan.run, cause, "run {} takes no more triggers, and ends by itself when its sources and builders are back and its events are built: {cause}", self.plan.run);
            self.outbox.journal(What::Stopping(cause.to_owned()), now);
            self.settle_pending(now);
            self.books.stop(Some(now));
            self.intake.forget();
        }
    }

    /// Takes no more triggers, and tells all peers that the run ends when its events are built.
    pub(super) fn begin_draining(&mut self, cause: &str, now: Instant) {
        self.membership().publish(now);
        let (run, left) = (self.plan.run, counted(self.assigner.outstanding(), "event"));
        tracing::info!(%run, cause, "run {run} takes no more triggers, and ends by itself, with {left} still to be built and written: {cause}");
        self.outbox.journal(What::Stopping(cause.to_owned()), now);
        self.phase = Phase::Draining { until: now + self.plan.drain_time(), told: now };
        self.intake.forget();
        self.assigner.close(now);
        self.books.stop(Some(now));
        self.outbox.send(Recipients::Everyone, Message::Stop(Stop { cause: cause.to_owned() }));
        self.due.roster |= self.roster.stop_waiting();
    }

    /// Extends the time limit of the drain after progress, so that a slow sink costs no events.
    pub(super) fn prolong_drain(&mut self, now: Instant) {
        self.phase.drain_until(now + self.plan.drain_time());
    }

    /// Ends a drain that took too long: its events are lost, and the report names their builders.
    pub(super) fn give_outstanding_up(&mut self, now: Instant) {
        let waited = self.plan.drain_time().as_secs_f64();
        self.dispatch().lose_unassigned(NO_FREE_SLOT, now);
        for index in self.roster.builders().positions() {
            let id = self.roster.builder(index).id;
            let cause = format!("builder {id} finished no event in the last {waited} s; check its disk");
            self.dispatch().lose_events(index, cause, now);
        }
        self.finish(now);
    }

    /// Asks all peers for their last reports, after the last event has its outcome.
    pub(super) fn finish(&mut self, now: Instant) {
        self.membership().publish(now);
        self.books.drain(now);
        self.verdicts().ask_a_last_time(now);
        self.outbox.send(Recipients::Everyone, Message::Finish(Finish {}));
        self.phase = Phase::Reporting { until: now + self.plan.report_timeout };
        if !self.books.is_started() {
            // A run that never started has no counts, and peers that never received a roster have
            // no report.
            return self.close_ledger(now);
        }
        self.close_if_all_reported(now);
    }

    /// Ends the run: sums up the report, and tells the peers the verdict.
    pub(super) fn close_ledger(&mut self, now: Instant) {
        self.membership().publish(now);
        self.verdicts().conclude(now);
        self.phase = Phase::Ended;
        let drained = self.books.times().drained.unwrap_or(now);
        self.roster.end_absences(drained);
        let (plan, roster, assigner, books) = (&self.plan, &self.roster, &self.assigner, &self.books);
        let (begin, triggers) = (&self.begun(), self.intake.numbers.counts());
        let mut report = Summary { plan, roster, assigner, books, begin, triggers, drained }.report();
        report.annotation = self.annotation.clone();
        self.books.close(report.exit_code);
        self.outbox.journal(What::Ended(report.exit_code.into()), now);
        let end = RunEnd { exit_code: report.exit_code.into(), verdict: report.verdict.clone() };
        self.outbox.send(Recipients::Everyone, Message::RunEnd(end));
        self.outbox.push(Output::Ended(Box::new(report)));
    }

    /// Continues a recovered run as soon as all its peers have registered again.
    pub(super) fn check_recovered(&mut self, now: Instant) {
        if self.phase.is_recovering() && is_back(&self.roster) {
            self.go_on(now);
        }
    }

    /// Ends the recovery of a run: it goes on without the peers that have not come back.
    /// Requirements: docs/reference/protocol.md RUN-23.
    pub(super) fn go_on(&mut self, now: Instant) {
        const CAUSE: &str = "it did not register with the restarted supervisor";
        self.outbox.close_batches();
        let stopped = self.books.times().last_trigger_possible;
        self.phase = Phase::Running { until: None };
        self.membership().leave_absent(CAUSE, now);
        self.intake.restart(self.books.triggered(), now);
        least_numbers::count(self, now);
        let (run, left) = (self.plan.run, counted(self.assigner.outstanding(), "event"));
        tracing::info!(%run, "the recovered run {run} goes on, with {left} still to be built and written: nothing needs to be done");
        if stopped.is_some() {
            self.begin_draining("the triggers had ended before the supervisor was restarted", now);
            self.books.stop(stopped);
        } else if let Some((started, duration)) = self.books.times().started.zip(self.plan.duration) {
            self.phase = Phase::Running { until: Some((started + duration).max(now)) };
        }
    }

    /// Decides the external triggers that arrived before a change of the run's state.
    pub(super) fn settle_pending(&mut self, now: Instant) {
        self.intake.hurry();
        let taken = self.deciding(now).take_pending(now);
        self.drain_if_over(taken, now);
    }

    /// Ends the run's triggers if all events of the run are assigned.
    pub(super) fn drain_if_over(&mut self, taken: Taken, now: Instant) {
        if taken.is_break() {
            self.begin_draining("all events of the run are assigned", now);
        }
    }
}
