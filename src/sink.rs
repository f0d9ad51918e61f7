//! [`Sink`]: the destination of built events, and the definition of "accepted".

mod channel;
mod closure;
mod facts;
mod fan_out;
mod file;
mod closed_files;
mod null;
mod socket;
pub(crate) mod stage;

use std::{collections::BTreeSet, fmt, future::Future};

use evb_core::{
    alignment::Episode,
    event::Event,
    id::{EventId, RunNumber, ranges},
    ledger::OwingChange,
    quantities::split_remedy,
    units::Bytes,
};
use evb_file::ClosedFile;

pub use channel::{ChannelSink, EventReceiver};
pub use closure::FnSink;
pub use facts::RunFacts;
pub use fan_out::FanOut;
pub use file::FileSink;
pub use null::NullSink;
pub use socket::SocketSink;
#[cfg(feature = "fuzzing")]
pub use socket::fuzzing;

/// Reason for which a sink did not accept events.
///
/// ```
/// use std::io;
///
/// use evb::prelude::*;
///
/// fn accepted(written: io::Result<()>) -> Result<(), SinkError> {
///     written.map_err(|error| match error.kind() {
///         // The disk may get room again: the builder offers the events once more.
///         io::ErrorKind::StorageFull => SinkError::passing(error.to_string()),
///         _ => SinkError::lost(error.to_string()),
///     })
/// }
///
/// let error = accepted(Err(io::ErrorKind::StorageFull.into())).err();
/// assert_eq!(error.as_ref().map(SinkError::cause), Some("no storage space"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct SinkError {
    cause: String,
    held: HeldEvents,
    /// Events that the sink accepted before, and that are gone.
    gone: Vec<EventId>,
}

/// Events that the builder holds to write them again.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HeldEvents {
    /// No events: the events that were not accepted are lost.
    None,
    /// All events that were written since the last commit.
    All,
    /// Only the listed events.
    These(Vec<EventId>),
}

impl SinkError {
    /// Returns an error of a sink that will not accept the events later either. As the result of
    /// `write`, it means that this event is lost; as the result of `commit`, that all events since
    /// the last commit are. The ledger names the lost events with this cause.
    pub fn lost(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), held: HeldEvents::None, gone: Vec::new() }
    }

    /// Returns an error of a sink that may accept the events later, for example when the disk is no
    /// longer full. The builder holds the events and offers them again; meanwhile they occupy
    /// slots, and when all slots are occupied, triggers are inhibited. As the result of `write` or
    /// `commit`, this error means that none of the events since the last commit was accepted.
    pub fn passing(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), held: HeldEvents::All, gone: Vec::new() }
    }

    /// Returns a passing error of a sink that has accepted all events since the last commit except
    /// the given ones.
    pub fn passing_but_for(cause: impl Into<String>, events: Vec<EventId>) -> Self {
        Self { cause: cause.into(), held: HeldEvents::These(events), gone: Vec::new() }
    }

    /// Adds events that the sink accepted before and that are gone, for example with a file that
    /// another program removed. They are a problem of the run, and the log names them.
    #[must_use]
    pub fn with_gone(mut self, events: Vec<EventId>) -> Self {
        self.gone.extend(events);
        self
    }

    /// Returns a sentence that names the accepted events that are gone; `None` if there are none.
    fn gone_in_words(&self) -> Option<String> {
        let numbers = self.gone.iter().map(|event| event.number()).collect::<BTreeSet<u64>>();
        let count = numbers.len();
        let what = if count == 1 {
            "1 stored event is gone".to_owned()
        } else {
            format!("{count} stored events are gone")
        };
        (count > 0).then(|| format!("{what} ({}): {}; find what removed or changed them, and see whether a copy of the files has them", ranges(numbers), self.cause))
    }

    /// Returns the description of the cause.
    pub fn cause(&self) -> &str {
        &self.cause
    }

    pub(crate) fn is_passing(&self) -> bool {
        self.held != HeldEvents::None
    }

    /// Returns true if that event of the batch is to be written again.
    fn holds(&self, event: EventId) -> bool {
        match &self.held {
            HeldEvents::None => false,
            HeldEvents::All => true,
            HeldEvents::These(events) => events.contains(&event),
        }
    }
}

