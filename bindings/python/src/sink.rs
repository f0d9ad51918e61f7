//! [`Destination`]: the sinks that Python can choose from.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use evb::{
    file::{Episode, OwingChange, WriterOptions},
    prelude::*,
    sink::{EventReceiver, RunFacts, SinkSpace},
};
use pyo3::prelude::*;
use tokio::sync::Mutex as AsyncMutex;

use crate::{event, wait::wait};

/// Number of built events that wait for an iterator.
const WAITING: usize = 64;

/// The destination of one builder's events.
pub(crate) enum Destination {
    Iterator(ChannelSink),
    Files(Box<FileSink>),
    Callback(Callback),
}

/// A callable that gets each event.
pub(crate) struct Callback {
    callable: Py<PyAny>,
    raised: Raised,
}

/// The first exception of a callback.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// The Python side of the destinations: the events for an iterator, and the exception of a
/// callback.
#[derive(Default)]
pub(crate) struct Outlet {
    /// The events for an iterator; `None` with another kind of destination.
    events: Option<AsyncMutex<EventReceiver>>,
    raised: Raised,
}

/// Makes the destinations of several builders, which share one outlet.
pub(crate) struct Destinations {
    kind: Kind,
    raised: Raised,
}

/// The kind of all destinations of an outlet.
enum Kind {
    /// Files in this directory.
    Files(PathBuf),
    /// This callable.
    Callback(Py<PyAny>),
    /// The channel from which the iterator takes the events.
    Iterator(ChannelSink),
}

impl Destinations {
    /// Chooses the kind of destination: files if a directory is given, else the callable if one is
    /// given, else an iterator.
    pub(crate) fn new(files: Option<PathBuf>, callable: Option<Py<PyAny>>) -> (Self, Outlet) {
        let raised = Raised::default();
        let mut outlet = Outlet { events: None, raised: Arc::clone(&raised) };
        let kind = match (files, callable) {
            (Some(directory), _) => Kind::Files(directory),
            (None, Some(callable)) => Kind::Callback(callable),
            (None, None) => {
                let (sink, receiver) = ChannelSink::new(WAITING);
                outlet.events = Some(AsyncMutex::new(receiver));
                Kind::Iterator(sink)
            }
        };
        (Self { kind, raised }, outlet)
    }

    /// Makes the destination of one more builder.
    pub(crate) fn for_one_builder(&self, py: Python<'_>) -> Destination {
        match &self.kind {
            Kind::Files(directory) => {
                Destination::Files(Box::new(FileSink::new(directory, WriterOptions::default())))
            }
            Kind::Callback(callable) => {
                let (callable, raised) = (callable.clone_ref(py), Arc::clone(&self.raised));
                Destination::Callback(Callback { callable, raised })
            }
            Kind::Iterator(channel) => Destination::Iterator(channel.clone()),
        }
    }
}

impl Outlet {
    /// Waits for the next event; `None` after the last one, and if there is no iterator.
    pub(crate) fn next(&self, py: Python<'_>) -> PyResult<Option<event::Event>> {
        let Some(events) = &self.events else { return Ok(None) };
        let next = wait(py, async { events.lock().await.recv().await })?;
        Ok(next.map(event::Event::new))
    }

    /// Raises the first exception of the callback, once.
    pub(crate) fn raise(&self) -> PyResult<()> {
        let raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
        raised.map_or(Ok(()), Err)
    }
}

impl Callback {
    fn call(&self, event: &Event) -> Result<(), SinkError> {
        let called = Python::try_attach(|py| {
            self.callable.call1(py, (event::Event::new(event.clone()),)).map(drop).map_err(|error| {
                let cause = format!("the callback that takes the events raised {error}");
                self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                SinkError::lost(cause)
            })
        });
        called
            .unwrap_or_else(|| Err(SinkError::lost("the Python program, which takes the events, has ended")))
    }
}

impl Sink for Destination {
    async fn prepare(&mut self) -> Result<Option<RunNumber>, SinkError> {
        match self {
            Self::Files(files) => files.prepare().await,
            Self::Iterator(_) | Self::Callback(_) => Ok(None),
        }
    }

    async fn begin(&mut self, run: &RunFacts) -> Result<(), SinkError> {
        match self {
            Self::Files(files) => files.begin(run).await,
            Self::Iterator(_) | Self::Callback(_) => Ok(()),
        }
    }

    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        match self {
            Self::Iterator(channel) => channel.write(event).await,
            Self::Files(files) => files.write(event).await,
            Self::Callback(callback) => callback.call(event),
        }
    }

    async fn commit(&mut self) -> Result<(), SinkError> {
        match self {
            Self::Files(files) => files.commit().await,
            Self::Iterator(_) | Self::Callback(_) => Ok(()),
        }
    }

    fn note_episodes(&mut self, episodes: &[Episode]) {
        if let Self::Files(files) = self {
            files.note_episodes(episodes);
        }
    }

    fn note_changes(&mut self, changes: &[OwingChange]) {
        if let Self::Files(files) = self {
            files.note_changes(changes);
        }
    }

    fn space(&self) -> Option<SinkSpace> {
        match self {
            Self::Files(files) => files.space(),
            Self::Iterator(_) | Self::Callback(_) => None,
        }
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        match self {
            Self::Files(files) => files.close().await,
            Self::Iterator(_) | Self::Callback(_) => Ok(()),
        }
    }
}
