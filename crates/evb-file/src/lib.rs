//! Event files of the evb event builder: their writer, and everything that reads them.
//!
//! ```text
//! builder 1 ─► EventFileWriter ─► run000001_b01_0000.evb  ┌────────┬────────┬────────┬─ ─┬───────┐
//!              append, commit     run000001_b01_0001.evb ─┤ header │ record │ record │   │ index │
//! builder 2 ─► EventFileWriter ─► run000001_b02_0000.evb  └────────┴────────┴────────┴─ ─┴───────┘
//!                                        │
//!     EventFile (one file) · verify (a run) · merge (a run, in event order) · dump (for people)
//! ```
//!
//! Event files are only ever appended to. A 64-bit checksum covers every byte: the head of a record
//! has a checksum of its own, and each payload the checksum that was computed where the fragment
//! entered the system. A file whose writer was killed has no index and perhaps a torn tail; readers
//! find all whole records by scanning. `docs/reference/file-format.md` in the repository specifies
//! every byte, and `bindings/python/evb_read.py` reads a file with nothing but Python.
//!
//! ```
//! use evb_core::{event::Event, fragment::Timestamp, id::*};
//! use evb_file::{EventFile, EventFileWriter, FileIdentity, WriterOptions, existing_files};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
//! let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
//!
//! let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
//! let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
//! event.add(SourceId::new(1), Timestamp::new(1234), "what the detector saw".into());
//! writer.append(&event)?;
//! writer.commit()?; // the event now survives if the process is killed
//! writer.close()?; // the file now has an index
//!
//! let file = EventFile::open(&existing_files(dir.path(), run)?[0])?;
//! for read in file.events() {
//!     assert_eq!(read?, event);
//! }
//! assert_eq!(file.event(EventId::FIRST)?, Some(event));
//! # Ok(())
//! # }
//! ```

pub mod format;
mod error;
mod naming;
mod beside;
mod window;
mod index;
mod reader;
mod writer;
mod stream;
mod runs;
mod verify;
mod realign;
mod merge;
pub mod dump;
#[cfg(test)]
mod samples;

pub use error::{CreateError, EventRefusal, FileError, ReadError, WriteError};
pub use evb_core::{alignment::Episode, ledger::OwingChange};
pub use index::{IndexEntry, IndexState};
pub use merge::{Merge, MergeError, MergeReport, few_of_each_file, merge, merge_realigned, merge_watched};
pub use naming::{EXTENSION, existing_files, file_name, files_at, highest_run, parse_file_name};
pub use reader::{Batch, Batches, EventFile, Events, ReadAhead, Records, Recovery};
pub use realign::RealignReport;
pub use runs::{EpochRange, FoundRun, ParseChoiceError, ParseEpochsError, RunChoice, RunsError, Selection};
pub use stream::{EventStream, StreamEncoder};
pub use verify::{
    Damage, Duplicate, EventsOfSource, FileReport, Foreign, Gap, IncompleteEvent, Listed, NotClosed,
    RunReport, SharedNumber, Superseded, TornTail, Unreadable, VerifyError, VerifyOptions, VerifyReport,
    WithoutSource, files_of_run, find_runs, verify, verify_watched,
};
pub use writer::{ClosedFile, EventFileWriter, FileIdentity, FsyncPolicy, WriterOptions, Written};
