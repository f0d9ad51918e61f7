//! What can go wrong with event files, whose fault it is, and what to do.

use std::{
    io,
    path::{Path, PathBuf},
};

use evb_core::{
    id::{BuilderId, EventId, RunNumber},
    units::Bytes,
};

use crate::format::{Flaw, HeaderFlaw};

/// An operation on a file or directory that the operating system refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct FileError {
    /// What was tried: `"write to"`, `"open"`, …
    pub action: &'static str,
    /// On what.
    pub path: PathBuf,
    /// What the operating system said, with its error number.
    pub source: io::Error,
}

impl FileError {
    /// For `map_err`.
    pub(crate) fn of<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self { action, path: path.to_owned(), source }
    }
}

/// Why a writer could not begin.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The run was taken before. Nothing was touched.
    #[error(
        "{} exists: run {run} was written here before; choose another run number or directory, or move the files away",
        path.display()
    )]
    Exists {
        /// The first file in the way.
        path: PathBuf,
        /// The run number asked for.
        run: RunNumber,
    },
    /// More sources than source ids exist.
    #[error("{count} sources; source ids have 16 bits, so list each source once")]
    Sources {
        /// How many were listed.
        count: usize,
    },
    /// The operating system refused.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Why events were not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// This event cannot stand in this file; events before it are unaffected. The caller's fault.
    #[error("event {event} does not belong into {}: {why}", path.display())]
    Refused {
        /// The event.
        event: EventId,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: Refusal,
    },
    /// The operating system refused, for example because the disk is full. The file was cut back to the last commit
    /// and is readable; append these events again to retry.
    #[error("{file}; {} not accepted", events(not_accepted))]
    Failed {
        /// What was refused.
        file: FileError,
        /// All events that were appended since the last commit and are not in any file, in the order of appending.
        /// Events that a rotation had already committed are not among them.
        not_accepted: Vec<EventId>,
    },
}

fn events(not_accepted: &[EventId]) -> String {
    match not_accepted {
        [] => "no event was".to_owned(),
        [one] => format!("event {one} was"),
        [first, .., last] => format!("{} events ({first} to {last}) were", not_accepted.len()),
    }
}

impl WriteError {
    /// The events that are in no file because of this error.
    pub fn not_accepted(&self) -> &[EventId] {
        match self {
            Self::Refused { event, .. } => std::slice::from_ref(event),
            Self::Failed { not_accepted, .. } => not_accepted,
        }
    }
}

/// Why an event cannot stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The event is of another run than the file.
    #[error("it is of run {event}, the file of run {file}")]
    Run {
        /// The event's.
        event: RunNumber,
        /// The file's.
        file: RunNumber,
    },
    /// The event was built by another builder.
    #[error("builder {event} built it, the file is of builder {file}")]
    Builder {
        /// The event's.
        event: BuilderId,
        /// The file's.
        file: BuilderId,
    },
    /// A payload of 4 GiB or more, or more fragments than source ids.
    #[error("it exceeds the format: payloads stay below 4 GiB, events below 1 TiB and 65536 fragments")]
    Size,
}

/// What a reader found instead of an event, or why there is no reader.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The front of the file cannot be used, and so neither can the rest.
    #[error("cannot read {}: {flaw}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with its header.
        flaw: HeaderFlaw,
    },
    /// A record is damaged. Reading goes on after it.
    #[error("{} at byte {offset}: damaged record{}: {flaw}; {length} skipped", path.display(), of(*event))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// How much of the file is unreadable for it.
        length: Bytes,
        /// Whose record it is, if its head is intact.
        event: Option<EventId>,
        /// What is wrong.
        flaw: Flaw,
    },
    /// The file ends inside a record, as a writer leaves it that was killed. All records before are whole; this is
    /// always the last item.
    #[error("{} at byte {offset}: torn tail of {length}{}; all records before it are whole", path.display(), of(*event))]
    TornTail {
        /// The file.
        path: PathBuf,
        /// Where the last whole record ends.
        offset: u64,
        /// How much follows it.
        length: Bytes,
        /// Whose record was torn, if its head is intact.
        event: Option<EventId>,
    },
    /// An intact record that is larger than this reader may allocate.
    #[error(
        "{} at byte {offset}: event {event} has {size}, more than the limit of {limit}; raise the reader's record limit",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// Whose it is.
        event: EventId,
        /// Its size.
        size: Bytes,
        /// The reader's limit.
        limit: Bytes,
    },
    /// The index passes its checksum but points elsewhere: the writing program is at fault.
    #[error("{}: its index points to byte {offset} for event {event}, where another record stands", path.display())]
    WrongIndex {
        /// The file.
        path: PathBuf,
        /// Where the index points.
        offset: u64,
        /// What it promises there.
        event: EventId,
    },
}

fn of(event: Option<EventId>) -> String {
    event.map_or_else(String::new, |event| format!(" of event {event}"))
}
