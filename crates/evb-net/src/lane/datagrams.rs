//! A lane's two ends over datagrams. The TCP connection of the handshake stays open: the
//! association lives as long as it does, and it carries nothing more (docs/reference/protocol.md
//! UDP-1).

mod train;
mod path;
mod source_end;
mod builder_end;

#[cfg(test)]
mod tests;

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead as _, ReadBuf},
    net::TcpStream,
};

pub use builder_end::BuilderDatagrams;
pub use path::{Path, PathError, probe, probe_tagged};
pub use source_end::SourceDatagrams;

use evb_core::wire::datagram::{DatagramError, DatagramHeader};

use super::LaneEnd;
use crate::{
    security::{DatagramTags, TAG_LENGTH, TagFault},
    sys_tcp,
};

/// Returns a number for a new connection that only its two ends can know; never 0.
pub fn draw_connection() -> u32 {
    // The standard library seeds it from the system's randomness.
    (RandomState::new().build_hasher().finish() as u32).max(1)
}

/// Returns the kernel's round-trip time of a lane's TCP connection: a first estimate of that of its
/// datagrams.
pub fn round_trip(stream: &TcpStream) -> Option<Duration> {
    sys_tcp::round_trip(stream)
}

/// Reason why a datagram is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Unbelieved {
    #[error(transparent)]
    Datagram(#[from] DatagramError),
    #[error("a forged datagram: it lacks the tag of a peer with our key")]
    Forged,
    #[error("a datagram of another connection, or of a connection that does not exist")]
    Stale,
    #[error("a datagram that arrived before: an attacker replayed it, or the network repeated it")]
    Replayed,
}

impl From<TagFault> for Unbelieved {
    fn from(fault: TagFault) -> Self {
        match fault {
            TagFault::Forged => Self::Forged,
            TagFault::Replayed => Self::Replayed,
        }
    }
}

/// Opens a datagram; where they carry tags, only one with the right tag that has not come before.
fn open<'a>(
    datagram: &'a [u8],
    tags: Option<&mut DatagramTags>,
) -> Result<(DatagramHeader, &'a [u8]), Unbelieved> {
    let Some(tags) = tags else { return Ok(DatagramHeader::open(datagram)?) };
    let (datagram, tag) = split(datagram)?;
    let opened = DatagramHeader::decode(datagram)?;
    tags.check(&opened.0, datagram, tag)?;
    Ok(opened)
}

/// A datagram and its tag.
fn split(datagram: &[u8]) -> Result<(&[u8], &[u8; TAG_LENGTH]), DatagramError> {
    datagram.split_last_chunk().ok_or(DatagramError::Foreign { length: datagram.len() })
}

/// Watches a connection that is to stay silent: its end is the association's.
fn poll_end(stream: &mut TcpStream, cx: &mut Context<'_>) -> Result<(), LaneEnd> {
    let mut byte = [0];
    let mut buffer = ReadBuf::new(&mut byte);
    match Pin::new(stream).poll_read(cx, &mut buffer) {
        Poll::Pending => Ok(()),
        Poll::Ready(Err(error)) => Err(error.into()),
        Poll::Ready(Ok(())) if buffer.filled().is_empty() => Err(LaneEnd::Closed),
        Poll::Ready(Ok(())) => Err(LaneEnd::NotSilent),
    }
}
