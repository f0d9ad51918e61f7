//! [`EventFileWriter`] appends events, commits them, and rotates files. After a failed write, the
//! writer truncates the file to the last commit.

mod disk;
mod identity;
mod closed;
mod staging;
mod output;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use evb_core::{
    alignment::Episode,
    event::Event,
    id::{EventId, RunId, RunNumber},
    ledger::OwingChange,
    units::Bytes,
};

use crate::{
    beside,
    error::{CreateError, EventRefusal, FileError, WriteError},
    format::{FormatVersion, MAX_RECORDS, MAX_SOURCES, Record, record_size, reseal},
    index::IndexEntry,
    naming::{file_name, named_files},
    reader::{EventFile, Recovery},
};
pub use closed::ClosedFile;
use closed::OnClosed;
use disk::{Disk, LocalDisk};
pub use identity::FileIdentity;
use output::OutputFile;

/// The guarantee of [`EventFileWriter::commit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsyncPolicy {
    /// Committed events survive a killed process.
    #[default]
    None,
    /// Committed events survive a power cut.
    Commit,
}

/// The options of a writer.
///
/// ```
/// use evb_core::{event::Event, id::*, units::Bytes};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// let options = WriterOptions { rotate_at: Bytes::new(300), ..WriterOptions::default() };
/// let mut writer = EventFileWriter::create(dir.path(), identity, options)?;
/// for id in (1..=4).map(EventId::new) {
///     writer.append(&Event::empty(id, run, epoch, builder))?;
/// }
/// assert!(writer.close()?.files > 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// The largest size of a file. Only a file with a single event may be larger.
    pub rotate_at: Bytes,
    /// The guarantee of a commit.
    pub fsync: FsyncPolicy,
    /// The version of the file format. Version 1 cannot hold all that version 2 can: the run id,
    /// times in UTC, causes, absent sources, names, kind and comment are left out.
    pub format: FormatVersion,
}

impl Default for WriterOptions {
    /// Returns the default: files of 2 GiB, no fsync, the latest format.
    fn default() -> Self {
        let format = FormatVersion::default();
        Self { rotate_at: Bytes::mib(2048), fsync: FsyncPolicy::None, format }
    }
}

/// The numbers of files, events and bytes that a writer has committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The number of files begun.
    pub files: u32,
    /// The number of events committed.
    pub events: u64,
    /// The total size of the files, including record heads and indexes.
    pub bytes: Bytes,
}

/// Writes the events of one builder and run to a series of files in one directory.
///
/// The writer gathers small events in one reusable buffer and passes large events to the kernel
/// without a copy. The writer computes no checksums of payloads: it stores the checksum that came
/// with each fragment, which thus protects the payload all the way from the source to the reader of
/// the file.
///
/// After an error, the events in [`WriteError::not_accepted`] are in no file, and all other
/// appended events are in one; the writer can be used again immediately. If the writer is dropped
/// without [`Self::close`], committed events stay readable, as after a crash.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// for id in (1..=3).map(EventId::new) {
///     let mut event = Event::empty(id, run, epoch, builder);
///     event.add(SourceId::new(1), Default::default(), "data".into());
///     writer.append(&event)?;
/// }
/// writer.commit()?; // the events survive if this process is killed
/// assert_eq!(writer.close()?.events, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventFileWriter {
    dir: PathBuf,
    identity: FileIdentity,
    merged: bool,
    options: WriterOptions,
    disk: Box<dyn Disk>,
    /// The current file; `None` between the end of a file and the first event of the next.
    output: Option<OutputFile>,
    next_sequence: u32,
    finished: Written,
    /// True if the header of no file has the latest episodes and changes.
    has_news: bool,
    listener: OnClosed,
}

impl EventFileWriter {
    /// Creates the directory if necessary and begins the first file. Files of the same run and
    /// builder may exist, left by a killed builder: the writer does not change them, and continues
    /// with the next file number.
    ///
    /// # Errors
    /// [`CreateError::Exists`] if the directory has files of the same builder and of another run
    /// with the same number.
    pub fn create(
        dir: impl Into<PathBuf>,
        identity: FileIdentity,
        options: WriterOptions,
    ) -> Result<Self, CreateError> {
        Self::begin(dir.into(), identity, false, options, Box::new(LocalDisk))
    }

