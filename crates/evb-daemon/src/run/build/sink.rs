//! Sinks as configured, and the run number that keeps the files of runs apart.

use std::path::{Path, PathBuf};

use evb::{
    event::Event,
    sink::{FileSink, NullSink, RunFacts, Sink, SinkError, SinkSpace},
    supervisor::unfinished_run,
};
use evb_config::{BuilderEntry, Config, Fsync, SinkEntry};
use evb_core::id::{BuilderId, Epoch, Peer, RunNumber};
use evb_file::{EventFile, FsyncPolicy, WriterOptions, existing_files, next_free_run, parse_file_name};

use super::FIRST_RUN;
use crate::run::RunError;

/// The sink that a configuration names.
pub(super) enum FromConfig {
    File(Box<FileSink>),
    Null(NullSink),
}

impl FromConfig {
    pub(super) fn new(entry: &SinkEntry) -> Self {
        match entry {
            SinkEntry::Null => Self::Null(NullSink),
            SinkEntry::File { path, rotate, fsync } => {
                let fsync = match fsync {
                    Fsync::None => FsyncPolicy::None,
                    Fsync::Commit => FsyncPolicy::Commit,
                };
                Self::File(Box::new(FileSink::new(
                    path,
                    WriterOptions { rotate_at: *rotate, fsync, ..WriterOptions::default() },
                )))
            }
        }
    }
}

impl Sink for FromConfig {
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

    fn space(&self) -> Option<SinkSpace> {
        match self {
            Self::File(sink) => sink.space(),
            Self::Null(sink) => sink.space(),
        }
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        match self {
            Self::File(sink) => sink.close().await,
            Self::Null(sink) => sink.close().await,
        }
    }
}

/// Returns the run's number for the process that hosts the supervisor: the configured number, or
/// the next number for which this host has no files.
///
/// Existing files of a configured run are refused before any role starts. A process without the
/// supervisor does not refuse them, because they may be of a run that goes on: see
/// [`earlier_files`].
pub(in crate::run) fn run_number(config: &Config, hosted: &[Peer]) -> Result<Option<RunNumber>, RunError> {
    if hosted.contains(&Peer::Supervisor)
        && let Some(number) = unfinished(config)?
    {
        return Ok(Some(number));
    }
    if let Some(number) = config.run.number {
        let hosted_builders =
            config.builders.iter().filter(|builder| hosted.contains(&Peer::Builder(builder.id)));
        for builder in hosted_builders.filter(|_| hosted.contains(&Peer::Supervisor)) {
            if let SinkEntry::File { path, .. } = &builder.sink
                && let Some(file) = own_files(path, number, builder.id)?.first()
            {
                return Err(taken(number, file));
            }
        }
        return Ok(Some(number));
    }
    if !hosted.contains(&Peer::Supervisor) {
        return Ok(None);
    }
    next_free(config, FIRST_RUN).map(Some)
}

/// Returns the number of the next of several runs: at least the configured number, greater than
/// `last`, and without files on this host.
pub(in crate::run) fn next_number(config: &Config, last: Option<RunNumber>) -> Result<RunNumber, RunError> {
    if let Some(number) = unfinished(config)? {
        return Ok(number);
    }
    let after = last.map(|last| RunNumber::new(last.number().saturating_add(1)));
    next_free(config, config.run.number.unwrap_or(FIRST_RUN).max(after.unwrap_or(FIRST_RUN)))
}

/// Returns the run in the journal, if that run is not over: the supervisor continues it.
fn unfinished(config: &Config) -> Result<Option<RunNumber>, RunError> {
    let Some(path) = &config.supervisor.journal else { return Ok(None) };
    unfinished_run(path).map_err(|error| RunError::Operator(error.to_string()))
}

fn next_free(config: &Config, from: RunNumber) -> Result<RunNumber, RunError> {
    let mut number = from;
    for builder in &config.builders {
        if let SinkEntry::File { path, .. } = &builder.sink
            && path.exists()
        {
            let free = next_free_run(path).map_err(|error| RunError::Operator(error.to_string()))?;
            number = number.max(free);
        }
    }
    Ok(number)
}

/// Files that an earlier process of a builder has written under the number of the run.
pub(super) struct EarlierFiles {
    /// Run and epoch to which the files belong.
    pub(super) life: (RunNumber, Epoch),
    first: PathBuf,
}

impl EarlierFiles {
    /// Returns the error for files that belong to another epoch of the run.
    pub(super) fn in_the_way(&self) -> RunError {
        taken(self.life.0, &self.first)
    }
}

/// Returns a builder's earlier files, which are an obstacle unless they belong to the run that the
/// builder joins. Under run control, a configured number is only that of the first run. Unreadable
/// files belong to no run; the writer of event files treats them the same.
pub(super) fn earlier_files(config: &Config, entry: &BuilderEntry) -> Result<Option<EarlierFiles>, RunError> {
    let (None, Some(run), SinkEntry::File { path, .. }) = (&config.control, config.run.number, &entry.sink)
    else {
        return Ok(None);
    };
    let mut readable =
        own_files(path, run, entry.id)?.into_iter().filter_map(|file| EventFile::open(file).ok());
    Ok(readable
        .next()
        .map(|file| EarlierFiles { life: (run, file.header().epoch), first: file.path().to_owned() }))
}

/// Returns the paths of the files of one builder and run, recognised by their names.
fn own_files(path: &Path, number: RunNumber, builder: BuilderId) -> Result<Vec<PathBuf>, RunError> {
    let mut files = existing_files(path, number).map_err(|error| RunError::Operator(error.to_string()))?;
    let name = |file: &PathBuf| file.file_name().and_then(|name| name.to_str()).and_then(parse_file_name);
    files.retain(|file| name(file).is_some_and(|(_, owner, _)| owner == Some(builder)));
    Ok(files)
}

fn taken(number: RunNumber, file: &Path) -> RunError {
    RunError::Operator(format!(
        "run {number} has files already, {} among them: choose another `run.number`, leave it out to have the next free one, or move the files away",
        file.display()
    ))
}
