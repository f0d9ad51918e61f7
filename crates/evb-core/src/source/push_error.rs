//! [`PushError`]: the reasons for which a source refuses a fragment.

use crate::{id::EventId, units::Bytes};

/// Most events by which a fragment may be ahead of the first event that has not ended.
pub const MAX_AHEAD: u64 = 1 << 20;

/// Reason for which a source refuses a fragment. The caller made a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The fragment is larger than the source's `max_fragment`.
    #[error(
        "event {event}: the fragment has {} B, more than max_fragment = {} B: raise max_fragment of this source",
        size.count(),
        limit.count()
    )]
    Oversize {
        /// Event of the fragment.
        event: EventId,
        /// Size of the fragment's payload.
        size: Bytes,
        /// The source's `max_fragment`.
        limit: Bytes,
    },
    /// The fragment's event is so far ahead of the decisions that its id must be wrong.
    #[error(
        "event {event} is more than {MAX_AHEAD} events ahead of event {first}, the first one that is not over: correct the readout, whose event ids must count from 1 without gaps"
    )]
    TooFarAhead {
        /// Event of the fragment.
        event: EventId,
        /// First event that has not ended.
        first: EventId,
    },
    /// The fragment has event id 0.
    #[error("the fragment has event id 0, but event ids start at 1: correct the readout")]
    EventZero,
}
