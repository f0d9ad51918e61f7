//! A lane's two ends over TCP ([`SourceEnd`] sends announcements and data, [`BuilderEnd`] grants
//! and commits), and over datagrams, in the module `datagrams` of the feature `udp`.
//!
//! The task that owns the lane's state machine drives both ends: `poll_*` does what is possible at
//! the moment and registers the waker.

mod options;
mod path_error;
mod write_sampler;
mod answer_sampler;
mod read_buffers;
mod sealed;
mod source_end;
mod builder_end;
#[cfg(feature = "udp")]
pub mod datagrams;

pub use crate::progress::Progress;
pub use builder_end::BuilderEnd;
pub use options::{LaneOptions, listen};
pub use path_error::PathError;
pub use read_buffers::ReadBuffers;
pub use source_end::SourceEnd;

use std::io;

use crate::security::Forged;
use evb_core::{
    lane::{DatagramFault, StreamFault},
    quantities::SAME_RELEASE,
};

/// Reason why a lane's connection ended.
#[derive(Debug, thiserror::Error)]
pub enum LaneEnd {
    /// The peer closed the lane's connection.
    #[error("the other side closed the connection")]
    Closed,
    /// The network or the peer's host failed.
    #[error("the connection broke: {0}; if this repeats, check the network between the hosts")]
    Io(#[from] io::Error),
    /// The source reads too slowly: too many bytes of grants and commits are queued for it.
    #[error(
        "the source reads too slowly, and more than {} KiB of requests and decisions are waiting for it; check whether its host is overloaded",
        builder_end::OUTGOING_LIMIT >> 10
    )]
    Overflow,
    /// The peer sent bytes over the stream that break the protocol.
    #[error(transparent)]
    Stream(#[from] StreamFault),
    /// The peer sent datagrams that break the protocol.
    #[error(transparent)]
    Datagram(#[from] DatagramFault),
    /// The peer sent bytes over the TCP connection of a lane that uses datagrams
    /// (docs/reference/protocol.md UDP-1).
    #[error(
        "the other side broke the protocol: it sent bytes over TCP, though this connection carries data over UDP; {SAME_RELEASE}"
    )]
    NotSilent,
    /// No datagram reaches the peer any more, although the TCP connection is alive.
    #[error(
        "no UDP packet gets through any more, though the TCP connection is alive; allow UDP in switches and firewalls on the way"
    )]
    Silent,
    /// Packets of a size that used to reach the peer no longer do; the path must be probed again.
    #[error(
        "packets of {0} bytes do not get through any more; look at the MTU of devices and switches on the way, while evb finds the largest size that does"
    )]
    PathShrank(u32),
    /// The received bytes fail authentication: no peer with the key sent them in this form.
    #[error(transparent)]
    Forged(#[from] Forged),
}
