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

const REPORT: &str = "report this defect of evb";
/// The remedy after that which the reason itself has.
const AGAIN: &str = "then start this source or builder again";

impl From<RoleError> for Failure {
    fn from(error: RoleError) -> Self {
        Self::from(&error)
    }
}

impl From<&RoleError> for Failure {
    fn from(error: &RoleError) -> Self {
        let (code, fault, remedy) = match error {
            RoleError::Join(ConnectError::Resolve(reason)) => return Self::from(reason),
            RoleError::Join(ConnectError::Unreachable { .. }) => (EVB_JOIN, EVB_FAULT_PEER, AGAIN),
            RoleError::Join(ConnectError::Bind { .. }) => (EVB_JOIN, EVB_FAULT_OPERATOR, AGAIN),
            RoleError::Join(ConnectError::Refused { .. } | ConnectError::Path(_)) => {
                (EVB_JOIN, EVB_FAULT_OPERATOR, AGAIN)
            }
            RoleError::Join(ConnectError::Handshake { .. }) => (EVB_JOIN, EVB_FAULT_PEER, AGAIN),
            RoleError::Listen { .. } => (EVB_LISTEN, EVB_FAULT_OPERATOR, AGAIN),
            RoleError::Resolve(reason) => return Self::from(reason),
            RoleError::Supervisor(_) | RoleError::Malformed(_) | RoleError::Roster(_) => {
                (EVB_PROTOCOL, EVB_FAULT_PEER, AGAIN)
            }
            RoleError::Lane(_) => (EVB_PROTOCOL, EVB_FAULT_PEER, AGAIN),
            RoleError::Abandoned { .. } => (
                EVB_LOST,
                EVB_FAULT_PEER,
                "check its process, its host and the network to it; its log says more",
            ),
            RoleError::Sink(_) => (EVB_SINK, EVB_FAULT_CALLER, AGAIN),
            RoleError::SinkGone => {
                (EVB_SINK, EVB_FAULT_CALLER, "the log of this program has the text of the panic")
            }
            RoleError::System(_) => (EVB_SYSTEM, EVB_FAULT_SYSTEM, AGAIN),
            RoleError::Memory { .. } => (EVB_MEMORY, EVB_FAULT_OPERATOR, AGAIN),
            RoleError::NoUdp => (EVB_UNSUPPORTED, EVB_FAULT_OPERATOR, AGAIN),
            RoleError::Clock(_) => (EVB_INVALID, EVB_FAULT_CALLER, "in C, that is `options.clock`"),
            RoleError::Aborted => (EVB_ABORTED, EVB_FAULT_CALLER, "else nothing needs to be done"),
            RoleError::Unwanted => (EVB_ABORTED, EVB_FAULT_CALLER, AGAIN),
            // `RoleError` may get more variants.
            RoleError::Vanished | _ => {
                (EVB_INTERNAL, EVB_FAULT_EVB, "the log of this program has what came before")
            }
        };
        Self::new(code, fault, error.to_string(), remedy)
    }
}

impl From<&ResolveError> for Failure {
    fn from(error: &ResolveError) -> Self {
        Self::new(EVB_JOIN, EVB_FAULT_OPERATOR, error.to_string(), AGAIN)
    }
}

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::new(EVB_KEY, EVB_FAULT_OPERATOR, error.to_string(), AGAIN)
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
        let (reason, remedy) = match error {
            Refused::Oversize { event, size, limit } => {
                let (size, limit) = (size.count(), limit.count());
                let reason = format!(
                    "event {event}: the fragment has {size} B, more than max_fragment = {limit} B, so the source did not take it, and the event is incomplete without one"
                );
                (
                    reason,
                    "push a smaller fragment for this event, or raise `options.max_fragment` for the next run",
                )
            }
            Refused::TooFarAhead { .. } | Refused::EventZero => {
                (error.to_string(), "the source did not take this fragment, and takes others")
            }
        };
        Self::new(EVB_REFUSED, EVB_FAULT_CALLER, reason, remedy)
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
                (EVB_PLAN, EVB_FAULT_CALLER, "then start the run again")
            }
            SupervisorError::Aborted => (EVB_ABORTED, EVB_FAULT_CALLER, "else nothing needs to be done"),
            _ => (EVB_SYSTEM, EVB_FAULT_SYSTEM, "then start the run again"),
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
        let reason = "the source takes no more fragments, because its run is over, or it has failed";
        Self::new(
            EVB_ENDED,
            EVB_FAULT_NONE,
            reason,
            "call evb_source_finished, which says whether the run is over, or why the source has failed",
        )
    }
}
