//! Sinks as configured.

use evb::{
    event::Event,
    sink::{FileSink, NullSink, RunFacts, Sink, SinkError, SinkSpace},
};
use evb_config::{BuilderEntry, Fsync, SinkEntry};
use evb_core::{alignment::Episode, id::RunNumber, ledger::OwingChange};
use evb_file::{ClosedFile, FsyncPolicy, WriterOptions};

use crate::hooks::Hooks;

/// The sink that a configuration names.
pub(super) enum FromConfig {
    File(Box<FileSink>),
    Null(NullSink),
}

impl FromConfig {
    pub(super) fn new(entry: &BuilderEntry, hooks: Hooks) -> Self {
        match &entry.sink {
            SinkEntry::Null => Self::Null(NullSink),
            SinkEntry::File { path, rotate, fsync } => {
                let fsync = match fsync {
                    Fsync::None => FsyncPolicy::None,
                    Fsync::Commit => FsyncPolicy::Commit,
                };
                let options = WriterOptions { rotate_at: *rotate, fsync, ..WriterOptions::default() };
                let (id, name) = (entry.id, entry.name.clone().unwrap_or_default());
                let sink = FileSink::new(path, options);
                Self::File(Box::new(sink.on_closed(move |file| hooks.tell_closed(id, &name, &file))))
            }
        }
    }
}

impl Sink for FromConfig {
    async fn prepare(&mut self) -> Result<Option<RunNumber>, SinkError> {
        match self {
            Self::File(sink) => sink.prepare().await,
            Self::Null(sink) => sink.prepare().await,
        }
    }

    async fn begin(&mut self, run: &RunFacts) -> Result<(), SinkError> {
        match self {
            Self::File(sink) => sink.begin(run).await,
            Self::Null(sink) => sink.begin(run).await,
        }
    }

    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        match self {
            Self::File(sink) => sink.write(event).await,
            Self::Null(sink) => sink.write(event).await,
        }
    }

    async fn commit(&mut self) -> Result<(), SinkError> {
        match self {
            Self::File(sink) => sink.commit().await,
            Self::Null(sink) => sink.commit().await,
        }
    }

    fn note_episodes(&mut self, episodes: &[Episode]) {
        match self {
            Self::File(sink) => sink.note_episodes(episodes),
            Self::Null(sink) => sink.note_episodes(episodes),
        }
    }

    fn note_changes(&mut self, changes: &[OwingChange]) {
        if let Self::File(sink) = self {
            sink.note_changes(changes);
        }
    }

    fn space(&self) -> Option<SinkSpace> {
        match self {
            Self::File(sink) => sink.space(),
            Self::Null(sink) => sink.space(),
        }
    }

    fn take_closed(&mut self) -> Vec<ClosedFile> {
        match self {
            Self::File(sink) => sink.take_closed(),
            Self::Null(sink) => sink.take_closed(),
        }
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        match self {
            Self::File(sink) => sink.close().await,
            Self::Null(sink) => sink.close().await,
        }
    }
}
