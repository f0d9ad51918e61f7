//! The lane: the byte stream with offsets from one source to one builder, and the four cumulative
//! counters that govern it: `ready`, `granted`, `received`, `committed`.
//!
//! [`OutgoingLane`] is the source's end, [`IncomingLane`] the builder's. Both are pure bookkeeping:
//! bytes enter and leave as slices, and every record is idempotent, so that control records may be
//! batched, repeated or lost.
//!
//! Over datagrams, each end has a companion that tracks losses, requests and repetitions. The lanes
//! themselves are the same.

mod outgoing;
mod announcing;
mod incoming;
mod round_trip;
mod reassembly;
mod repairs;
mod sequences;
mod recovery;
mod incoming_datagrams;
mod outgoing_datagrams;
mod stage_times;

#[cfg(test)]
mod tests;

use crate::wire::record::RecordError;

pub(crate) use announcing::{Announcing, FEW as ANNOUNCED_AT_ONCE};
pub(crate) use incoming_datagrams::{IncomingDatagrams, LaneTimes};
pub(crate) use outgoing_datagrams::{ANSWER_WITHIN, OutgoingDatagrams};
pub(crate) use reassembly::Reassembly;
pub(crate) use stage_times::StageTimes;

pub use incoming::{Arrival, IncomingFragment, IncomingLane};
pub use outgoing::{MAX_RESENDS, OutgoingLane, Taken};
pub use outgoing_datagrams::Sealing;
pub use recovery::RecoveryCounters;

pub use crate::wire::datagram::Request;
pub use round_trip::RoundTrip;

/// Reason for which a datagram was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramFault {
    /// It is of another epoch, or of a connection that is gone. Drop it, and count it.
    #[error("a datagram of another epoch, or of a connection that is gone")]
    Stale,
    /// The peer sent bytes that are no record. The connection ends.
    #[error("the peer broke the protocol: {0}")]
    Record(#[from] RecordError),
    /// The peer's records contradict each other. The connection ends.
    #[error("the peer broke the protocol: {0}")]
    Lane(#[from] LaneError),
    /// It has data of no bytes (docs/reference/protocol.md UDP-11). The connection ends.
    #[error("the peer broke the protocol: a segment of no bytes")]
    Empty,
    /// Only the other side may send such a record or datagram. The connection ends.
    #[error(
        "the peer broke the protocol: it sent a record or datagram that only the other end of a lane may send"
    )]
    WrongDirection,
}

/// A record that contradicts the state of the lane. The peer is at fault, and the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    /// Announcements leave a hole in the lane.
    #[error("announcements from lane offset {offset} leave a gap: the lane is announced up to {announced}")]
    AnnouncementGap {
        /// Offset of the record.
        offset: u64,
        /// Highest offset that leaves no hole.
        announced: u64,
    },
    /// An announcement does not fit the lane's earlier ones.
    #[error("announcements from lane offset {offset} contradict earlier ones")]
    AnnouncementMismatch {
        /// Offset of the record.
        offset: u64,
    },
    /// A fragment is larger than agreed.
    #[error(
        "event {event}: a fragment of {length} bytes is announced; at most {limit} were agreed (max_fragment)"
    )]
    Oversize {
        /// Event of the fragment.
        event: crate::id::EventId,
        /// Announced length.
        length: u32,
        /// The agreed limit.
        limit: u64,
    },
    /// An announcement has event id 0.
    #[error("event ids start at 1")]
    EventZero,
    /// Data does not continue where earlier data ended.
    #[error("data begins at lane offset {offset}, but offset {expected} was expected next")]
    DataOffset {
        /// Offset of the record.
        offset: u64,
        /// Offset that was expected.
        expected: u64,
    },
    /// Data was not granted.
    #[error("data was sent up to lane offset {end}, but granted only up to {granted}")]
    NotGranted {
        /// Lane offset of the record's end.
        end: u64,
        /// End of the granted bytes.
        granted: u64,
    },
    /// A fragment's own header names another event than its announcement.
    #[error("the fragment at offset {offset} is of event {found}; event {announced} was announced")]
    WrongEvent {
        /// Lane offset of the fragment.
        offset: u64,
        /// Event in the fragment's header.
        found: crate::id::EventId,
        /// Event in the announcement.
        announced: crate::id::EventId,
    },
    /// A grant or commit is beyond the announced bytes, or a reconnect goes back to bytes that are
    /// gone.
    #[error("{what} up to offset {offset} is outside of what the lane holds ({from}..{to})")]
    Outside {
        /// Name of the counter.
        what: &'static str,
        /// Claimed value of the counter.
        offset: u64,
        /// Lowest possible value.
        from: u64,
        /// Highest possible value.
        to: u64,
    },
}
