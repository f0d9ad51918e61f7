//! [`Sink`]: where built events go, and what "accepted" means.

mod channel;
mod closure;
mod file;
mod null;
pub(crate) mod stage;

use std::future::Future;

use evb_core::{
    event::Event,
    id::{BuilderId, Epoch, RunNumber, SourceId},
};

pub use channel::{ChannelSink, EventReceiver};
pub use closure::FnSink;
pub use file::FileSink;
pub use null::NullSink;

/// Why a sink did not take an event. The event is counted as lost, with these words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(pub String);

/// Whose events are to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFacts {
    /// The run.
    pub run: RunNumber,
    /// The life of the run.
    pub epoch: Epoch,
    /// Who builds them.
    pub builder: BuilderId,
    /// The sources of the run, ascending.
    pub sources: Vec<SourceId>,
}

/// Takes built events. Runs on a thread of its own, so it may block.
///
/// The builder hands events over in batches: `write` for each, then `commit`. Only when `commit` has returned are the
/// events **accepted**: their slots are free, the sources forget them. A failed `write` loses that event, a failed `commit`
/// all since the last one; the ledger names them.
pub trait Sink: Send + 'static {
    /// A run begins. An error here ends it before the first event.
    fn begin(&mut self, _run: &RunFacts) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Whether `write` and `commit` are over at once, neither waiting nor blocking. Then the builder calls them, and the
    /// filter, on its own thread, which spares every event two hops between threads.
    fn is_instant(&self) -> bool {
        false
    }

    /// Takes one event. Clone it to keep it: the builder uses the memory again otherwise.
    fn write(&mut self, event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Makes all events since the last commit safe, whatever that means here.
    fn commit(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }

    /// The run is over: nothing more comes.
    fn close(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        std::future::ready(Ok(()))
    }
}
