use std::{
    fmt,
    future::{Future, ready},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use evb_core::{
    alignment::Episode, event::Event, id::RunNumber, ledger::OwingChange, time::ClockState, units::Bytes,
};
use evb_file::{
    ClosedFile, CreateError, EventFileWriter, FileError, FileIdentity, WriteError, WriterOptions, highest_run,
};

use super::{RunFacts, Sink, SinkError, SinkSpace, with_remedy};

/// Writes event files. An event is accepted when the kernel has it or, with `FsyncPolicy::Commit`,
/// when the disk has it. After an error that may pass, the builder holds the events and offers them
/// again.
///
/// ```
/// use evb::{
///     file::{EventFile, WriterOptions, files_at},
///     prelude::*,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let options = WriterOptions { rotate_at: Bytes::mib(512), ..WriterOptions::default() };
/// let run = LocalSystem::new(1, 1).events(1).start(|_| FileSink::new(dir, options)).await?;
/// let data = Fragment::new(EventId::FIRST, Timestamp::new(0), "detector data");
/// run.sources()[0].push(data).await?;
/// assert_eq!(run.finished().await?.events.written, 1);
///
/// let files = files_at(dir)?;
/// assert!(EventFile::open(&files[0])?.event(EventId::FIRST)?.is_some());
/// # Ok(())
/// # }
/// ```
pub struct FileSink {
    dir: PathBuf,
    options: WriterOptions,
    writer: Option<EventFileWriter>,
    changes: Vec<OwingChange>,
    listener: Option<OnClosed>,
    closed: Arc<Mutex<Vec<ClosedFile>>>,
}

/// A function that is told of closed files.
type OnClosed = Arc<dyn Fn(ClosedFile) + Send + Sync>;

impl fmt::Debug for FileSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, options, writer, .. } = self;
        let mut told = f.debug_struct("FileSink");
        told.field("dir", dir).field("options", options).field("writer", writer).finish_non_exhaustive()
    }
}

impl FileSink {
    /// Creates a sink that writes into that directory, which is created if necessary.
    pub fn new(dir: impl Into<PathBuf>, options: WriterOptions) -> Self {
        Self {
            dir: dir.into(),
            options,
            writer: None,
            changes: Vec::new(),
            listener: None,
            closed: Arc::default(),
        }
    }

    /// Calls a function, on the sink's thread, for each file that is closed: because it is full, or
    /// at the end of a run. Files that a killed process has left are not closed.
    #[must_use]
    pub fn on_closed(self, tell: impl Fn(ClosedFile) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Arc::new(tell)), ..self }
    }

    /// Lets an open writer keep what is of use beside the events.
    fn note(&mut self, keep: impl FnOnce(&mut EventFileWriter) -> Result<(), FileError>, what: &str) {
        if let Some(Err(error)) = self.writer.as_mut().map(keep) {
            tracing::warn!(%error, "the files of this builder do not say yet {what}, which costs no event: {}", with_remedy(&error, "make room on its disk, and evb writes it with the next event file"));
        }
    }

    /// Acts on the open file, and returns its error as an error of the sink.
    fn with(
        &mut self,
        act: impl FnOnce(&mut EventFileWriter) -> Result<(), WriteError>,
    ) -> Result<(), SinkError> {
        let writer = self.writer.as_mut().ok_or_else(|| {
            SinkError::lost("its event file is not open, which is a fault of evb (report it with the logs)")
        })?;
        act(writer).map_err(|error| match error {
            WriteError::Refused { .. } => SinkError::lost(error.to_string()),
            WriteError::Failed { file, not_accepted, gone } => {
                SinkError::passing_but_for(file.to_string(), not_accepted).with_gone(gone)
            }
        })
    }
}

