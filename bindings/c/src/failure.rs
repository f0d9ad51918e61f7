//! Translation of evb's errors: code, side at fault, and remedy.

use evb_rs::{
    local::LocalError,
    network::{ConnectError, ResolveError},
    role::RoleError,
    security::KeyError,
    source::{PushError, Refused},
    supervisor::{RunOver, SupervisorError},
};

use crate::error::{Failure, evb_code::*, evb_fault::*};

const COMPARE: &str = "compare the configurations of this program and of the supervisor";
const REPORT: &str = "report this defect of evb";
const VERSIONS: &str = "use the same version of evb on all hosts";

impl From<RoleError> for Failure {
    fn from(error: RoleError) -> Self {
        Self::from(&error)
    }
}

impl From<&RoleError> for Failure {
    fn from(error: &RoleError) -> Self {
        let (code, fault, remedy) = match error {
            RoleError::Join(ConnectError::Resolve(reason)) => return Self::from(reason),
            RoleError::Join(ConnectError::Unreachable { .. }) => {
                (EVB_JOIN, EVB_FAULT_PEER, "start the supervisor, or check its address and the firewall")
            }
            RoleError::Join(ConnectError::Bind { .. }) => {
                (EVB_JOIN, EVB_FAULT_OPERATOR, "set `bind` to an address of this host")
            }
            RoleError::Join(ConnectError::Refused { .. } | ConnectError::Path(_)) => {
                (EVB_JOIN, EVB_FAULT_OPERATOR, COMPARE)
            }
            RoleError::Join(ConnectError::Handshake { .. }) => (EVB_JOIN, EVB_FAULT_PEER, COMPARE),
            RoleError::Listen { .. } => {
                (EVB_LISTEN, EVB_FAULT_OPERATOR, "listen on a free port of an address of this host")
            }
            RoleError::Resolve(reason) => return Self::from(reason),
            RoleError::Supervisor(_) | RoleError::Malformed(_) | RoleError::Roster(_) => {
                (EVB_PROTOCOL, EVB_FAULT_PEER, VERSIONS)
            }
            RoleError::Lane(_) => (EVB_PROTOCOL, EVB_FAULT_PEER, VERSIONS),
            RoleError::Abandoned { .. } => {
                (EVB_LOST, EVB_FAULT_PEER, "check the supervisor and the network, then start a new run")
            }
            RoleError::Sink(_) => (EVB_SINK, EVB_FAULT_CALLER, "make the sink's `begin` succeed"),
            RoleError::SinkGone => {
                (EVB_SINK, EVB_FAULT_CALLER, "correct the sink, then start the builder again")
            }
            RoleError::System(_) => {
                (EVB_SYSTEM, EVB_FAULT_SYSTEM, "raise the limits of the process, or end other programs")
            }
            RoleError::Memory { .. } => (
                EVB_MEMORY,
                EVB_FAULT_OPERATOR,
                "use fewer slots or smaller fragments, or permit more memory",
            ),
            RoleError::NoUdp => (EVB_UNSUPPORTED, EVB_FAULT_OPERATOR, "use a build of evb with UDP, or TCP"),
            RoleError::Clock(_) => (EVB_INVALID, EVB_FAULT_CALLER, "correct the values of `options.clock`"),
            RoleError::Aborted | RoleError::Unwanted => {
                (EVB_ABORTED, EVB_FAULT_CALLER, "do not abort before the run is over")
            }
            // `RoleError` may get more variants.
            RoleError::Vanished | _ => (EVB_INTERNAL, EVB_FAULT_EVB, REPORT),
        };
        Self::new(code, fault, error.to_string(), remedy)
    }
}

impl From<&ResolveError> for Failure {
    fn from(error: &ResolveError) -> Self {
        let remedy = "write an address as host:port, with a name that this host knows";
        Self::new(EVB_JOIN, EVB_FAULT_OPERATOR, error.to_string(), remedy)
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        let remedy = "make a key with `evbd keygen FILE`, readable by its owner only";
        Self::new(EVB_KEY, EVB_FAULT_OPERATOR, error.to_string(), remedy)
    }
}

impl From<PushError> for Failure {
    fn from(error: PushError) -> Self {
        match error {
            PushError::Refused(reason) => Self::from(reason),
            PushError::Ended => Self::ended(),
            // `PushError` may get more variants; the bindings reserve nothing.
            error => Self::new(EVB_INTERNAL, EVB_FAULT_EVB, error.to_string(), REPORT),
        }
    }
}

impl From<Refused> for Failure {
    fn from(error: Refused) -> Self {
        let remedy = match error {
            Refused::Oversize { .. } => "raise `max_fragment` of the source",
            Refused::TooFarAhead { .. } | Refused::EventZero => "number events from 1 without gaps",
        };
        Self::new(EVB_REFUSED, EVB_FAULT_CALLER, error.to_string(), remedy)
    }
}

impl From<LocalError> for Failure {
    fn from(error: LocalError) -> Self {
        let text = error.to_string();
        let cause = match error {
            LocalError::Supervisor(cause) => Self::from(&cause),
            LocalError::Role { reason, .. } => Self::from(&reason),
            _ => Self::new(EVB_INTERNAL, EVB_FAULT_EVB, "", REPORT),
        };
        Self { reason: text, ..cause }
    }
}

impl From<&SupervisorError> for Failure {
    fn from(error: &SupervisorError) -> Self {
        let (code, fault, remedy) = match error {
            SupervisorError::Plan(_) | SupervisorError::TriggerInput => {
                (EVB_PLAN, EVB_FAULT_CALLER, "correct the options of the run")
            }
            SupervisorError::Aborted => {
                (EVB_ABORTED, EVB_FAULT_CALLER, "do not abort before the run is over")
            }
            _ => (EVB_SYSTEM, EVB_FAULT_SYSTEM, "raise the limits of the process, or end other programs"),
        };
        Self::new(code, fault, error.to_string(), remedy)
    }
}

impl From<RunOver> for Failure {
    fn from(_: RunOver) -> Self {
        Self::ended()
    }
}

impl Failure {
    /// Returns the error of a source or run that has ended.
    pub(crate) fn ended() -> Self {
        let reason = "the run is over, or the source has failed";
        Self::new(EVB_ENDED, EVB_FAULT_NONE, reason, "ask for the outcome of the run")
    }
}
