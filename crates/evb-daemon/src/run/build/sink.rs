//! Sinks by configuration, and the run number that keeps their files apart.

use std::path::{Path, PathBuf};

use evb::{
    event::Event,
    sink::{FileSink, NullSink, RunFacts, Sink, SinkError},
};
use evb_core::id::{BuilderId, Peer, RunNumber};
use evb_file::{FsyncPolicy, WriterOptions, existing_files, next_free_run, parse_file_name};

use super::FIRST_RUN;
use crate::{
    config::{Config, Fsync, SinkEntry},
    run::RunError,
};

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
                Self::File(Box::new(FileSink::new(path, WriterOptions { rotate_at: *rotate, fsync })))
            }
        }
    }
}

impl Sink for FromConfig {
    fn is_instant(&self) -> bool {
        match self {
            Self::File(sink) => sink.is_instant(),
            Self::Null(sink) => sink.is_instant(),
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

    async fn close(&mut self) -> Result<(), SinkError> {
        match self {
            Self::File(sink) => sink.close().await,
            Self::Null(sink) => sink.close().await,
        }
    }
}

/// The run's number, for the process that hosts the supervisor: as configured, or the next that no file here bears.
/// In every process, files of a configured run that exist are refused before anything starts.
pub(in crate::run) fn run_number(config: &Config, hosted: &[Peer]) -> Result<Option<RunNumber>, RunError> {
    if let Some(number) = config.run.number {
        for builder in config.builders.iter().filter(|builder| hosted.contains(&Peer::Builder(builder.id))) {
            if let SinkEntry::File { path, .. } = &builder.sink {
                refuse_existing(path, number, builder.id)?;
            }
        }
        return Ok(Some(number));
    }
    if !hosted.contains(&Peer::Supervisor) {
        return Ok(None);
    }
    let mut number = FIRST_RUN;
    for builder in &config.builders {
        if let SinkEntry::File { path, .. } = &builder.sink
            && path.exists()
        {
            let free = next_free_run(path).map_err(|error| RunError::Operator(error.to_string()))?;
            number = number.max(free);
        }
    }
    Ok(Some(number))
}

fn refuse_existing(path: &Path, number: RunNumber, builder: BuilderId) -> Result<(), RunError> {
    if !path.exists() {
        return Ok(());
    }
    let existing = existing_files(path, number).map_err(|error| RunError::Operator(error.to_string()))?;
    let name = |file: &&PathBuf| file.file_name().and_then(|name| name.to_str()).and_then(parse_file_name);
    match existing.iter().find(|file| name(file).is_some_and(|(_, owner, _)| owner == Some(builder))) {
        None => Ok(()),
        Some(file) => Err(RunError::Operator(format!(
            "run {number} has files already, {} among them: choose another `run.number`, leave it out to have the next free one, or move the files away",
            file.display()
        ))),
    }
}