/// Returns true if the operating system refuses for lack of disk space, which may become free
/// later. A missing or inaccessible directory is not such a case: the operator has to provide it
/// before the run.
fn is_full(reason: &io::Error) -> bool {
    matches!(
        reason.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Checks that files can be created in a directory, or that the directory itself can be.
fn usable_dir(dir: &Path) -> Result<(), FileError> {
    let existing = dir.ancestors().find(|dir| dir.as_os_str().is_empty() || dir.exists());
    let existing = match existing {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let fault = |source: io::Error| FileError { action: "write to", path: dir.to_owned(), source };
    if !existing.is_dir() {
        return Err(fault(io::ErrorKind::NotADirectory.into()));
    }
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(existing, wanted).map_err(|error| fault(error.into()))
}

impl Sink for FileSink {
    /// Returns the highest run number in the names of the directory's files.
    fn prepare(&mut self) -> impl Future<Output = Result<Option<RunNumber>, SinkError>> + Send {
        ready(usable_dir(&self.dir).and_then(|()| highest_run(&self.dir)).map_err(|error| {
            match is_full(&error.source) {
                true => SinkError::passing(error.to_string()),
                false => SinkError::lost(error.to_string()),
            }
        }))
    }

    /// Opens the first file of a run. A full disk passes; other errors do not.
    fn begin(&mut self, run: &RunFacts) -> impl Future<Output = Result<(), SinkError>> + Send {
        let identity = identity(run, &self.changes);
        ready(match EventFileWriter::create(&self.dir, identity, self.options) {
            Ok(writer) => {
                let (listener, closed) = (self.listener.clone(), Arc::clone(&self.closed));
                self.writer = Some(writer.on_closed(move |file| {
                    closed.lock().unwrap_or_else(PoisonError::into_inner).push(file.clone());
                    listener.iter().for_each(|listener| listener(file.clone()));
                }));
                Ok(())
            }
            Err(CreateError::File(file)) if is_full(&file.source) => {
                Err(SinkError::passing(file.to_string()))
            }
            Err(error) => Err(SinkError::lost(error.to_string())),
        })
    }

    fn write(&mut self, event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send {
        ready(self.with(|writer| writer.append(event)))
    }

    fn commit(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        ready(self.with(EventFileWriter::commit))
    }

    /// Keeps the episodes in a file beside the event files, and in the headers of later ones.
    fn note_episodes(&mut self, episodes: &[Episode]) {
        self.note(|writer| writer.note_episodes(episodes), "what happened to the timestamps of sources");
    }

    /// Keeps the changes as [`Self::note_episodes`] keeps episodes.
    fn note_changes(&mut self, changes: &[OwingChange]) {
        changes.clone_into(&mut self.changes);
        self.note(|writer| writer.note_changes(changes), "which sources are excluded or included");
    }

    fn space(&self) -> Option<SinkSpace> {
        let found = rustix::fs::statvfs(&self.dir).ok()?;
        let bytes = |blocks: u64| Bytes::new(blocks.saturating_mul(found.f_frsize));
        Some(SinkSpace { free: bytes(found.f_bavail), size: bytes(found.f_blocks) })
    }

    fn take_closed(&mut self) -> Vec<ClosedFile> {
        std::mem::take(&mut *self.closed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes the last file, or removes the only one if it has no event.
    fn close(&mut self) -> impl Future<Output = Result<(), SinkError>> + Send {
        let close = |writer: EventFileWriter| {
            let failed =
                |error: WriteError| SinkError::lost(error.to_string()).with_gone(error.gone().to_vec());
            writer.close_or_remove().map_err(failed)
        };
        ready(self.writer.take().map_or(Ok(()), |writer| close(writer).map(drop)))
    }
}

/// Returns the facts about a run that the headers of its files have, with the changes so far by
/// which sources were excluded or included.
pub(super) fn identity(run: &RunFacts, changes: &[OwingChange]) -> FileIdentity {
    let clock_synchronised = match run.wall_clock {
        ClockState::Unknown => None,
        state => Some(state == ClockState::Synchronised),
    };
    FileIdentity {
        run: run.run,
        run_id: run.run_id,
        epoch: run.epoch,
        builder: run.builder,
        begun: run.begun,
        clock_synchronised,
        kind: run.kind.clone(),
        comment: run.comment.clone(),
        sources: run.sources.clone(),
        source_names: run.source_names.clone(),
        builder_names: run.builder_names.clone(),
        changes: changes.to_vec(),
        ..FileIdentity::default()
    }
}