    /// Creates a writer for merged files, which hold the events of all builders. `identity.builder`
    /// is ignored, and the directory must have no files of the run.
    pub(crate) fn create_merged(
        dir: PathBuf,
        identity: FileIdentity,
        options: WriterOptions,
    ) -> Result<Self, CreateError> {
        Self::begin(dir, identity, true, options, Box::new(LocalDisk))
    }

    /// Creates the directory and the first file in it.
    fn begin(
        dir: PathBuf,
        identity: FileIdentity,
        merged: bool,
        options: WriterOptions,
        disk: Box<dyn Disk>,
    ) -> Result<Self, CreateError> {
        if identity.sources.len() > MAX_SOURCES {
            return Err(CreateError::Sources { count: identity.sources.len() });
        }
        let next_sequence = next_sequence(&dir, &identity, merged)?;
        let finished = Written::default();
        let mut writer = Self {
            dir,
            identity,
            merged,
            options,
            disk,
            output: None,
            next_sequence,
            finished,
            has_news: false,
            listener: OnClosed::default(),
        };
        writer.make_dir()?;
        writer.next_file()?;
        Ok(writer)
    }

    /// Calls a function for each file that the writer closes from now on. The writer waits for the
    /// function.
    #[must_use]
    pub fn on_closed(mut self, tell: impl Fn(ClosedFile) + Send + Sync + 'static) -> Self {
        self.listener = OnClosed::new(tell);
        self
    }

    /// Appends one event. The event is guaranteed to be in the file only once [`Self::commit`] has
    /// returned.
    ///
    /// # Errors
    /// [`WriteError::Refused`] if the event belongs to another run or builder, or exceeds the
    /// limits of the format. [`WriteError::Failed`] if the operating system refused an operation;
    /// all events appended since the last commit are then removed from the file.
    pub fn append(&mut self, event: &Event) -> Result<(), WriteError> {
        let size = self.admit(event).map_err(|why| self.refused(event, why))?;
        self.make_room(size).map_err(|file| self.failed(file, Some(event.id)))?;
        let Some(output) = &mut self.output else { return Ok(()) };
        output.append(event, size).map_err(|file| self.failed(file, Some(event.id)))
    }

    /// Appends a copy of a record of version 2 of the same run: `bytes` are all bytes of the
    /// record, whose payloads were verified. What this version of evb does not know is kept.
    pub(crate) fn append_copy(&mut self, record: &Record, bytes: &mut [u8]) -> Result<(), WriteError> {
        let refused = |why| WriteError::Refused { event: record.event, path: self.path(), why };
        self.admit_run(record.run, record.run_id).map_err(refused)?;
        self.make_room(record.length.count()).map_err(|file| self.failed(file, Some(record.event)))?;
        let Some(output) = &mut self.output else { return Ok(()) };
        reseal(&mut bytes[..record.head_length.as_usize()], output.tag());
        let entry = IndexEntry { event: record.event, epoch: record.epoch, offset: output.length() };
        output.append_bytes(entry, bytes).map_err(|file| self.failed(file, Some(record.event)))
    }

    /// Passes all appended events to the kernel, and with [`FsyncPolicy::Commit`] also to the disk,
    /// before it returns. Checks that no other program has removed the file, or cut it.
    pub fn commit(&mut self) -> Result<(), WriteError> {
        let fsync = self.options.fsync;
        match self.output.as_mut().map_or(Ok(()), |output| output.commit(fsync)) {
            Ok(()) => Ok(()),
            Err(file) => Err(self.failed(file, None)),
        }
    }

    /// Keeps what is known about what happened to sources, in the order of the first events: in a
    /// file beside the event files now, and in the headers of the event files that are begun from
    /// now on. [`Self::close`] begins another one if need be.
    ///
    /// # Errors
    /// Returns an error if the file beside the event files cannot be written.
    pub fn note_episodes(&mut self, episodes: &[Episode]) -> Result<(), FileError> {
        self.identity.episodes = episodes.to_vec();
        self.note()
    }

    /// Keeps the changes so far by which sources were excluded or included, as
    /// [`Self::note_episodes`] keeps episodes.
    ///
    /// # Errors
    /// Returns an error if the file beside the event files cannot be written.
    pub fn note_changes(&mut self, changes: &[OwingChange]) -> Result<(), FileError> {
        if self.identity.changes == changes {
            return Ok(());
        }
        self.identity.changes = changes.to_vec();
        self.note()
    }

