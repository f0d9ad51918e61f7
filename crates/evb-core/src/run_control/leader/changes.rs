//! Changes to the current run and the runs that follow: the trigger rate, and the builders that
//! take part.

use super::{
    Effect, Goal, Leader, LeaderOutput, Step,
    refusals::{NEXT_RUN, refusal},
};
use crate::{
    id::{BuilderId, Peer, SourceId},
    quantities::{counted, split_remedy},
    run_control::{Command, Refusal, State, SystemError},
    supervisor::{OwingRequest, RunChange, RunState},
    units::Frequency,
};

impl Leader {
    pub(super) fn set_rate(&mut self, number: u64, rate: Frequency) {
        if !self.is_open() {
            return self.answer(number, Err(self.no_run("rate")));
        }
        let change = LeaderOutput::Change(RunChange::SetRate(rate));
        self.ask(Step::Changing(number, Effect::Rate(rate)), change);
    }

    pub(super) fn learn(&mut self, number: u64, source: SourceId) {
        if !self.is_open() {
            return self.answer(number, Err(self.no_run("learn")));
        }
        let change = LeaderOutput::Change(RunChange::Learn(source));
        self.ask(Step::Changing(number, Effect::Learnt), change);
    }

    /// Excludes sources from the run and the runs that follow, or includes them again.
    pub(super) fn change_owing(&mut self, number: u64, request: OwingRequest) {
        let name = owing_name(&request);
        if !self.is_open() {
            return self.answer(number, Err(self.no_run(name)));
        }
        if request.why.trim().is_empty() && request.excludes {
            let error = SystemError::new(
                "run control",
                format!("the request does not say why {} is to be excluded", subject(&request)),
                "add --why \"TEXT\" (`why` in an HTTP request), for those who read the run's record later",
            );
            return self.answer(number, Err(refusal(name, error)));
        }
        let change = LeaderOutput::Change(RunChange::Owe(request.clone()));
        self.ask(Step::Changing(number, Effect::Owing(request)), change);
    }

    /// Adds or removes a builder, if the run can do without and the system admits it.
    pub(super) fn change_builders_if_possible(&mut self, number: u64, id: BuilderId, request: &'static str) {
        let Some(run) = self.run.as_ref().filter(|_| self.is_open()) else {
            return self.answer(number, Err(self.no_run(request)));
        };
        let builders = &run.plan.builders;
        let named = Peer::Builder(id);
        let (reason, remedy) = match (request, builders.binary_search(&id)) {
            ("add-builder", Ok(_)) => {
                (format!("{named} takes part in the run already"), "nothing needs to be done")
            }
            ("remove-builder", Err(_)) => (
                format!("{named} does not take part in the run"),
                "nothing needs to be done; `evbd ctl status` lists the builders that take part",
            ),
            ("remove-builder", Ok(_)) if builders.len() == 1 => (
                format!("{named} is the last builder of the run"),
                "add another one first: `evbd ctl add-builder ID`",
            ),
            (_, Ok(_)) => return self.change_builders(number, id, request),
            (_, Err(_)) => return self.ask(Step::Admitting(number, id), LeaderOutput::Admit(id)),
        };
        let error = SystemError::new("run control", reason, remedy);
        self.answer(number, Err(refusal(request, error)));
    }

    /// Adds or removes a builder that is known to be absent or present.
    pub(super) fn change_builders(&mut self, number: u64, id: BuilderId, request: &'static str) {
        let Some(run) = &self.run else { return self.answer(number, Err(self.no_run(request))) };
        let mut builders = run.plan.builders.clone();
        let change = match builders.binary_search(&id) {
            Ok(index) => {
                builders.remove(index);
                RunChange::RemoveBuilder(id)
            }
            Err(index) => {
                builders.insert(index, id);
                RunChange::AddBuilder(id)
            }
        };
        if self.status.state == State::Configured {
            // The run has not begun, so it is closed and opened again, and all peers register
            // again.
            self.changes.builders = Some(builders);
            let goal = Goal::Builders(number, request);
            return self.close_run("an operator changed the builders of the run", goal);
        }
        let added = (change == RunChange::AddBuilder(id)).then_some(id);
        let effect = Effect::Builders { request, builders, added };
        self.ask(Step::Changing(number, effect), LeaderOutput::Change(change));
    }

