//! [`PushError`]: the reasons for which a source refuses a fragment.

use crate::{id::EventId, units::Bytes};

/// Distance by which a fragment's event id may be ahead of the first event that is not over.
pub const MAX_AHEAD: u64 = 1 << 20;

/// Reason for which a source refuses a fragment. The caller is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The fragment is larger than agreed with the builders.
    #[error(
        "event {event}: the fragment has {size}, more than max_fragment = {limit}; raise max_fragment of this source"
    )]
    Oversize {
        /// Event of the fragment.
        event: EventId,
        /// Size of its payload.
        size: Bytes,
        /// The agreed limit.
        limit: Bytes,
    },
    /// The event is so far ahead of the decisions that its id must be wrong.
    #[error(
        "event {event} is more than {MAX_AHEAD} events ahead of event {first}, the first one that is not over: event ids must count from 1 without gaps"
    )]
    TooFarAhead {
        /// Event of the fragment.
        event: EventId,
        /// The first event that is not over.
        first: EventId,
    },
    /// The event id is 0.
    #[error("event ids start at 1")]
    EventZero,
}
