//! A lane's two ends over datagrams. The TCP connection of the handshake stays: while it lives, so does the association, and it
//! says nothing more (docs/protocol.md UDP-1).

mod path;
mod train;
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
pub use path::{Path, PathError, probe};
pub use source_end::SourceDatagrams;

use super::LaneEnd;
use crate::sys_tcp;

/// A number for a new connection that nobody can guess who has not seen it; not 0.
pub fn draw_connection() -> u32 {
    // The standard library seeds it from the system's randomness.
    (RandomState::new().build_hasher().finish() as u32).max(1)
}

/// What the kernel knows of the round trip of a lane's TCP connection: a first estimate of that of its datagrams.
pub fn round_trip(stream: &TcpStream) -> Option<Duration> {
    sys_tcp::round_trip(stream)
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
