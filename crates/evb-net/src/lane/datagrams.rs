//! A lane's two ends over datagrams. The TCP connection of the handshake stays open but carries
//! nothing more; the association ends when this connection ends (docs/reference/protocol.md UDP-1).

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
};

use tokio::{
    io::{AsyncRead as _, ReadBuf},
    net::TcpStream,
};

pub use builder_end::BuilderDatagrams;
pub use path::{Path, probe, probe_tagged};
pub use source_end::SourceDatagrams;

use evb_core::wire::datagram::{DatagramError, DatagramHeader};

use super::LaneEnd;
use crate::security::{DatagramTags, TAG_LENGTH, TagFault};

/// Returns a random number for a new connection, known only to the two ends of the connection;
/// never 0.
pub fn draw_connection() -> u32 {
    // The standard library seeds `RandomState` with random numbers of the operating system.
    (RandomState::new().build_hasher().finish() as u32).max(1)
}

/// Reason why a received datagram is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Unbelieved {
    #[error(transparent)]
    Datagram(#[from] DatagramError),
    #[error(
        "it is forged, because it lacks the tag of a peer with our key: look at the program that sends it"
    )]
    Forged,
    #[error("it is of another connection, or of one that does not exist")]
    Stale,
    #[error(
        "it arrived before, because the network repeated it, or an attacker did; if this is frequent, look at switches on the way"
    )]
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

/// Splits a datagram into header and body. If datagrams carry tags, accepts only a datagram that
/// has the right tag and has not arrived before.
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

/// Splits the bytes of a message into a datagram and its tag.
fn split(datagram: &[u8]) -> Result<(&[u8], &[u8; TAG_LENGTH]), DatagramError> {
    datagram.split_last_chunk().ok_or(DatagramError::Foreign { length: datagram.len() })
}

/// Checks the TCP connection of a lane over datagrams, on which the peer must stay silent; the end
/// of the connection is the end of the association.
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
