//! The lane: the byte stream from one source to one builder, and the four cumulative counters that
//! govern it: `ready`, `granted`, `received`, `committed`. Each counter is an offset in the stream.
//!
//! [`OutgoingLane`] is the source's end of a lane, [`IncomingLane`] the builder's end. Neither does
//! I/O: bytes enter and leave as slices. Every record is idempotent, so that control records may be
//! batched, repeated or lost.
//!
//! For a lane over datagrams, each end has a second structure that tracks losses, requests and
//! repetitions. [`OutgoingLane`] and [`IncomingLane`] are the same for both transports.

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
mod tags;

#[cfg(test)]
mod tests;

use crate::{
    quantities::SAME_RELEASE,
    wire::record::{RecordError, RecordHeader},
};

pub(crate) use announcing::{Announcing, FEW as ANNOUNCED_AT_ONCE};
pub(crate) use incoming_datagrams::{IncomingDatagrams, LaneTimes};
pub(crate) use outgoing::MAX_RESENDS;
pub(crate) use outgoing_datagrams::{ANSWER_WITHIN, OutgoingDatagrams, Sealing};
pub(crate) use reassembly::Reassembly;
pub(crate) use stage_times::StageTimes;

pub use incoming::{Arrival, IncomingFragment, IncomingLane};
pub use outgoing::{OutgoingLane, Taken};
pub use recovery::RecoveryCounters;
pub use tags::{Envelope, TagDatagrams, Tags, Unbelieved};

pub use crate::wire::datagram::Request;
pub use round_trip::RoundTrip;

/// Reason for which the receiver rejects a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramFault {
    /// The datagram belongs to another epoch, or to a connection that has ended. Drop the datagram,
    /// and count it.
    #[error(
        "it sent a UDP packet of a connection that has ended; evb ignores it, and nothing needs to be done"
    )]
    Stale,
    /// The datagram contains bytes that are not a valid record. The receiver closes the connection.
    #[error("the other side broke the protocol: {0}; {SAME_RELEASE}")]
    Record(#[from] RecordError),
    /// A record of the peer contradicts the state of the lane. The receiver closes the connection.
    #[error("the other side broke the protocol: {0}; {SAME_RELEASE}")]
    Lane(#[from] LaneError),
    /// The datagram should carry data and carries no bytes (docs/reference/protocol.md UDP-11). The
    /// receiver closes the connection.
    #[error(
        "the other side broke the protocol: it sent a UDP packet that should carry data, but carries none; {SAME_RELEASE}"
    )]
    Empty,
    /// Only the other end of a lane may send such a record or datagram. The receiver closes the
    /// connection.
    #[error(
        "the other side broke the protocol: it sent a message that it may not send on this connection; {SAME_RELEASE}"
    )]
    WrongDirection,
}

/// Bytes of a lane's stream that break the protocol. The receiver closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    /// The peer sent bytes that are not a valid record.
    #[error("the other side broke the protocol: {0}; {SAME_RELEASE}")]
    Record(#[from] RecordError),
    /// A record of the peer contradicts the state of the lane.
    #[error("the other side broke the protocol: {0}; {SAME_RELEASE}")]
    Lane(#[from] LaneError),
    /// The peer sent a record that only the other end of a lane may send
    /// (docs/reference/protocol.md LANE-3).
    #[error(
        "the other side broke the protocol: it sent {}, which it may not send on this connection; {SAME_RELEASE}",
        named(.0)
    )]
    WrongDirection(RecordHeader),
}

/// Returns the name of a record's kind.
fn named(header: &RecordHeader) -> &'static str {
    match header {
        RecordHeader::Announce { .. } => "announcements",
        RecordHeader::Data { .. } => "data",
        RecordHeader::Grant { .. } => "a grant (a permission to send)",
        RecordHeader::Commit { .. } => "a commit (a receipt for data)",
        RecordHeader::Resend { .. } => "a request for repeated data",
        RecordHeader::Announced { .. } => "an answer to announcements",
        RecordHeader::Reannounce { .. } => "a request for repeated announcements",
    }
}

/// A record that contradicts the state of the lane. The peer is at fault, and the receiver closes
/// the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneError {
    /// An ANNOUNCE record begins beyond the last announced byte.
    #[error(
        "it announced fragments from byte {offset} of the data stream, which leave a gap after byte {announced}"
    )]
    AnnouncementGap {
        /// Lane offset at which the record begins.
        offset: u64,
        /// Lane offset at which the announced bytes end.
        announced: u64,
    },
    /// A repeated announcement contradicts the earlier announcements of the lane.
    #[error("it announced other fragments at byte {offset} of the data stream than before")]
    AnnouncementMismatch {
        /// Lane offset of the fragment in the repeated announcement.
        offset: u64,
    },
    /// A fragment is larger than the `max_fragment` of its source.
    #[error(
        "it announced a fragment of {length} bytes for event {event}; at most {limit} were agreed (max_fragment)"
    )]
    Oversize {
        /// Event of the fragment.
        event: crate::id::EventId,
        /// Announced payload length.
        length: u32,
        /// The `max_fragment` of the source.
        limit: u64,
    },
    /// An announcement has event id 0.
    #[error("it announced a fragment of event 0; event ids start at 1")]
    EventZero,
    /// A data record does not begin where the previous data ended.
    #[error("it sent data from byte {offset} of the data stream, but byte {expected} was expected next")]
    DataOffset {
        /// Lane offset at which the record begins.
        offset: u64,
        /// Lane offset at which the next data must begin.
        expected: u64,
    },
    /// The source sent data without a grant.
    #[error("it sent data up to byte {end} of the data stream, but was granted only up to {granted}")]
    NotGranted {
        /// Lane offset at which the data ends.
        end: u64,
        /// Lane offset at which the granted bytes end.
        granted: u64,
    },
    /// The header in front of a fragment names another event than the fragment's announcement.
    #[error(
        "it sent a fragment of event {found} at byte {offset} of the data stream, where it had announced event {announced}"
    )]
    WrongEvent {
        /// Lane offset at which the fragment begins.
        offset: u64,
        /// Event in the fragment's header.
        found: crate::id::EventId,
        /// Event in the announcement.
        announced: crate::id::EventId,
    },
    /// A counter from the peer is outside of the possible range: a grant or commit is beyond the
    /// announced bytes, or a reconnecting builder asks for bytes that the source no longer has.
    #[error(
        "it sent a message with an impossible place in the data stream: {what} up to byte {offset}, where only {from} to {to} are possible"
    )]
    Outside {
        /// Name of the counter.
        what: &'static str,
        /// Value of the counter as the peer stated it.
        offset: u64,
        /// Lowest possible value of the counter.
        from: u64,
        /// Highest possible value of the counter.
        to: u64,
    },
}
