//! What the fuzz targets reach of the supervisor's ports, with the feature `fuzzing` alone.

use std::{future::poll_fn, net::SocketAddr};

use tokio::io::AsyncRead;

use super::trigger_port::Client;

/// The counts of triggers that one TCP connection asks for, until it ends or is closed.
pub async fn trigger_lines(stream: impl AsyncRead + Unpin) -> Vec<u64> {
    let mut client = Client::new(stream, SocketAddr::from(([0; 4], 0)));
    let mut counts = Vec::new();
    while let Ok(count) = poll_fn(|cx| client.poll_line(cx)).await {
        counts.push(count);
    }
    counts
}
