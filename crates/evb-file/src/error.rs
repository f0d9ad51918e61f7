//! The errors of event files: the cause of each, and its remedy.

use std::{
    io,
    path::{Path, PathBuf},
};

use evb_core::{
    id::{BuilderId, EventId, RunId, RunNumber},
    units::Bytes,
};

use crate::format::{Flaw, HeaderFlaw};

/// A failed operation on a file or directory.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {}{}", path.display(), reason(source), advice(action, source))]
pub struct FileError {
    /// The operation: `"write to"`, `"open"`, …
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The operating system's error.
    pub source: io::Error,
}

/// The error number of too many open files.
const EMFILE: i32 = 24;

/// Returns true if a file ended before all bytes were read.
fn is_short(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof && error.get_ref().is_none()
}

fn reason(error: &io::Error) -> String {
    if is_short(error) {
        return "the file has become shorter since it was opened".to_owned();
    }
    error.to_string()
}

/// Returns what an operator can do about an error, unless it is about the disk of an output.
fn advice(action: &str, error: &io::Error) -> &'static str {
    match error.kind() {
        _ if is_short(error) => "; read it again, or restore it from a copy",
        // The words of evb have a remedy of their own.
        _ if error.get_ref().is_some() => "",
        _ if error.raw_os_error() == Some(EMFILE) => "; raise the limit of open files, `ulimit -n`",
        io::ErrorKind::NotFound if action.starts_with("find") => {
            "; another program removed it, so writing goes on in another file"
        }
        io::ErrorKind::NotFound => "; check the path",
        io::ErrorKind::PermissionDenied => "; give this user access to it",
        _ if action.starts_with("read") || matches!(action, "open" | "list") => {
            "; check the disk, or read a copy of the file"
        }
        _ => "",
    }
}

impl FileError {
    /// Returns a closure for `map_err`.
    pub(crate) fn of<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self { action, path: path.to_owned(), source }
    }

    /// Returns the error in words with that remedy, unless it has one of its own.
    pub(crate) fn with_remedy(&self, remedy: &str) -> String {
        let has_own = self.source.get_ref().is_some() || !advice(self.action, &self.source).is_empty();
        if has_own { self.to_string() } else { format!("{self}; {remedy}") }
    }
}

/// An error that prevents a writer from being created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The directory already holds event files of the requested run. The existing files were not
    /// changed.
    #[error(
        "{} exists: run {run} was written here before; choose another run number or directory, or move the files away",
        path.display()
    )]
    Exists {
        /// The first existing file.
        path: PathBuf,
        /// The requested run number.
        run: RunNumber,
    },
    /// The list of sources is longer than the number of distinct source ids (65 536).
    #[error(
        "cannot begin an event file: its list of sources has {count} entries, more than the 65536 source ids; list each source once"
    )]
    Sources {
        /// The length of the list.
        count: usize,
    },
    /// The operating system refused an operation.
    #[error(transparent)]
    File(#[from] FileError),
}

/// An error that prevents events from being written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The caller appended an event that cannot go into this file, for example one of another run.
    /// Earlier events are unaffected.
    #[error("event {event} does not belong in {}: {why}", path.display())]
    Refused {
        /// The event.
        event: EventId,
        /// The file.
        path: PathBuf,
        /// The reason.
        why: EventRefusal,
    },
    /// The operating system refused an operation, for example because the disk is full. The file
    /// was cut back to the last commit and is readable. To retry, the caller appends the events
    /// that the error lists again.
    #[error("{file}; {}", fate(not_accepted, gone))]
    Failed {
        /// The failed operation.
        file: FileError,
        /// All events that were appended since the last commit and are in no file, in the order of
        /// appending. Events that a rotation has already committed are not among them.
        not_accepted: Vec<EventId>,
        /// Events that were committed before and are gone, in the order of appending, because
        /// another program removed or cut the file.
        gone: Vec<EventId>,
    },
}

/// Says what becomes of the events after a failure: which are not accepted and may be written
/// again, and which are gone.
fn fate(not_accepted: &[EventId], gone: &[EventId]) -> String {
    let named = |events: &[EventId]| match events {
        [] => None,
        [one] => Some(format!("event {one} is")),
        [first, .., last] => Some(format!("{} events ({first} to {last}) are", events.len())),
    };
    match (named(not_accepted), named(gone)) {
        (None, None) => {
            "all its events are in the file, so nothing is lost: make room or repair the disk".to_owned()
        }
        (Some(events), None) => {
            format!("{events} not in the file: make room or repair the disk, and write again")
        }
        (None, Some(gone)) => format!("{gone} lost with it: find out which program changes this directory"),
        (Some(events), Some(gone)) => format!(
            "{gone} lost with it, and {events} in no file yet: find out which program changes this directory, and write again"
        ),
    }
}

