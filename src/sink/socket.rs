//! [`SocketSink`]: hands events over to another program, which acknowledges each of them.
//!
//! ```text
//!   sink's thread ── header, records of a batch ─────────────────────────────► consumer
//!        commit ◄─── number of each event that the consumer has taken ───────────┘
//! ```

mod connection;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf, time::Duration};

use evb_core::{event::Event, id::EventId, ledger::OwingChange};
use evb_file::StreamEncoder;

use super::{RunFacts, Sink, SinkError, file};
use connection::{ConsumerConnection, ConsumerError};

/// Usual time for which a consumer may take and acknowledge nothing.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which the end of a run waits for a consumer that has all events.
const GOODBYE: Duration = Duration::from_secs(1);

/// Hands events over to a consumer: a program that listens on a socket, and answers with the number
/// of each event that it has taken. An event is accepted when its number has come back. Without a
/// consumer, the builder holds the events: none is lost, and slots that wait are dead time. After a
/// lost connection, events whose numbers have not come back are sent again, so a consumer may get
/// an event more than once. `docs/reference/hand-over.md` describes every byte.
///
/// The stream is neither encrypted nor authenticated.
///
/// ```
/// use std::{io::Write, net::TcpListener, thread};
///
/// use evb::{file::EventStream, prelude::*};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?.to_string();
/// let consumer = thread::spawn(move || -> std::io::Result<usize> {
///     let (stream, _) = listener.accept()?;
///     let mut events = EventStream::new(&stream, "the builder").map_err(std::io::Error::other)?;
///     let mut taken = 0;
///     while let Some(record) = events.next() {
///         let event = record.map_err(std::io::Error::other)?.event;
///         (&stream).write_all(&event.number().to_le_bytes())?;
///         taken += 1;
///     }
///     assert!(events.is_closed(), "the run goes on at another connection");
///     Ok(taken)
/// });
/// let run = LocalSystem::new(1, 1).events(1).start(|_| SocketSink::tcp(&address)).await?;
/// let data = Fragment::new(EventId::FIRST, Timestamp::new(0), "detector data");
/// run.sources()[0].push(data).await?;
/// assert_eq!(run.finished().await?.events.written, 1);
/// assert_eq!(consumer.join().expect("no panic")?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SocketSink {
    address: ConsumerAddress,
    timeout: Duration,
    changes: Vec<OwingChange>,
    /// Encoder of the run's stream.
    encoder: Option<StreamEncoder>,
    connection: Option<ConsumerConnection>,
    /// True if a consumer has got a part of the run.
    has_sent: bool,
}

/// The address of a consumer.
#[derive(Clone, Debug)]
enum ConsumerAddress {
    /// `host:port`.
    Tcp(String),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for ConsumerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl SocketSink {
    /// Creates a sink that connects to a consumer at `host:port`.
    pub fn tcp(address: impl Into<String>) -> Self {
        Self::new(ConsumerAddress::Tcp(address.into()))
    }

    /// Creates a sink that connects to a consumer at a Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(ConsumerAddress::Unix(path.into()))
    }

    /// Sets the time for which a consumer may take and acknowledge nothing while events wait for
    /// it; usually 10 s. After this time, the connection is closed and made again.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    fn new(address: ConsumerAddress) -> Self {
        let (changes, encoder, connection) = (Vec::new(), None, None);
        Self { address, timeout: TIMEOUT, changes, encoder, connection, has_sent: false }
    }

    /// Returns the connection, which is made if there is none.
    async fn connected(&mut self) -> Result<&mut ConsumerConnection, ConsumerError> {
        let header = self.encoder.as_ref().map(StreamEncoder::header).unwrap_or_default();
        if self.connection.is_none() {
            self.connection = Some(ConsumerConnection::open(&self.address, self.timeout, header).await?);
        }
        self.has_sent = true;
        self.connection.as_mut().ok_or(ConsumerError::Closed)
    }

    /// Closes the connection, whose events that were not acknowledged are offered again.
    fn fail(&mut self, error: &ConsumerError) -> SinkError {
        let left: Vec<EventId> =
            self.connection.take().map(ConsumerConnection::into_owed).unwrap_or_default();
        SinkError::passing_but_for(format!("the consumer at {} {error}", self.address), left)
    }

    /// Tells the consumer that it has the whole run.
    async fn finish(&mut self) -> Result<(), ConsumerError> {
        let Some(encoder) = self.encoder.take().filter(|_| self.has_sent) else { return Ok(()) };
        if let Some(connection) = &mut self.connection
            && connection.has_ended().await
        {
            self.connection = None;
        }
        if self.connection.is_none() {
            let opened = ConsumerConnection::open(&self.address, self.timeout.min(GOODBYE), encoder.header());
            self.connection = Some(opened.await?);
        }
        match self.connection.take() {
            Some(connection) => connection.close(&encoder, self.timeout.min(GOODBYE)).await,
            None => Ok(()),
        }
    }
}

impl Sink for SocketSink {
    async fn begin(&mut self, run: &RunFacts) -> Result<(), SinkError> {
        self.encoder = Some(StreamEncoder::new(&file::identity(run, &self.changes)));
        (self.connection, self.has_sent) = (None, false);
        Ok(())
    }

    /// Sends an event as it is in event files, over a connection that is made when it is needed.
    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        let Some(encoder) = &self.encoder else {
            return Err(SinkError::lost("its run has not begun, which is a fault of evb (report it)"));
        };
        let Some(record) = encoder.record(event) else {
            let what = "the event is too large for the format of event files";
            return Err(SinkError::lost(format!("{what}; lower `max_fragment` of its sources")));
        };
        let sent = match self.connected().await {
            Ok(connection) => connection.send(event.id, &record).await,
            Err(error) => Err(error),
        };
        sent.map_err(|error| self.fail(&error))
    }

    async fn commit(&mut self) -> Result<(), SinkError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        connection.settle().await.map_err(|error| self.fail(&error))
    }

    /// Keeps the changes for the header of the next run.
    fn note_changes(&mut self, changes: &[OwingChange]) {
        changes.clone_into(&mut self.changes);
    }

    /// Waits for the consumer's last acknowledgement, and closes the connection.
    async fn close(&mut self) -> Result<(), SinkError> {
        self.finish().await.map_err(|error| {
            SinkError::lost(format!(
                "it has acknowledged every event, but the consumer at {} {error}",
                self.address
            ))
        })
    }
}
