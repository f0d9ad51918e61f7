//! Changes to the current run and the runs that follow: the trigger rate, and the builders that
//! take part.

use evb_core::{
    id::{BuilderId, Peer},
    run_control::{Refusal, State},
    supervisor::RunState,
    units::Frequency,
};

use super::{
    super::{System, SystemError},
    Leader,
    refusals::refusal,
};
use crate::supervisor::SteeringError;

/// Changes requested on top of the configuration, for all runs until the next `configure`.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) rate: Option<Frequency>,
    pub(super) builders: Option<Vec<BuilderId>>,
}

impl<S: System> Leader<S> {
    pub(super) async fn set_rate(&mut self, rate: Frequency) -> Result<(), Refusal> {
        let Some(run) = self.run.as_ref().filter(|_| self.is_open()) else { return Err(self.no_run("rate")) };
        let remedy = "configure a trigger with a rate, such as kind = \"periodic\"";
        let refused = |error: SteeringError| SystemError::new("the trigger", error.to_string(), remedy);
        run.handle.set_rate(rate).await.map_err(|error| refusal("rate", refused(error)))?;
        self.changes.rate = Some(rate);
        Ok(())
    }

    pub(super) async fn change_builders(&mut self, request: &str, id: BuilderId) -> Result<(), Refusal> {
        let Some(run) = self.run.as_ref().filter(|_| self.is_open()) else {
            return Err(self.no_run(request));
        };
        let mut builders = run.plan.builders.clone();
        let place = builders.binary_search(&id);
        let problem = match (request, place) {
            ("add-builder", Ok(_)) => Some(("it takes part in the run already", "nothing needs to be done")),
            ("remove-builder", Err(_)) => {
                Some(("it does not take part in the run", "`evbd ctl status` lists the builders that do"))
            }
            ("remove-builder", Ok(_)) if builders.len() == 1 => {
                Some(("it is the last builder of the run", "add another builder first"))
            }
            (_, Ok(index)) => {
                builders.remove(index);
                None
            }
            (_, Err(index)) => {
                builders.insert(index, id);
                None
            }
        };
        if let Some((reason, remedy)) = problem {
            return Err(refusal(request, SystemError::new(Peer::Builder(id).to_string(), reason, remedy)));
        }
        if place.is_err() {
            self.system.admit_builder(id).map_err(|error| refusal(request, error))?;
        }
        if self.state == State::Configured {
            // The run has not begun, so it is closed and opened again, and all peers register
            // again.
            self.changes.builders = Some(builders);
            self.give_up_open_run("the builders of the run have changed").await;
            if let Err(error) = self.open().await {
                self.fail(error.to_string()).await;
                return Err(refusal(request, error));
            }
            return Ok(());
        }
        let Some(run) = &mut self.run else { return Err(self.no_run(request)) };
        let changed = match place {
            Ok(_) => run.handle.remove_builder(id).await,
            Err(_) => run.handle.add_builder(id).await,
        };
        let refused = |error: SteeringError| {
            SystemError::new(
                "the supervisor",
                error.to_string(),
                "see the state of the run with `evbd ctl status`, or try between runs",
            )
        };
        changed.map_err(|error| refusal(request, refused(error)))?;
        run.plan.builders.clone_from(&builders);
        self.changes.builders = Some(builders);
        if place.is_err() {
            self.bring(id);
        }
        Ok(())
    }

    /// Starts a builder that was added to the run, if this process hosts it. A builder that is
    /// still leaving is left alone.
    fn bring(&mut self, id: BuilderId) {
        let Some(run) = self.run.as_mut().filter(|run| !run.hosts(Peer::Builder(id))) else { return };
        if let Some(joining) = self.system.join_builder(run.address, id) {
            run.join(joining);
        }
    }

    /// Restarts a builder that has left the current run, if it was added again while it was
    /// leaving.
    pub(super) fn bring_back(&mut self, peer: Peer) {
        let Some(run) = self.run.as_ref().filter(|_| self.is_open()) else { return };
        let goes_on = matches!(run.progress().state, RunState::Running | RunState::Paused);
        match peer {
            Peer::Builder(id) if goes_on && run.plan.builders.contains(&id) => self.bring(id),
            _ => {}
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Configured | State::Running | State::Paused)
    }

    fn no_run(&self, request: &str) -> Refusal {
        let error = SystemError::new(
            format!("state {}", self.state),
            "there is no run to change",
            "configure first, or wait until the last run is settled",
        );
        refusal(request, error)
    }
}
