//! A lane's two ends over datagrams. The TCP connection of the handshake stays open but carries
//! nothing more; the association ends when this connection ends (docs/reference/protocol.md UDP-1).

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

use super::LaneEnd;

/// Returns a random number for a new connection, known only to the two ends of the connection;
/// never 0.
pub fn draw_connection() -> u32 {
    // The standard library seeds `RandomState` with random numbers of the operating system.
    (RandomState::new().build_hasher().finish() as u32).max(1)
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
