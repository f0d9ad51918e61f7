//! [`Sink`]: the destination of built events, and the meaning of "accepted".

mod channel;
mod closure;
mod file;
mod null;
pub(crate) mod stage;

use std::future::Future;

use evb_core::{
    event::Event,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    units::Bytes,
};

pub use channel::{ChannelSink, EventReceiver};
pub use closure::FnSink;
pub use file::FileSink;
pub use null::NullSink;

/// Reason for which a sink did not take events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct SinkError {
    cause: String,
    held: Held,
}

/// Events that are held to be written again.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// No events: they are lost.
    None,
    /// All events that were written since the last commit.
    All,
    /// These events.
    These(Vec<EventId>),
}

impl SinkError {
    /// Returns an error of a sink that will not take the events later either. From `write`, that
    /// event is lost; from `commit`, all events since the last commit. The ledger names them with
    /// this cause.
    pub fn lost(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), held: Held::None }
    }

    /// Returns an error of a sink that may take the events later, for example after a full disk.
    /// The builder holds them and offers them again; meanwhile their slots are taken, and when all
    /// slots are, triggers are inhibited. From `write` or from `commit`, it means that none of the
    /// events since the last commit was taken.
    pub fn passing(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), held: Held::All }
    }

    /// Returns a passing error of a sink that knows which events it has not taken; it has taken the
    /// others.
    pub fn passing_but_for(cause: impl Into<String>, events: Vec<EventId>) -> Self {
        Self { cause: cause.into(), held: Held::These(events) }
    }

    /// Returns the description of the cause.
    pub fn cause(&self) -> &str {
        &self.cause
    }

    fn is_passing(&self) -> bool {
        self.held != Held::None
    }

    /// Returns true if that event of the batch is to be written again.
    fn holds(&self, event: EventId) -> bool {
        match &self.held {
            Held::None => false,
            Held::All => true,
            Held::These(events) => events.contains(&event),
        }
    }
}

/// The space where a sink writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkSpace {
    /// Free bytes that the sink may use.
    pub free: Bytes,
    /// Size in total.
    pub size: Bytes,
}

/// Facts about a run, for the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFacts {
    /// The run.
    pub run: RunNumber,
    /// The life of the run.
    pub epoch: Epoch,
    /// The builder of the events.
    pub builder: BuilderId,
    /// The sources of the run, ascending.
    pub sources: Vec<SourceId>,
}

/// Takes built events. Runs on a thread of its own, so it may block.
///
/// The builder hands events over in batches: `write` for each, then `commit`. Events are
/// **accepted** only when `commit` has returned: their slots are free, and the sources forget them.
/// The error decides what a failure costs: [`SinkError::lost`] loses events, which the ledger
/// names; [`SinkError::passing`] costs time.
pub trait Sink: Send + 'static {
    /// Begins a run. An error ends the builder before the first event; after a passing error,
    /// however, the builder takes part, holds its events, and repeats the call until it succeeds.
    fn begin(&mut self, _run: &RunFacts) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Takes one event. A sink that keeps it must clone it, because the builder reuses the memory.
    fn write(&mut self, event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Makes all events since the last commit safe, in the sense of this sink.
    fn commit(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Returns the space where it writes; `None` if it has none. Called about once a second, on its
    /// thread.
    fn space(&self) -> Option<SinkSpace> {
        None
    }

    /// Closes the sink after the run: no more events follow.
    fn close(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }
}
