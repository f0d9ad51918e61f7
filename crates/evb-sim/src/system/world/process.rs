//! [`Process`]: the process of a simulated host, in one of the three roles.

use evb_core::{
    id::{BuilderId, SourceId},
    ledger::RunReport,
    rng::Rng,
    supervisor::RunPlan,
};

use crate::system::{
    failure::Failure,
    host::{BuilderHost, Exit, NotStarted, SourceHost, SupervisorHost, Surroundings},
};

pub(super) enum Process {
    Supervisor(Box<SupervisorHost>),
    Source(Box<SourceHost>),
    Builder(Box<BuilderHost>),
}

impl Process {
    pub(super) fn lead(plan: RunPlan, around: &mut Surroundings<'_>) -> Result<Self, NotStarted> {
        SupervisorHost::new(plan, around).map(|host| Self::Supervisor(Box::new(host)))
    }

    pub(super) fn source(id: SourceId, around: &Surroundings<'_>) -> Self {
        Self::Source(Box::new(SourceHost::new(id, around)))
    }

    pub(super) fn builder(id: BuilderId, around: &mut Surroundings<'_>) -> Self {
        Self::Builder(Box::new(BuilderHost::new(id, around)))
    }

    pub(super) fn turn(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        match self {
            Self::Supervisor(host) => host.turn(around).map(|()| None),
            Self::Source(host) => host.turn(around),
            Self::Builder(host) => host.turn(around),
        }
    }

    pub(super) fn take_report(&mut self) -> Option<Box<RunReport>> {
        match self {
            Self::Supervisor(host) => host.take_report(),
            Self::Source(_) | Self::Builder(_) => None,
        }
    }

    /// Leaves the disk as it is if the process dies now: a random part of the current write is on
    /// the disk.
    pub(super) fn tear(&self, around: &mut Surroundings<'_>, rng: &mut Rng) {
        match self {
            Self::Supervisor(host) => host.tear(around, rng),
            Self::Builder(host) => host.tear(around, rng),
            Self::Source(_) => {}
        }
    }
}
