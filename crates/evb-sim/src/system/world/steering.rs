//! Requests of simulated operators to the supervisor.

use core::time::Duration;

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    supervisor::RunState,
    trigger::TriggerKind,
};

use super::{World, process::Process};
use crate::system::{
    failure::{Check, Failure},
    fault::Fault,
    host::Command,
    network::{Act, Happening, NodeIndex},
};

/// Time after which an operator repeats a request that found no supervisor or was told to wait.
const AGAIN: Duration = Duration::from_millis(100);

impl World<'_> {
    pub(super) fn has_external_trigger(&self) -> bool {
        self.scenario.trigger == TriggerKind::External
    }

    /// Sends a request to the supervisor, and returns its answer; `None` if no supervisor is
    /// running.
    fn ask(&mut self, command: Command) -> Option<Result<(), String>> {
        if !self.is_supervised() {
            return None;
        }
        let Some(Process::Supervisor(mut host)) = self.hosts[0].process.take() else { return None };
        let outcome = host.command(command, &mut self.around(0));
        self.hosts[0].process = Some(Process::Supervisor(host));
        self.network.wake_at(0, self.network.now());
        outcome.map_err(|failure| self.fail(failure)).ok()
    }

    fn state(&self) -> Option<RunState> {
        match &self.hosts[0].process {
            Some(Process::Supervisor(host)) => Some(host.progress().state),
            _ => None,
        }
    }

    /// Returns true if the run is running or paused.
    pub(super) fn goes_on(&self) -> bool {
        matches!(self.state(), Some(RunState::Running | RunState::Paused))
    }

    pub(super) fn steer(&mut self, fault: Fault) {
        match fault {
            Fault::Triggers { count } => drop(self.ask(Command::Trigger(count))),
            Fault::Stop => self.stop(self.run),
            Fault::Pause { .. } => drop(self.ask(Command::Pause)),
            // The supervisor refuses to exclude the last source that owes fragments.
            Fault::Exclude { source, ahead, .. } => drop(self.ask(Command::Exclude(source, ahead))),
            Fault::Add { builder } => self.add(self.run, self.scenario.node_of(Peer::Builder(builder))),
            // The supervisor may refuse to remove the last builder.
            Fault::Remove { builder, .. } if self.ask(Command::Remove(builder)) == Some(Ok(())) => {
                let node = self.scenario.node_of(Peer::Builder(builder));
                self.hosts[node].is_claimed = false;
            }
            _ => {}
        }
    }

    pub(super) fn resume(&mut self) {
        if self.state() == Some(RunState::Paused) {
            drop(self.ask(Command::Resume));
        }
    }

    /// Asks the supervisor to include a source. The request is repeated until a supervisor is
    /// running and a run is open, because the source stays excluded in the next run.
    pub(super) fn include(&mut self, source: SourceId) {
        let is_open = !matches!(self.state(), None | Some(RunState::Ended));
        if (self.ask(Command::Include(source)).is_none() || !is_open) && !self.is_over {
            self.later(Act::Include { source });
        }
    }

    /// Asks for the start of the run, and repeats the request until the run has begun.
    pub(super) fn begin_run(&mut self, run: u32) {
        if run != self.run || !matches!(self.state(), None | Some(RunState::Configured)) {
            return;
        }
        if let Some(Err(_)) = self.ask(Command::Start) {
            self.bring_missing();
        }
        let at = self.network.now() + 5 * AGAIN;
        self.network.schedule(at, Happening::World(Act::BeginRun { run }));
    }

    /// Starts builders that were removed in an earlier run, if a supervisor that was started again
    /// expects them, because the configuration names them.
    fn bring_missing(&mut self) {
        let Some(Process::Supervisor(host)) = &self.hosts[0].process else { return };
        for builder in host.builders() {
            let node = self.scenario.node_of(Peer::Builder(builder));
            if !self.hosts[node].is_member {
                self.bring(node, builder);
            }
        }
    }

    /// Asks the supervisor to stop the run, and repeats the request until the ledger is closed.
    pub(super) fn stop(&mut self, run: u32) {
        if run != self.run || self.closed > run {
            return;
        }
        // The request is repeated: a supervisor that was killed before it wrote the stop to its
        // journal has lost the request when it recovers.
        if !matches!(self.state(), Some(RunState::Stopping | RunState::Ended)) {
            drop(self.ask(Command::Stop));
        }
        let at = self.network.now() + 5 * AGAIN;
        self.network.schedule(at, Happening::World(Act::Stop { run }));
    }

    /// Sends some external triggers, and schedules the next ones until the run ends.
    pub(super) fn trigger(&mut self, run: u32) {
        if run != self.run || self.state() == Some(RunState::Ended) {
            return;
        }
        let count = 1 + self.rng.below(20);
        drop(self.ask(Command::Trigger(count)));
        let at = self.network.now() + Duration::from_millis(5 + self.rng.below(100));
        self.network.schedule(at, Happening::World(Act::Trigger { run }));
    }

    /// Asks the supervisor to add a builder to the run. The request is repeated later if the
    /// builder is still leaving, or if no supervisor is running.
    pub(super) fn add(&mut self, run: u32, node: NodeIndex) {
        let Peer::Builder(builder) = self.scenario.peer(node) else { return };
        if run != self.run {
            return;
        }
        match self.ask(Command::Add(builder)) {
            Some(Ok(())) => self.bring(node, builder),
            Some(Err(refusal)) if refusal.contains("leaving") => self.later(Act::Return { run, node }),
            Some(Err(refusal)) if refusal.contains("already") => {
                self.hosts[node].is_claimed = true;
            }
            None if !self.is_over => self.later(Act::Return { run, node }),
            // For any other refusal, or after the last run, the request is dropped.
            _ => {}
        }
    }

    fn bring(&mut self, node: NodeIndex, builder: BuilderId) {
        if self.hosts[node].process.is_some() && self.hosts[node].is_member {
            let what = format!("builder {builder} was added while its previous process has not left");
            self.say(|| what);
        }
        self.hosts[node].is_member = true;
        let at = self.network.now();
        self.network.schedule(at, Happening::World(Act::Start(node)));
        // The start is repeated, because a previous process that is about to leave prevents the
        // first one.
        self.network.schedule(at + 3 * AGAIN, Happening::World(Act::Start(node)));
    }

    fn later(&mut self, act: Act) {
        let at = self.network.now() + AGAIN;
        if at.since(self.calm_from) > super::PATIENCE {
            self.fail(Failure::new(
                Check::Steering,
                format!("the supervisor did not carry out {act:?} in time"),
            ));
        }
        self.network.schedule(at, Happening::World(act));
    }
}
