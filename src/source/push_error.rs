//! [`PushError`] and [`TryPushError`]: the reasons for which a source refuses a fragment.

use evb_core::{fragment::Fragment, source::PushError as Refused, units::Bytes};

use crate::role::FORKED;

/// Reason for which a fragment was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The caller's fragment was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The caller asked to reserve more room than the largest fragment needs.
    #[error(
        "{} B cannot be reserved for a fragment, more than max_fragment = {} B: raise max_fragment of this source",
        size.count(),
        limit.count()
    )]
    Reservation {
        /// The size that was asked for.
        size: Bytes,
        /// The largest fragment agreed with the builders.
        limit: Bytes,
    },
    /// The run is over, or the source failed: [`Source::finished`](crate::Source::finished) returns
    /// the result.
    #[error(
        "the source takes no more fragments, because its run is over, or it has failed: the outcome of the source says which"
    )]
    Ended,
    /// This process is a forked child of the one that has the source.
    #[error("{}", FORKED)]
    Forked,
}

/// Reason for which a fragment was not taken at once, and the fragment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TryPushError {
    /// The backlog is full: builders are behind.
    #[error("the backlog of the source is full, because builders are behind: push the fragment again later")]
    Full(Fragment),
    /// The caller's fragment was refused.
    #[error("{reason}")]
    Refused {
        /// The reason for the refusal.
        #[source]
        reason: Refused,
        /// The refused fragment.
        fragment: Fragment,
    },
    /// The run is over, or the source failed: [`Source::finished`](crate::Source::finished) returns
    /// the result.
    #[error(
        "the source takes no more fragments, because its run is over, or it has failed: the outcome of the source says which"
    )]
    Ended(Fragment),
    /// This process is a forked child of the one that has the source.
    #[error("{}", FORKED)]
    Forked(Fragment),
}

impl TryPushError {
    /// Returns the fragment that was not taken.
    pub fn into_fragment(self) -> Fragment {
        match self {
            Self::Full(fragment)
            | Self::Refused { fragment, .. }
            | Self::Ended(fragment)
            | Self::Forked(fragment) => fragment,
        }
    }
}
