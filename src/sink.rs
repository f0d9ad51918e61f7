//! [`Sink`]: where built events go, and what "accepted" means.

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
    /// They are lost.
    None,
    /// All that were written since the last commit are written again.
    All,
    /// These are.
    These(Vec<EventId>),
}

impl SinkError {
    /// It will not take them later either: from `write`, that event is lost; from `commit`, all
    /// since the last one. The ledger names them with these words.
    pub fn lost(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), held: Held::None }
    }

    /// It may take them later, as when a disk is full. The builder holds them and offers them
    /// again; meanwhile their slots are taken, and when all are, triggers are inhibited. From
    /// `write` or from `commit`, none of the events since the last commit has been taken.
    pub fn passing(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), held: Held::All }
    }

    /// The same where it is known which events were not taken: the others were.
    pub fn passing_but_for(cause: impl Into<String>, events: Vec<EventId>) -> Self {
        Self { cause: cause.into(), held: Held::These(events) }
    }

    /// The words.
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

/// The room where a sink writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkSpace {
    /// Free bytes that the sink may use.
    pub free: Bytes,
    /// All there is.
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
/// The builder hands events over in batches: `write` for each, then `commit`. Only when `commit`
/// has returned are the events **accepted**: their slots are free, the sources forget them. What an
/// error costs, it says itself: [`SinkError::lost`] loses events, which the ledger names;
/// [`SinkError::passing`] costs time.
pub trait Sink: Send + 'static {
    /// A run begins. An error here ends it before the first event; but after one that passes, the
    /// builder takes part, holds its events, and lets the run begin again until it can.
    fn begin(&mut self, _run: &RunFacts) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Takes one event. Clone it to keep it: the builder uses the memory again otherwise.
    fn write(&mut self, event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Makes all events since the last commit safe, whatever that means here.
    fn commit(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }

    /// The room where it writes; `None` if that means nothing here. Asked about once a second, on
    /// its thread.
    fn space(&self) -> Option<SinkSpace> {
        None
    }

    /// The run is over: nothing more comes.
    fn close(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }
}
