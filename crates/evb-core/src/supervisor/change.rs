//! [`ChangeError`] and [`NotReady`]: why people may not change or begin a run now.

use crate::{
    id::{BuilderId, Peer},
    wire::control::{MAX_BUILDERS, MAX_OUTSTANDING},
};

/// Why a run cannot begin now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// These have not registered.
    #[error("not registered: {}", names(.0))]
    Missing(Vec<Peer>),
    /// These are not connected to all builders yet.
    #[error("not connected to all builders yet: {}", names(.0))]
    Unconnected(Vec<Peer>),
    /// It has begun, or is over.
    #[error("the run has begun already")]
    Begun,
}

fn names(peers: &[Peer]) -> String {
    peers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Why the run is not changed: it stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// It has not begun, or takes no more triggers.
    #[error("no run is under way; start one first")]
    NotRunning,
    /// Triggers are not taken already.
    #[error("the run is paused already; resume goes on with it")]
    Paused,
    /// Triggers are taken already.
    #[error("the run is not paused; nothing is to be done")]
    NotPaused,
    /// There is nothing whose rate could be set.
    #[error(
        "the trigger of this run has no rate; only periodic, poisson, gaussian and burst triggers have one"
    )]
    NoRate,
    /// It may register already.
    #[error("builder {0} is part of the run already")]
    KnownBuilder(BuilderId),
    /// It was removed, and is not done yet.
    #[error("builder {0} is leaving the run; add it when it has left, which the status shows")]
    LeavingBuilder(BuilderId),
    /// There is none of that number.
    #[error("the run has no builder {0}, or it is leaving already")]
    UnknownBuilder(BuilderId),
    /// Somebody must build.
    #[error("builder {0} is the last one; stop the run, or add another builder first")]
    LastBuilder(BuilderId),
    /// Sources hold a lane to each, in sets of a fixed size.
    #[error("a run has at most {MAX_BUILDERS} builders")]
    TooManyBuilders,
    /// Sources are told of all outstanding events when one of their builders is lost.
    #[error(
        "{0} slots of one more builder may hold too many events: a run has at most {MAX_OUTSTANDING} under construction"
    )]
    TooManyOutstanding(u32),
}
