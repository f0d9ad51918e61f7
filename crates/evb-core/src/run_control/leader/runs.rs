//! One run after another: what happens in a run, its end, and the opening of the next one.

use std::collections::BTreeSet;

use super::{
    Changes, Effect, Goal, Input, Leader, LeaderOutput, OpenRun, PendingStart, RunEvent, Step,
    refusals::refusal,
};
use crate::{
    id::Peer,
    ledger::{Annotation, RunReport},
    quantities::split_remedy,
    run_control::{Occurrence, State, SystemError},
    supervisor::{Progress, RunPlan, RunState},
};

impl Leader {
    /// Handles what happened to the run and to the roles that this process hosts for it.
    pub(super) fn hear(&mut self, event: RunEvent) {
        match event {
            RunEvent::Progress(progress) => self.follow(progress),
            RunEvent::Begun { result, is_hosting } => self.handle_begun(result, is_hosting),
            RunEvent::Joined { peer, is_hosting } => {
                self.run.iter_mut().for_each(|run| run.hosted.extend([peer]));
                if is_hosting {
                    self.try_start(false);
                }
            }
            // A recovered run goes on without the roles that this process cannot start.
            RunEvent::NotJoined(error) if self.is_under_way() => {
                let run = self.run_in_words();
                let SystemError { refused_by, reason, remedy } = &error;
                tracing::warn!(%error, "{run}, which was recovered, goes on without {refused_by}, which this process cannot start before the next run: {reason}; {remedy}");
                self.status.last_error = Some(error.to_string());
            }
            RunEvent::NotJoined(error) => self.fail(error.to_string()),
            RunEvent::RoleEnded(peer, error) => self.report_failed(peer, &error),
            RunEvent::RoleLeft(peer) => self.bring_back(peer),
            RunEvent::Broken(reason) => {
                let run = self.run_in_words();
                self.drop_run();
                self.fail(format!("{run} ended early: {reason}"));
            }
            RunEvent::Over(report) => self.settle(&report),
        }
    }

