//! Inputs and outputs of the leader.

use std::{collections::BTreeMap, sync::Arc};

use super::super::{Command, Refusal, State, SystemError};
use crate::{
    id::{BuilderId, Peer, SourceId},
    ledger::{Annotation, RunReport},
    supervisor::{BeginError, OwingRequest, Progress, RunChange, RunPlan},
    units::Frequency,
};

/// A request of an operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Carry out a command of the table.
    Command(Command),
    /// Start the run with an annotation.
    Start(Annotation),
    /// Set the trigger rate of this run and of the runs that follow.
    Rate(Frequency),
    /// Add a builder to this run and to the runs that follow.
    Add(BuilderId),
    /// Remove a builder from this run and from the runs that follow.
    Remove(BuilderId),
    /// Take the present timestamps of a source as the right ones.
    Learn(SourceId),
    /// Exclude sources from this run and from the runs that follow, or include them again.
    Owe(OwingRequest),
    /// End the run that is under way because of this cause, and then the leader.
    Close(String),
}

/// A change in the state of an open run or of its roles.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEvent {
    /// The run's progress has changed.
    Progress(Progress),
    /// The result of [`LeaderOutput::Begin`].
    Begun {
        /// The result.
        result: Result<(), BeginError>,
        /// True if all sources and builders of this process have joined.
        is_hosting: bool,
    },
    /// A source or builder of this process has joined the run.
    Joined {
        /// The source or builder.
        peer: Peer,
        /// True if all sources and builders of this process have joined.
        is_hosting: bool,
    },
    /// A source or builder of this process could not join the run.
    NotJoined(SystemError),
    /// A source or builder of this process ended with an error.
    RoleEnded(Peer, String),
    /// A source or builder of this process has ended normally.
    RoleLeft(Peer),
    /// The ledger is closed, and all roles of this process have ended.
    Over(Arc<RunReport>),
    /// The supervisor could not go on.
    Broken(String),
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaderOutput {
    /// Answer the request with this number.
    Answer {
        /// Number of the request.
        number: u64,
        /// The state after the request, or the reason why it is refused.
        outcome: Result<State, Refusal>,
    },
    /// Let the system read its configuration. The result is [`Done::System`].
    Configure,
    /// Ask the system if that builder may take part. The result is [`Done::System`].
    Admit(BuilderId),
    /// Open the next run, which does not begin by itself, with these changes to its plan. The
    /// result is [`Done::Opened`].
    Open {
        /// Builders that take part instead of the plan's.
        builders: Option<Vec<BuilderId>>,
        /// Trigger rate instead of the plan's.
        rate: Option<Frequency>,
        /// Sources that are excluded from the first event on, with the operator's reasons.
        excluded: BTreeMap<SourceId, String>,
    },
    /// Begin the open run with this annotation. [`RunEvent::Begun`] has the result.
    Begin(Annotation),
    /// Change the open run. The result is [`Done::Changed`].
    Change(RunChange),
    /// Ask the open run to end because of this cause. The result is [`Done::Changed`].
    Stop(String),
    /// Start that builder, if this process hosts it.
    Bring(BuilderId),
    /// End the open run because of this cause, and wait until it is over; no event of the run may
    /// follow. The result is [`Done::Closed`].
    Close(String),
    /// The leader has ended.
    Ended,
}

/// The result of an output.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// The system's answer.
    System(Result<(), SystemError>),
    /// The plan of the run that is open now, or the reason why there is none.
    Opened(Result<Box<RunPlan>, SystemError>),
    /// The change of the run is made, or was refused for this reason.
    Changed(Result<(), String>),
    /// The run is over, and all its roles have ended.
    Closed,
}

/// Status of the leader, which operators see.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaderStatus {
    /// State of the system.
    pub state: State,
    /// The operators' annotation of the run that is under way, or of the next one.
    pub annotation: Annotation,
    /// Text of the last error.
    pub last_error: Option<String>,
    /// Number of runs that have ended.
    pub runs: u64,
}