/// Returns an error in words, with that remedy unless it has one of its own.
fn with_remedy(error: &impl fmt::Display, remedy: &str) -> String {
    let words = error.to_string();
    if split_remedy(&words).1.is_some() { words } else { format!("{words}; {remedy}") }
}

/// Space of the storage to which a sink writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkSpace {
    /// Number of free bytes that the sink may use.
    pub free: Bytes,
    /// Total size of the storage.
    pub size: Bytes,
}

/// Takes built events. A sink runs on a thread of its own, so it may block.
///
/// The builder hands events over in batches: it calls `write` for each event, then `commit`. Events
/// are **accepted** only when `commit` has returned: their slots are free, and the sources forget
/// their fragments. The kind of error decides what a failure costs: [`SinkError::lost`] loses
/// events, which the ledger names; [`SinkError::passing`] costs time.
///
/// ```
/// use std::io::Write;
///
/// use evb::prelude::*;
///
/// /// Writes a line of text for each event.
/// struct Lines<W>(W);
///
/// impl<W: Write + Send + 'static> Sink for Lines<W> {
///     async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
///         let line = format!("event {}: {}\n", event.id, event.payload_size());
///         self.0
///             .write_all(line.as_bytes())
///             .map_err(|error| SinkError::lost(error.to_string()))
///     }
///
///     async fn commit(&mut self) -> Result<(), SinkError> {
///         self.0.flush().map_err(|error| SinkError::lost(error.to_string()))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mut sink, mut event) = (Lines(Vec::new()), Event::default());
/// event.id = EventId::new(7);
/// sink.write(&event).await?;
/// sink.commit().await?;
/// assert_eq!(sink.0, b"event 7: 0 B\n");
/// # Ok(())
/// # }
/// ```
pub trait Sink: Send + 'static {
    /// Prepares for runs: checks that the storage can be used, without writing to it, and returns
    /// the highest run number that the storage knows, if it knows a run. The builder calls this
    /// before it registers. An error that does not pass ends the builder. If the call takes
    /// seconds, the builder registers without the number.
    fn prepare(&mut self) -> impl Future<Output = Result<Option<RunNumber>, SinkError>> + Send {
        std::future::ready(Ok(None))
    }

    /// Begins a run, before its first event. After an error, the builder does not take part in the
    /// run, and the supervisor gets the reason. After a passing error, however, the builder takes
    /// part in the run, holds its events, and repeats the call until it succeeds. If the run gets
    /// another number before its first event, the sink is closed and begins again.
    fn begin(&mut self, _run: &RunFacts) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Takes one event. A sink that keeps the event must clone it, because the builder reuses the
    /// memory.
    fn write(&mut self, event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Makes all events since the last commit safe, in the sense of this sink.
    fn commit(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Takes all episodes so far of sources whose timestamps disagreed, in the order of the first
    /// events. The builder calls this after each change, and after [`Self::begin`] if there are
    /// any.
    fn note_episodes(&mut self, _episodes: &[Episode]) {}

    /// Takes all changes so far by which an operator excluded sources, or included them again. The
    /// builder calls this before [`Self::begin`], and after each change.
    fn note_changes(&mut self, _changes: &[OwingChange]) {}

    /// Returns the space of the storage to which the sink writes; `None` if there is no storage.
    /// The builder calls this about once a second, on the sink's thread.
    fn space(&self) -> Option<SinkSpace> {
        None
    }

    /// Returns the files that were closed since the last call, for the record of the run. The
    /// builder calls this after each batch, and after [`Self::close`].
    fn take_closed(&mut self) -> Vec<ClosedFile> {
        Vec::new()
    }

    /// Closes the sink after the run: no more events follow.
    fn close(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }
}