impl WriteError {
    /// Returns the events that this error kept out of every file.
    pub fn not_accepted(&self) -> &[EventId] {
        match self {
            Self::Refused { event, .. } => std::slice::from_ref(event),
            Self::Failed { not_accepted, .. } => not_accepted,
        }
    }

    /// Returns the events that were committed before this error and are gone.
    pub fn gone(&self) -> &[EventId] {
        match self {
            Self::Refused { .. } => &[],
            Self::Failed { gone, .. } => gone,
        }
    }
}

/// The reason why a file cannot hold an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventRefusal {
    /// The event belongs to another run than the file.
    #[error(
        "the event is of run {event}, but the file is of run {file}: write it to a file of its own run; if evbd wrote it, report a fault of evb"
    )]
    Run {
        /// The event's run.
        event: RunNumber,
        /// The file's run.
        file: RunNumber,
    },
    /// The event belongs to another run with the same number.
    #[error(
        "the event is of the run with the id {event}, but the file is of the run with the id {file}: write it to a file of its own run; if evbd wrote it, report a fault of evb"
    )]
    RunId {
        /// The id of the event's run.
        event: RunId,
        /// The id of the file's run.
        file: RunId,
    },
    /// The event was built by another builder.
    #[error(
        "builder {event} built the event, but the file is of builder {file}: write it to a file of its own builder; if evbd wrote it, report a fault of evb"
    )]
    Builder {
        /// The event's builder.
        event: BuilderId,
        /// The file's builder.
        file: BuilderId,
    },
    /// The event is too large for the format: a payload of 4 GiB or more, a record above 1 TiB, or
    /// more than 65 536 fragments or missing sources.
    #[error(
        "the event is too large for an event file, which takes payloads below 4 GiB, at most 65536 fragments, and 1 TiB in all: let its sources send less"
    )]
    Size,
}

/// An error that a reader returns in place of an event, or that prevents the reader from being
/// opened.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused an operation.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file header is unusable, so the whole file is unreadable.
    #[error("cannot read {}: {flaw}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The flaw of the header.
        flaw: HeaderFlaw,
    },
    /// A record is damaged. Reading continues with the next intact record.
    #[error("{} at byte {offset}: damaged record{}: {flaw}; {length} skipped, other events can be read; {}", path.display(), of(*event), flaw.remedy())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset of the record, in bytes.
        offset: u64,
        /// The length of the part that is unreadable because of the damage.
        length: Bytes,
        /// The record's event, if the head is intact.
        event: Option<EventId>,
        /// The flaw of the record.
        flaw: Flaw,
    },
    /// The file ends inside a record, because its writer was killed. All earlier records are whole.
    /// An iterator returns a torn tail always as its last item.
    #[error("{} at byte {offset}: torn tail of {length}{}, as the builder was stopped while it wrote; all records before it are whole; verify all files of the run to see if the event is elsewhere", path.display(), of(*event))]
    TornTail {
        /// The file.
        path: PathBuf,
        /// The offset at which the last whole record ends, in bytes.
        offset: u64,
        /// The number of bytes after the end of the last whole record.
        length: Bytes,
        /// The event of the torn record, if the head is intact.
        event: Option<EventId>,
    },
    /// The record is intact but larger than the memory limit of the reader.
    #[error(
        "{} at byte {offset}: event {event} has {size}, more than this program reads into memory ({limit}); the file is intact: read this event by the library, with `EventFile::with_record_limit`",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The offset of the record, in bytes.
        offset: u64,
        /// The record's event.
        event: EventId,
        /// The record's size.
        size: Bytes,
        /// The reader's limit.
        limit: Bytes,
    },
    /// The checksum of the index is right, but an entry does not point to the record of its event:
    /// the program that wrote the file is at fault.
    #[error("{}: the index of the file points to byte {offset} for event {event}, but another record stands there; the records are not affected: `evbd merge` makes a file with a right index", path.display())]
    WrongIndex {
        /// The file.
        path: PathBuf,
        /// The offset in the index entry.
        offset: u64,
        /// The event in the index entry.
        event: EventId,
    },
}

fn of(event: Option<EventId>) -> String {
    event.map_or_else(String::new, |event| format!(" of event {event}"))
}
