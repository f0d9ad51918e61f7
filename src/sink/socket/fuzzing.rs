//! Access to the acknowledgements of consumers for the fuzz targets; only with the feature
//! `fuzzing`.

use std::{fmt, time::Duration};

use bytes::Bytes;
use evb_core::id::EventId;
use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::{ConsumerConnection, ConsumerError};

/// Time for which a consumer may be silent. The streams of fuzz targets end instead.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The end of a conversation with a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The consumer has acknowledged every event.
    All,
    /// The consumer has closed the connection.
    Closed,
    /// The consumer has answered with a number that no event has that waits for its answer.
    Foreign(u64),
    /// Something else.
    Other,
}

/// Sends events to a consumer, and takes its answers. Returns the end, and the events that are not
/// acknowledged.
pub async fn acknowledgements(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug + 'static,
    events: impl IntoIterator<Item = EventId>,
) -> (Settled, Vec<EventId>) {
    let mut connection = ConsumerConnection::on(Box::new(stream), TIMEOUT, Bytes::from_static(b"header"));
    let mut outcome = Ok(());
    for event in events {
        if outcome.is_ok() {
            outcome = connection.send(event, b"record").await;
        }
    }
    if outcome.is_ok() {
        outcome = connection.settle().await;
    }
    let settled = match outcome {
        Ok(()) => Settled::All,
        Err(ConsumerError::Closed) => Settled::Closed,
        Err(ConsumerError::Foreign { number }) => Settled::Foreign(number),
        Err(_) => Settled::Other,
    };
    (settled, connection.into_owed())
}