    fn note(&mut self) -> Result<(), FileError> {
        self.has_news = self.options.format == FormatVersion::Two;
        let FileIdentity { run, run_id, builder, episodes, changes, .. } = &self.identity;
        beside::write(&self.dir, (*run, *run_id, *builder), (episodes, changes))
    }

    /// Closes the writer. If the writer has begun only one file and this file holds no event, the
    /// file is removed, so that a run that never began leaves no file.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::close`], and [`WriteError::Failed`] if the file cannot be
    /// removed.
    pub fn close_or_remove(self) -> Result<Written, WriteError> {
        if self.finished.files > 0 || self.output.as_ref().is_none_or(|output| output.events() > 0) {
            return self.close();
        }
        let path = self.path();
        let file = |source| WriteError::Failed {
            file: FileError::of("remove", &path)(source),
            not_accepted: Vec::new(),
            gone: Vec::new(),
        };
        std::fs::remove_file(&path).map_err(file)?;
        Ok(Written::default())
    }

    /// Commits all appended events, writes the index of the last file, and closes the writer. If no
    /// file has the latest episodes and changes in its header, a last file without events has them.
    ///
    /// # Errors
    /// The events that the error names are not in the file; if it names none, only the index is
    /// missing. A failed close cannot be retried: to be able to retry, call [`Self::commit`] first.
    pub fn close(mut self) -> Result<Written, WriteError> {
        let mut finish = || -> Result<(), FileError> {
            self.finish_file()?;
            if self.has_news {
                self.next_file()?;
                self.finish_file()?;
            }
            Ok(())
        };
        finish().map_err(|file| self.failed(file, None))?;
        Ok(self.finished)
    }

    /// Returns the numbers of files, events and bytes committed so far.
    pub fn written(&self) -> Written {
        let mut written = self.finished;
        if let Some(output) = &self.output {
            written.files += 1;
            written.events += output.committed_events();
            written.bytes += output.committed_bytes();
        }
        written
    }

    /// Returns the path of the current file, or of the last file if none is open.
    pub fn path(&self) -> PathBuf {
        self.output.as_ref().map_or_else(
            || self.path_of(self.next_sequence.saturating_sub(1)),
            |output| output.path().to_owned(),
        )
    }

    fn path_of(&self, sequence: u32) -> PathBuf {
        let builder = (!self.merged).then_some(self.identity.builder);
        self.dir.join(file_name(self.identity.run, builder, sequence))
    }

    /// Checks that the event can be written to these files, and returns the size of its record.
    fn admit(&self, event: &Event) -> Result<u64, EventRefusal> {
        self.admit_run(event.run, event.run_id)?;
        if !self.merged && event.builder != self.identity.builder {
            return Err(EventRefusal::Builder { event: event.builder, file: self.identity.builder });
        }
        record_size(event, self.options.format).ok_or(EventRefusal::Size)
    }

    /// Checks that an event of this run can be written to these files. An unknown id agrees with
    /// every other one. So does an id of which only the first digits are known, because the header
    /// of the event's file was recovered from records, with every id that begins with these.
    fn admit_run(&self, run: RunNumber, id: RunId) -> Result<(), EventRefusal> {
        let (of_run, of_id) = (self.identity.run, self.identity.run_id);
        if run != of_run {
            return Err(EventRefusal::Run { event: run, file: of_run });
        }
        let has_digits_only = id.to_bytes()[4..].iter().all(|byte| *byte == 0);
        let agrees = id == of_id || (has_digits_only && id.short() == of_id.short());
        if !agrees && id.is_known() && of_id.is_known() {
            return Err(EventRefusal::RunId { event: id, file: of_id });
        }
        Ok(())
    }

    /// Ensures that an open file has room for a record of the given size; begins another file if
    /// necessary.
    fn make_room(&mut self, record: u64) -> Result<(), FileError> {
        if let Some(output) = &self.output {
            let events = output.events();
            let full =
                output.length() + record + output.closing_size(events + 1) > self.options.rotate_at.count();
            if events > 0 && (full || events >= MAX_RECORDS) {
                self.finish_file()?;
            }
        }
        // A file without events that another program removed or cut is given up.
        if self.output.as_ref().is_some_and(|output| output.events() == 0 && output.check_whole().is_err()) {
            self.output = None;
        }
        if self.output.is_none() {
            // The directory may have been removed together with the file.
            self.make_dir()?;
            self.next_file()?;
        }
        // Only a listener wants the checksum of a closed file.
        if !self.listener.is_set() {
            self.output.iter_mut().for_each(OutputFile::skip_checksum);
        }
        Ok(())
    }

