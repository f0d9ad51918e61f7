//! [`PushError`] and [`TryPushError`]: the reasons for which a source refuses a fragment.

use evb_core::{fragment::Fragment, source::PushError as Refused, units::Bytes};

use crate::role::FORKED;

/// Reason for which a fragment was not taken.
///
/// ```
/// use evb::{prelude::*, source::Refused};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let system =
///     LocalSystem::new(1, 1).with_sources(|config| config.max_fragment = Bytes::kib(1));
/// let run = system.start(|_| NullSink).await?;
/// let large = Fragment::new(EventId::FIRST, Timestamp::new(0), vec![0; 2000]);
/// match run.sources()[0].push(large).await {
///     Err(PushError::Refused(Refused::Oversize { limit, .. })) => {
///         assert_eq!(limit, Bytes::kib(1));
///     }
///     other => panic!("{other:?}"),
/// }
/// # run.abort();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The caller's fragment was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The caller asked to reserve more room than the largest fragment needs.
    #[error("{size} cannot be reserved: max_fragment = {limit}; raise max_fragment of this source")]
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
///
/// ```
/// use evb::{prelude::*, source::TryPushError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let run = LocalSystem::new(1, 1).start(|_| NullSink).await?;
/// let mut later = Vec::new();
/// // Event ids begin with 1, so this fragment is refused and comes back.
/// match run.sources()[0].try_push(Fragment::new(EventId::new(0), Timestamp::new(0), "data")) {
///     Ok(()) => {}
///     Err(TryPushError::Full(fragment)) => later.push(fragment), // to be tried again
///     Err(error) => assert_eq!(error.into_fragment().size(), Bytes::new(4)),
/// }
/// # assert!(later.is_empty());
/// # run.abort();
/// # Ok(())
/// # }
/// ```
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