    /// Returns the open run with its number, for people.
    fn run_in_words(&self) -> String {
        self.run.as_ref().map_or_else(|| "the run".to_owned(), |run| format!("run {}", run.plan.run))
    }

    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.status.state, State::Running | State::Paused | State::Stopping)
    }

    /// Follows the progress of the run: the state of run control changes with the state of the run.
    pub(super) fn follow(&mut self, progress: Progress) {
        let Some(run) = &mut self.run else { return };
        run.progress = progress;
        match (progress.state, self.status.state) {
            (RunState::Configured, State::Configured) if progress.ready => {
                self.enter(self.status.state.occur(Occurrence::PeersReady));
                self.try_start(false);
            }
            // The leader goes on with a recovered run, which needs no second start.
            (RunState::Recovering | RunState::Running | RunState::Paused, State::Configured)
                if !self.is_beginning =>
            {
                self.changes.excluded.clone_from(&run.plan.excluded);
                self.enter(self.status.state.occur(Occurrence::Recovered));
                self.answer_start(Ok(State::Running));
            }
            (RunState::Stopping, State::Running | State::Paused) => {
                self.enter(self.status.state.occur(Occurrence::LastTrigger));
            }
            _ => {}
        }
        // The supervisor may pause and resume the run by itself. `occur` ignores what changes
        // nothing.
        match progress.state {
            RunState::Paused => self.enter(self.status.state.occur(Occurrence::PausedByItself)),
            RunState::Running => self.enter(self.status.state.occur(Occurrence::ResumedByItself)),
            _ => {}
        }
    }

    /// Logs the failure of a source or builder of this process; all other roles go on.
    pub(super) fn report_failed(&mut self, peer: Peer, error: &str) {
        let Some(run) = &mut self.run else { return };
        run.hosted.remove(&peer);
        let (named, number) = (run.plan.named(peer), run.plan.run);
        let advice = match split_remedy(error).1 {
            Some(_) => " (for the next run, this process starts it by itself)",
            None => "; correct that before the next run, for which this process starts it again",
        };
        tracing::warn!(peer = named, %error, "{named} failed, and run {number} goes on without it: {error}{advice}");
        self.status.last_error = Some(format!("{named} failed: {error}; run {number} goes on without it"));
    }

    /// Handles the end of a run: opens the next one.
    pub(super) fn settle(&mut self, report: &RunReport) {
        self.drop_run();
        self.status.runs += 1;
        self.status.annotation = Annotation::default();
        let failure = match self.status.state {
            // The run ended before it was started.
            State::Configured => Some(&report.verdict),
            _ => report.failure.as_ref(),
        };
        let number = report.run;
        let how =
            if report.exit_code == 0 { "and is good, so nothing needs to be done" } else { "with problems" };
        tracing::info!(run = number, "run {number} is over, {how}: {}", report.verdict);
        if report.exit_code != 0 {
            self.status.last_error = Some(format!("run {number}: {}", report.verdict));
        }
        if let Some(failure) = failure {
            return self.fail(format!("run {number}: {failure}"));
        }
        let next = self.status.state.occur(Occurrence::Drained);
        if self.is_closing { self.enter(next) } else { self.open_run(Goal::Follow(next)) }
    }

    /// Enters the state Failed: answers a start that waits, keeps the cause for the status, and
    /// closes the run.
    pub(super) fn fail(&mut self, cause: String) {
        tracing::warn!(
            cause,
            "run control is in state Failed, and starts no run: {cause}; when that is mended, give `evbd ctl reset`, then `evbd ctl configure`"
        );
        let failed = self.status.state.occur(Occurrence::Failure);
        let error = SystemError::new(
            "the system",
            cause.clone(),
            "when that is mended, give `evbd ctl reset`, then `evbd ctl configure`",
        );
        self.answer_start(Err(refusal("start", error)));
        self.status.last_error = Some(cause.clone());
        self.close_run(&cause, Goal::Fail(failed));
    }

    /// Opens the next run to peers.
    pub(super) fn open_run(&mut self, goal: Goal) {
        let Changes { rate, builders, excluded } = self.changes.clone();
        self.ask(Step::Opening(goal), LeaderOutput::Open { builders, rate, excluded });
    }

    /// Handles that the next run was opened, or that it could not be opened: finishes the request
    /// for which it was opened.
    pub(super) fn handle_opened(&mut self, goal: Goal, result: Result<Box<RunPlan>, SystemError>) {
        match result {
            Ok(plan) => {
                let number = plan.run;
                tracing::info!(run = %number, "run {number} is open: its sources and builders register by themselves while they are running, so start those that are not");
                let (progress, hosted) = (Progress::default(), BTreeSet::new());
                self.run = Some(OpenRun { plan: *plan, progress, hosted });
                match goal {
                    Goal::Configure(request) => {
                        self.start = self.autostart.then_some(PendingStart { asked: None });
                        self.finish_command(request, State::Configured);
                    }
                    Goal::Builders(request, _) => self.answer(request, Ok(self.status.state)),
                    Goal::Follow(state) => self.enter(state),
                    Goal::Reset(_) | Goal::Fail(_) | Goal::End(_) => {}
                }
            }
            // The previous run is closed by now, so no run is left that could be started.
            Err(error) => match goal {
                Goal::Configure(request) => {
                    self.fail(format!("the run cannot be opened to sources and builders: {error}"));
                    self.answer_command(request, Err(refusal("configure", error)));
                }
                Goal::Builders(request, name) => {
                    self.fail(error.to_string());
                    self.answer(request, Err(refusal(name, error)));
                }
                _ => self.fail(format!("the next run cannot be opened: {error}")),
            },
        }
    }

    /// Closes a run that has not begun, or has failed, if one is open.
    pub(super) fn close_run(&mut self, cause: &str, goal: Goal) {
        let remedy = match goal {
            Goal::Configure(_) | Goal::Builders(..) => "start the run that is open now",
            _ => "give `evbd ctl configure`, then `evbd ctl start`",
        };
        let error = SystemError::new("run control", cause, remedy);
        self.answer_start(Err(refusal("start", error)));
        self.is_beginning = false;
        if self.drop_run() {
            self.ask(Step::Closing(goal), LeaderOutput::Close(cause.to_owned()));
        } else {
            self.handle_closed(goal);
        }
    }

    /// Forgets the run and its events that wait. Returns true if there was a run.
    pub(super) fn drop_run(&mut self) -> bool {
        self.inputs.retain(|input| matches!(input, Input::Request(..)));
        self.run.take().is_some()
    }

    /// Handles that the last run was closed, and goes on to the goal for which it was closed.
    pub(super) fn handle_closed(&mut self, goal: Goal) {
        match goal {
            Goal::Configure(_) => {
                self.changes = Changes::default();
                self.open_run(goal);
            }
            Goal::Builders(..) | Goal::Follow(_) => self.open_run(goal),
            Goal::Reset(number) => {
                self.status.last_error = None;
                self.finish_command(number, State::Unconfigured);
            }
            Goal::Fail(state) => self.enter(state),
            Goal::End(number) => {
                self.enter(State::Unconfigured);
                self.answer(number, Ok(State::Unconfigured));
            }
        }
    }

    /// Ends the run that is under way; the leader ends when the run is settled.
    pub(super) fn close(&mut self, number: u64, cause: String) {
        self.is_closing = true;
        match (&self.run, self.status.state) {
            (Some(_), State::Running | State::Paused) => {
                self.ask(Step::Changing(number, Effect::End), LeaderOutput::Stop(cause));
            }
            (Some(_), State::Stopping) => self.answer(number, Ok(State::Stopping)),
            _ => self.close_run(&cause, Goal::End(number)),
        }
    }
}