    /// Commits the last events of the open file, and closes it with its index.
    fn finish_file(&mut self) -> Result<(), FileError> {
        let Some(output) = &mut self.output else { return Ok(()) };
        output.commit(self.options.fsync)?;
        output.check_whole()?;
        let bytes = output.write_index(self.options.fsync)?;
        self.finished.files += 1;
        self.finished.events += output.committed_events();
        self.finished.bytes += bytes;
        let (run, run_id) = (self.identity.run, self.identity.run_id);
        self.listener.tell(|| output.closed(run, run_id, bytes));
        self.output = None;
        Ok(())
    }

    /// Creates the next file.
    fn next_file(&mut self) -> Result<(), FileError> {
        let header = self.identity.header(self.options.format, self.merged, self.next_sequence);
        let path = self.path_of(self.next_sequence);
        self.output = Some(OutputFile::create(&mut *self.disk, path, &header, self.options.fsync)?);
        self.next_sequence += 1;
        self.has_news = false;
        Ok(())
    }

    /// Creates the directory and its missing parents. With [`FsyncPolicy::Commit`], the created
    /// directories survive a power cut.
    fn make_dir(&mut self) -> Result<(), FileError> {
        let missing: Vec<&Path> = self.dir.ancestors().take_while(|dir| !is_dir(dir)).collect();
        std::fs::create_dir_all(&self.dir).map_err(FileError::of("create the directory", &self.dir))?;
        for made in missing.into_iter().filter(|_| self.options.fsync == FsyncPolicy::Commit) {
            let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or_else(|| Path::new("."));
            self.disk.sync_dir(parent).map_err(FileError::of("sync the directory", parent))?;
        }
        Ok(())
    }

    fn refused(&self, event: &Event, why: EventRefusal) -> WriteError {
        WriteError::Refused { event: event.id, path: self.path(), why }
    }

    /// Returns the error with the events that are in no file. Truncates the file to the last
    /// commit; if another program removed or cut it, the next event begins another file.
    fn failed(&mut self, file: FileError, event: Option<EventId>) -> WriteError {
        let (mut not_accepted, mut gone) = (Vec::new(), Vec::new());
        if let Some(mut output) = self.output.take() {
            let lost = output.take_gone();
            not_accepted = output.roll_back();
            match lost {
                Some(lost) => gone = lost,
                None => {
                    // The next operation tries again.
                    let _ = output.mend();
                    self.output = Some(output);
                }
            }
        }
        not_accepted.extend(event);
        WriteError::Failed { file, not_accepted, gone }
    }
}

/// Returns true for a directory, and for the empty path, which is the last ancestor of a relative
/// path and means the working directory.
fn is_dir(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.is_dir()
}

/// Returns the sequence number of the first file to write: 0, or the number after the existing
/// files of the same run and builder. Files of another run under this number are refused, whichever
/// builder wrote them. An existing file with an incomplete header counts as one of these files, and
/// is not changed.
fn next_sequence(dir: &Path, identity: &FileIdentity, merged: bool) -> Result<u32, CreateError> {
    let run = identity.run;
    let mut next = 0;
    for (of, builder, sequence, path) in named_files(dir)? {
        if of != run {
            continue;
        }
        let is_ours = |file: EventFile| !merged && is_of_run(&file, identity);
        if !EventFile::open(&path).map_or(true, is_ours) {
            return Err(CreateError::Exists { path, run });
        }
        if merged || builder == Some(identity.builder) {
            next = next.max(sequence.saturating_add(1));
        }
    }
    Ok(next)
}

/// Returns true if a file with the number of the run is of that run. Without a known run id on both
/// sides, the epoch decides, which is new for every run too.
fn is_of_run(file: &EventFile, identity: &FileIdentity) -> bool {
    let (header, id) = (file.header(), identity.run_id);
    match (header.run_id.is_known() && id.is_known(), file.recovery()) {
        (true, Some(Recovery::Records)) => header.run_id.short() == id.short(),
        (true, _) => header.run_id == id,
        (false, _) => header.epoch == identity.epoch,
    }
}
