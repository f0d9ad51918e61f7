//! The lane: what one source sends to one builder, as one byte stream with offsets, and the four cumulative counters
//! that govern it: `ready`, `granted`, `received`, `committed`.
//!
//! [`OutgoingLane`] is the source's end, [`IncomingLane`] the builder's. Both are pure bookkeeping: bytes enter and leave
//! as slices, and every record is idempotent, so that control records may be batched, repeated or lost.
//!
//! Over datagrams, each end has a companion that knows what was lost, what to ask for again and what to repeat; the lanes
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

/// Why a datagram was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramFault {
    /// Of another epoch, or of a connection that is gone: drop it, and count it.
    #[error("a datagram of another epoch, or of a connection that is gone")]
    Stale,
    /// The peer sent bytes that are no record: the end of the connection.
    #[error("the peer broke the protocol: {0}")]
    Record(#[from] RecordError),
    /// The peer's records contradict each other: the end of the connection.
    #[error("the peer broke the protocol: {0}")]
    Lane(#[from] LaneError),
    /// Data of no bytes (docs/reference/protocol.md UDP-11): the end of the connection.
    #[error("the peer broke the protocol: a segment of no bytes")]
    Empty,
    /// A record or datagram that only the other side may send: the end of the connection.
    #[error("the peer broke the protocol: it sent what is not its to send")]
    WrongDirection,
}

/// A record that contradicts what the lane knows: the peer's fault, and the end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    /// Announcements that leave a hole in the lane.
    #[error("announcements from offset {offset} leave a gap: the lane is announced up to {announced}")]
    AnnouncementGap {
        /// Where the record began.
        offset: u64,
        /// Where it had to begin at the latest.
        announced: u64,
    },
    /// An announcement that does not fit the lane's earlier ones.
    #[error("announcements from offset {offset} do not fit those before")]
    AnnouncementMismatch {
        /// Where the record began.
        offset: u64,
    },
    /// A fragment beyond the agreed size.
    #[error(
        "event {event}: a fragment of {length} bytes is announced; at most {limit} were agreed (max_fragment)"
    )]
    Oversize {
        /// Its event.
        event: crate::id::EventId,
        /// Announced length.
        length: u32,
        /// The limit.
        limit: u64,
    },
    /// Event id 0.
    #[error("event ids start at 1")]
    EventZero,
    /// Data from an offset that does not follow.
    #[error("data from offset {offset}: {expected} was to come")]
    DataOffset {
        /// Where the record began.
        offset: u64,
        /// Where it had to begin.
        expected: u64,
    },
    /// Data that was not permitted.
    #[error("data up to offset {end}: only {granted} was granted")]
    NotGranted {
        /// Where the record ends.
        end: u64,
        /// The limit.
        granted: u64,
    },
    /// A fragment's own header names another event than its announcement.
    #[error("the fragment at offset {offset} is of event {found}; event {announced} was announced")]
    WrongEvent {
        /// Where the fragment begins.
        offset: u64,
        /// What its header says.
        found: crate::id::EventId,
        /// What was announced.
        announced: crate::id::EventId,
    },
    /// A grant or commit beyond what was announced, or a rewind to what is gone.
    #[error("{what} up to offset {offset} is outside of what the lane holds ({from}..{to})")]
    Outside {
        /// Which counter.
        what: &'static str,
        /// Its claimed value.
        offset: u64,
        /// Lowest possible.
        from: u64,
        /// Highest possible.
        to: u64,
    },
}
