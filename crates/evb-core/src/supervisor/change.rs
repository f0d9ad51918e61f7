//! [`ChangeError`] and [`NotReady`]: the reasons why an operator may not change or begin a run now.

use crate::{
    id::{BuilderId, Peer},
    wire::control::{MAX_BUILDERS, MAX_OUTSTANDING},
};

/// The reason why a run cannot begin now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// These peers have not registered.
    #[error("not registered: {}", names(.0))]
    Missing(Vec<Peer>),
    /// These sources are not connected to all builders yet.
    #[error("not connected to all builders yet: {}", names(.0))]
    Unconnected(Vec<Peer>),
    /// The run has begun, or is over.
    #[error("the run has begun already")]
    Begun,
}

fn names(peers: &[Peer]) -> String {
    peers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The reason why a run is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The run has not begun, or takes no more triggers.
    #[error("no run is under way; start one first")]
    NotRunning,
    /// The run takes no triggers already.
    #[error("the run is paused already; use resume to continue it")]
    Paused,
    /// The run takes triggers already.
    #[error("the run is not paused; nothing needs to be done")]
    NotPaused,
    /// The run's trigger has no rate.
    #[error(
        "the trigger of this run has no rate; only periodic, poisson, gaussian and burst triggers have one"
    )]
    NoRate,
    /// This builder may register already.
    #[error("builder {0} is part of the run already")]
    KnownBuilder(BuilderId),
    /// This builder was removed, but has not left yet.
    #[error("builder {0} is leaving the run; add it when it has left, which the status shows")]
    LeavingBuilder(BuilderId),
    /// The run has no builder of that number.
    #[error("the run has no builder {0}, or it is leaving already")]
    UnknownBuilder(BuilderId),
    /// The last builder cannot be removed.
    #[error("builder {0} is the last one; stop the run, or add another builder first")]
    LastBuilder(BuilderId),
    /// Sources hold a lane to each, in sets of a fixed size.
    #[error("a run has at most {MAX_BUILDERS} builders")]
    TooManyBuilders,
    /// Sources are told of all outstanding events when one of their builders is lost.
    #[error(
        "one more builder with {0} slots could hold too many events: a run has at most {MAX_OUTSTANDING} outstanding"
    )]
    TooManyOutstanding(u32),
}
