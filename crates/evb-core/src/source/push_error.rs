//! [`PushError`]: why a source refuses a fragment.

use crate::{id::EventId, units::Bytes};

/// Distance by which a fragment's event id may be ahead of the first event that is not over.
pub const MAX_AHEAD: u64 = 1 << 20;

/// Reason for which a source refuses a fragment: the caller's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Larger than agreed with the builders.
    #[error(
        "event {event}: the fragment has {size}, more than max_fragment = {limit}; raise max_fragment of this source"
    )]
    Oversize {
        /// Its event.
        event: EventId,
        /// Its payload.
        size: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// So far ahead of the decisions that it cannot be right.
    #[error(
        "event {event} is more than {MAX_AHEAD} ahead of event {first}, the first one open: are event ids dense, from 1?"
    )]
    TooFarAhead {
        /// The event pushed.
        event: EventId,
        /// The first event that is not over.
        first: EventId,
    },
    /// Event id 0.
    #[error("event ids start at 1")]
    EventZero,
}
