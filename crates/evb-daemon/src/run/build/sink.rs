//! Sinks by configuration, and the run number that keeps their files apart.

use std::path::{Path, PathBuf};

use evb::{
    event::Event,
    sink::{FileSink, NullSink, RunFacts, Sink, SinkError, SinkSpace},
    supervisor::unfinished_run,
};
use evb_core::id::{BuilderId, Peer, RunNumber};
use evb_file::{
    EventFile, FsyncPolicy, IndexState, WriterOptions, existing_files, next_free_run, parse_file_name,
};

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

/// The run's number, for the process that hosts the supervisor: as configured, or the next that no file here bears.
/// Files of a configured run that exist are refused before anything starts; but in a process without the supervisor, one that
/// was not closed may be of a run that goes on, which the writer sees by its epoch.
pub(in crate::run) fn run_number(config: &Config, hosted: &[Peer]) -> Result<Option<RunNumber>, RunError> {
    if hosted.contains(&Peer::Supervisor)
        && let Some(number) = unfinished(config)?
    {
        return Ok(Some(number));
    }
    if let Some(number) = config.run.number {
        let may_go_on = !hosted.contains(&Peer::Supervisor);
        for builder in config.builders.iter().filter(|builder| hosted.contains(&Peer::Builder(builder.id))) {
            if let SinkEntry::File { path, .. } = &builder.sink {
                refuse_existing(path, number, builder.id, may_go_on)?;
            }
        }
        return Ok(Some(number));
    }
    if !hosted.contains(&Peer::Supervisor) {
        return Ok(None);
    }
    next_free(config, FIRST_RUN).map(Some)
}

/// The number of one run of many: from that of the configuration on, the next that is above `last` and that no file here bears.
pub(in crate::run) fn next_number(config: &Config, last: Option<RunNumber>) -> Result<RunNumber, RunError> {
    if let Some(number) = unfinished(config)? {
        return Ok(number);
    }
    let after = last.map(|last| RunNumber::new(last.number().saturating_add(1)));
    next_free(config, config.run.number.unwrap_or(FIRST_RUN).max(after.unwrap_or(FIRST_RUN)))
}

/// The run that the journal tells of, if it is not over: the supervisor goes on with it.
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

fn refuse_existing(
    path: &Path,
    number: RunNumber,
    builder: BuilderId,
    may_go_on: bool,
) -> Result<(), RunError> {
    if !path.exists() {
        return Ok(());
    }
    let existing = existing_files(path, number).map_err(|error| RunError::Operator(error.to_string()))?;
    let name = |file: &&PathBuf| file.file_name().and_then(|name| name.to_str()).and_then(parse_file_name);
    let is_open =
        |file: &Path| EventFile::open(file).map_or(true, |file| file.index_state() != IndexState::Present);
    let mut own =
        existing.iter().filter(|file| name(file).is_some_and(|(_, owner, _)| owner == Some(builder)));
    match own.next() {
        None => Ok(()),
        Some(first) if may_go_on && (is_open(first) || own.any(|file| is_open(file))) => Ok(()),
        Some(file) => Err(RunError::Operator(format!(
            "run {number} has files already, {} among them: choose another `run.number`, leave it out to have the next free one, or move the files away",
            file.display()
        ))),
    }
}