    /// Notes that a change of the run is made, or was refused.
    pub(super) fn finish_change(&mut self, number: u64, effect: Effect, result: Result<(), String>) {
        let is_stop = matches!(effect, Effect::Command(Command::Stop, _));
        let usual_remedy = if is_stop { "nothing needs to be done" } else { NEXT_RUN };
        let outcome = |request: &str| {
            result.map_err(|text| {
                let (reason, remedy) = split_remedy(&text);
                refusal(request, SystemError::new("the supervisor", reason, remedy.unwrap_or(usual_remedy)))
            })
        };
        let outcome = match effect {
            Effect::Command(command, next) => {
                return match outcome(command.name()) {
                    Ok(()) => self.finish_command(number, next),
                    Err(refusal) => self.answer_command(number, Err(refusal)),
                };
            }
            // An error means that the run is over already and need not be stopped.
            Effect::End => {
                self.enter(State::Stopping);
                Ok(())
            }
            Effect::Rate(rate) => outcome("rate").map(|()| self.changes.rate = Some(rate)),
            Effect::Learnt => outcome("learn"),
            Effect::Owing(request) => outcome(owing_name(&request)).map(|()| self.keep_owing(request)),
            Effect::Builders { request, builders, added } => {
                outcome(request).map(|()| self.set_builders(builders, added))
            }
        };
        self.answer(number, outcome.map(|()| self.status.state));
    }

    /// Remembers for the next runs which sources are excluded.
    fn keep_owing(&mut self, request: OwingRequest) {
        for source in request.sources {
            if request.excludes {
                self.changes.excluded.entry(source).or_insert_with(|| request.why.clone());
            } else {
                self.changes.excluded.remove(&source);
            }
        }
    }

    fn set_builders(&mut self, builders: Vec<BuilderId>, added: Option<BuilderId>) {
        if let Some(run) = &mut self.run {
            run.plan.builders.clone_from(&builders);
        }
        self.changes.builders = Some(builders);
        added.into_iter().for_each(|id| self.bring(id));
    }

    /// Starts a builder that was added to the run, if this process hosts it. A builder that is
    /// still leaving is left alone.
    fn bring(&mut self, id: BuilderId) {
        if self.run.as_ref().is_some_and(|run| !run.hosted.contains(&Peer::Builder(id))) {
            self.outputs.push_back(LeaderOutput::Bring(id));
        }
    }

    /// Restarts a builder that has left the current run, if it was added again while it was
    /// leaving.
    pub(super) fn bring_back(&mut self, peer: Peer) {
        let is_open = self.is_open();
        let Some(run) = &mut self.run else { return };
        run.hosted.remove(&peer);
        let goes_on = is_open && matches!(run.progress.state, RunState::Running | RunState::Paused);
        match peer {
            Peer::Builder(id) if goes_on && run.plan.builders.contains(&id) => self.bring(id),
            _ => {}
        }
    }

    fn is_open(&self) -> bool {
        self.run.is_some() && matches!(self.status.state, State::Configured | State::Running | State::Paused)
    }

    /// Returns the refusal of a request that needs an open run, while there is none.
    fn no_run(&self, request: &str) -> Refusal {
        let remedy = match self.status.state {
            State::Unconfigured => "give `evbd ctl configure` first",
            State::Stopping => "the run is stopping: wait until `evbd ctl status` shows the state Configured",
            State::Failed => {
                "read the reason in `evbd ctl status`, then give `evbd ctl reset` and `evbd ctl configure`"
            }
            State::Configured | State::Running | State::Paused => {
                "the next run opens by itself in some seconds: then ask again"
            }
        };
        let refused_by = format!("state {}", self.status.state);
        let error = SystemError::new(refused_by, "there is no run that can be changed", remedy);
        refusal(request, error)
    }
}

/// Returns the sources that a request concerns, for people.
fn subject(request: &OwingRequest) -> String {
    match request.sources.as_slice() {
        [source] => Peer::Source(*source).to_string(),
        sources => counted(sources.len(), "source"),
    }
}

fn owing_name(request: &OwingRequest) -> &'static str {
    if request.excludes { "exclude" } else { "include" }
}
