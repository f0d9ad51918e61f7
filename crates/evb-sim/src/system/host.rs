//! Simulated hosts. Each host runs one process, which connects a state machine to the simulated
//! network and disks.

mod line;
mod joining;
mod stage;
mod source;
mod builder;
mod journal;
mod leading;
mod supervisor;

use std::collections::BTreeSet;

use evb_core::{
    id::{EventId, Peer, RunNumber},
    time::{Instant, WallClock},
};

use super::{
    conditions::wall_clock,
    counts::Counts,
    disk::{DiskState, Files, JournalFile},
    failure::{Check, Failure},
    network::{Network, NodeIndex},
    scenario::{Scenario, TURNS},
};
use crate::workload::Workload;

pub(crate) use builder::BuilderHost;
pub(crate) use source::SourceHost;
pub(crate) use supervisor::{Command, NotStarted, SupervisorHost};

/// The environment of a process.
pub(crate) struct Surroundings<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) network: &'a mut Network,
    pub(crate) node: NodeIndex,
    /// Offset of the host's clock from the simulated time, in ns.
    pub(crate) clock: i64,
    pub(crate) boot_id: &'a str,
    pub(crate) disk: DiskState,
    /// Given if the readout of the host's source delivers nothing; true if it is gone.
    pub(crate) mute: Option<bool>,
    pub(crate) files: &'a mut Files,
    pub(crate) journal: &'a mut JournalFile,
    pub(crate) records: &'a mut Records,
    pub(crate) workload: &'a Workload,
}

/// Facts recorded for the checks at the end of a run.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) counts: Counts,
    /// Events that a sink failed to write.
    pub(crate) failed: BTreeSet<(RunNumber, EventId)>,
}

/// The reason why a process ended on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The run is over.
    Over,
    /// The process failed, and its service manager starts a new process.
    Failed(String),
}

impl Surroundings<'_> {
    /// Returns the time on the clock of the host.
    pub(crate) fn now(&self) -> Instant {
        self.network.now().shifted(self.clock)
    }

    /// Returns a reading of the host's wall clock.
    pub(crate) fn wall_clock(&self) -> WallClock {
        wall_clock(self.scenario.seed, self.network.now())
    }

    /// Schedules the process to run at `at`, a time on the clock of the host.
    pub(crate) fn wake_at(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            self.network.wake_at(self.node, at.shifted(-self.clock));
        }
    }

    /// Adds a line to the trace.
    pub(crate) fn say(&mut self, text: impl FnOnce() -> String) {
        let (now, who) = (self.network.now(), self.scenario.peer(self.node));
        self.network.trace.line(now, || format!("{who}: {}", text()));
    }
}

/// A detector of processes that would loop for ever, because their state machine still reports a
/// due timer after it has handled everything.
#[derive(Debug, Default)]
struct Spinning {
    at: Instant,
    times: u32,
}

impl Spinning {
    fn check(&mut self, who: Peer, due: Option<Instant>, now: Instant) -> Result<(), Failure> {
        let is_due = due.is_some_and(|at| at <= now);
        self.times = if is_due && self.at == now { self.times + 1 } else { 0 };
        self.at = now;
        if self.times > TURNS {
            let what = format!(
                "{who} has handled everything, and a timer is still due, {TURNS} times at one instant"
            );
            return Err(Failure::new(Check::Spinning, what));
        }
        Ok(())
    }
}
