//! Verifies whole runs: reads every byte of every file and accounts for every event.

#[cfg(feature = "serde")]
mod json;
mod findings;
mod report;
mod tally;
mod display;
#[cfg(test)]
mod tests;

use std::{
    fs, mem,
    path::{Path, PathBuf},
};

use evb_core::{id::RunNumber, units::Bytes};

use crate::{
    error::{FileError, ReadError},
    format::{Flaw, MAX_RECORDS, Record},
    index::{IndexEntry, IndexState},
    naming::{files_at, parse_file_name},
    reader::EventFile,
    runs::{FoundRun, Runs, RunsError, Selection},
};
pub(crate) use display::named;
pub use findings::{
    Damage, Duplicate, Foreign, Gap, IncompleteEvent, NotClosed, Superseded, TornTail, Unreadable,
};
pub use report::{EventsOfSource, FileReport, Listed, RunReport, SharedNumber, VerifyReport, WithoutSource};
use tally::Tally;

/// The finding about a file whose index is intact, but not that of its records.
pub(crate) const WRONG_INDEX: &str = "the index does not match the records of the file: readers find the records without it; `evbd merge` makes a file with a right index";

const DAMAGED_INDEX: &str = "the checksum of the index is wrong: readers find the records without it; `evbd merge` makes a file with a right index";

/// Facts about a run that are known from elsewhere and that its files must agree with.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// # writer.close()?;
/// // The ledger of the run says that two events were written.
/// let options = VerifyOptions { expected: Some(2), ..VerifyOptions::default() };
/// let report = verify(&[dir.path().to_owned()], &options)?;
/// assert!(!report.is_clean(), "{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// The run to verify. If none is chosen, the files may belong to several runs, and each run is
    /// verified separately.
    pub selection: Selection,
    /// The number of events that a run must have. If `None`, event ids that are in no file are
    /// reported but are no defect, because inhibited triggers leave gaps too.
    pub expected: Option<u64>,
}

/// The reason why nothing was verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// None of the given paths leads to an event file.
    #[error("no event files (*.evb) at {}; give the directory of a sink, or its files", list(paths))]
    NoFiles {
        /// The paths that were given.
        paths: Vec<PathBuf>,
    },
    /// A given path does not exist, or is a directory that cannot be listed.
    #[error(transparent)]
    File(#[from] FileError),
    /// No run, or several, are the chosen one.
    #[error(transparent)]
    Runs(#[from] RunsError),
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Verifies the event files at the given paths. A directory stands for all `*.evb` in it; a file
/// named twice counts once.
///
/// Verification takes 24 bytes of memory for each event of the largest run, some more for each
/// different set of missing sources, and 24 MiB at most for the index of a file.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// # writer.close()?;
/// let report = verify(&[dir.path().to_owned()], &VerifyOptions::default())?;
/// assert!(report.is_clean() && report.runs[0].events == 1, "{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(paths: &[PathBuf], options: &VerifyOptions) -> Result<VerifyReport, VerifyError> {
    verify_watched(paths, options, |_| ())
}

/// Verifies files as [`verify`] does, and calls `watch` for each record with the record's length.
///
/// # Errors
/// Returns the same errors as [`verify`].
pub fn verify_watched(
    paths: &[PathBuf],
    options: &VerifyOptions,
    mut watch: impl FnMut(Bytes),
) -> Result<VerifyReport, VerifyError> {
    let mut report = VerifyReport::default();
    let mut runs = Runs::of(distinct_files(paths)?, &options.selection);
    for (path, error) in mem::take(&mut runs.unreadable) {
        report.unreadable.push(Unreadable { path, why: error.to_string() });
    }
    let runs = runs.chosen(&options.selection)?;
    for twins in runs.chunk_by(|a, b| a.run == b.run).filter(|twins| twins.len() > 1) {
        report.shared_numbers.push(SharedNumber { run: twins[0].run, runs: twins.to_vec() });
    }
    for run in runs {
        let mut verification = Verification::new(&run, &options.selection);
        for path in run.files {
            if let Err(error) = verification.file(&path, &mut watch) {
                report.unreadable.push(Unreadable { path, why: error.to_string() });
            }
        }
        report.runs.push(verification.finish(options.expected));
    }
    Ok(report)
}

/// Returns the event files at the given paths, without duplicates, in the order of the paths.
pub(crate) fn distinct_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, VerifyError> {
    let mut seen = std::collections::BTreeSet::new();
    let mut files = Vec::new();
    for path in paths {
        for file in files_at(path)? {
            // A link that leads nowhere is listed as unreadable like other files.
            if seen.insert(fs::canonicalize(&file).unwrap_or_else(|_| file.clone())) {
                files.push(file);
            }
        }
    }
    if files.is_empty() { Err(VerifyError::NoFiles { paths: paths.to_vec() }) } else { Ok(files) }
}

/// Returns the runs of the files at the given paths, and why other files cannot be opened. Of the
/// selection, it needs everything but the choice of a run.
///
/// # Errors
/// [`VerifyError::NoFiles`] and [`VerifyError::File`].
///
/// ```
/// use evb_core::id::*;
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// for run in [7, 8].map(RunNumber::new) {
///     let identity = FileIdentity { run, ..FileIdentity::default() };
///     EventFileWriter::create(dir.path(), identity, WriterOptions::default())?.close()?;
/// }
/// let (runs, unopened) = find_runs(&[dir.path().to_owned()], &Selection::default())?;
/// assert_eq!((runs[0].run, runs[1].run), (RunNumber::new(7), RunNumber::new(8)));
/// assert!(unopened.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn find_runs(
    paths: &[PathBuf],
    selection: &Selection,
) -> Result<(Vec<FoundRun>, Vec<ReadError>), VerifyError> {
    let Runs { found, unreadable } = Runs::of(distinct_files(paths)?, selection);
    Ok((found, unreadable.into_iter().map(|(_, error)| error).collect()))
}

/// Returns the files of the run that the selection leaves, and those that cannot be read.
///
/// # Errors
/// [`VerifyError::Runs`] if the selection leaves several runs, or none.
///
/// ```
/// use evb_core::id::*;
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// for run in [7, 8].map(RunNumber::new) {
///     let identity = FileIdentity { run, ..FileIdentity::default() };
///     EventFileWriter::create(dir.path(), identity, WriterOptions::default())?.close()?;
/// }
/// let paths = [dir.path().to_owned()];
/// assert!(files_of_run(&paths, &Selection::default()).is_err());
/// let selection = Selection { run: Some(RunNumber::new(8).into()), ..Selection::default() };
/// assert!(files_of_run(&paths, &selection)?[0].ends_with("run000008_b00_0000.evb"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn files_of_run(paths: &[PathBuf], selection: &Selection) -> Result<Vec<PathBuf>, VerifyError> {
    let mut runs = Runs::of(distinct_files(paths)?, selection);
    let unreadable = mem::take(&mut runs.unreadable).into_iter().map(|(path, _)| path);
    let files = runs.one(selection)?.map_or_else(Vec::new, |run| run.files);
    Ok(files.into_iter().chain(unreadable).collect())
}

/// The state of the verification of one run.
#[derive(Debug)]
struct Verification<'s> {
    run: RunNumber,
    selection: &'s Selection,
    report: RunReport,
    tally: Tally,
}

impl<'s> Verification<'s> {
    fn new(run: &FoundRun, selection: &'s Selection) -> Self {
        let report = RunReport { run: run.run, run_id: run.run_id, begun: run.begun, ..RunReport::default() };
        Self { run: run.run, selection, report, tally: Tally::default() }
    }

    /// Reads and checks one file to its end. Returns an error if the file cannot be read further;
    /// other defects go into the report.
    fn file(&mut self, path: &Path, watch: &mut dyn FnMut(Bytes)) -> Result<(), ReadError> {
        let file = EventFile::open(path)?;
        let mut summary = FileReport::of(&file);
        self.about(&file);
        self.check_run_of_file(path, file.header().run);
        let comparable = file.index_state() == IndexState::Present;
        let mut walk = FileWalk { entries: Vec::new(), comparable, index_is_wrong: false };
        let mut records = file.records();
        let outcome = loop {
            let checked = match records.next() {
                None => break Ok(()),
                Some(Ok(record)) => {
                    summary.records += 1;
                    walk.saw(&record);
                    watch(record.length);
                    records.check(&record).map(|()| record)
                }
                Some(Err(error)) => {
                    walk.comparable = false;
                    walk.index_is_wrong |= matches!(error, ReadError::Damaged { flaw: Flaw::Index, .. });
                    Err(error)
                }
            };
            match checked {
                Ok(record) => self.record(record),
                Err(error @ (ReadError::File(_) | ReadError::Header { .. })) => break Err(error),
                Err(error) => self.defect(path, &error),
            }
        };
        if outcome.is_ok() {
            self.index(&file, walk)?;
        }
        self.report.files.push(summary);
        outcome
    }

    /// Takes what the header says of the run.
    fn about(&mut self, file: &EventFile) {
        let (header, report) = (file.header(), &mut self.report);
        if let Some(recovery) = file.recovery() {
            let (path, what) = (file.path().to_owned(), recovery.to_string());
            report.damaged.add(Damage { path, offset: 0, event: None, what });
        }
        for (text, of_file) in [(&mut report.kind, &header.kind), (&mut report.comment, &header.comment)] {
            if text.is_empty() {
                text.clone_from(of_file);
            }
        }
        report.source_names.extend(header.source_names.clone());
        report.builder_names.extend(header.builder_names.clone());
    }

    fn check_run_of_file(&mut self, path: &Path, run: RunNumber) {
        let named = path.file_name().and_then(|name| parse_file_name(name.to_str()?)).map(|(run, _, _)| run);
        let foreign = [Some(run), named].into_iter().flatten().find(|found| *found != self.run);
        if let Some(found) = foreign {
            self.report.foreign.add(Foreign { path: path.to_owned(), run: found, event: None });
        }
    }

    /// Counts a record, if its epoch is selected.
    fn record(&mut self, record: Record) {
        if !self.selection.takes(record.epoch) {
            self.report.other_epochs += 1;
            return;
        }
        self.report.records += 1;
        self.report.payload += record.payload_size();
        self.tally.add(record);
    }

    /// Adds an error of reading to the list of its kind.
    fn defect(&mut self, path: &Path, error: &ReadError) {
        let path = path.to_owned();
        match *error {
            ReadError::TornTail { offset, length, event, .. } => {
                self.report.torn_tails.add(TornTail { path, offset, length, event, elsewhere: false });
            }
            ReadError::Damaged { event, flaw: Flaw::Foreign { run, .. }, .. } => {
                self.report.foreign.add(Foreign { path, run, event });
            }
            ReadError::Damaged { offset, event, flaw, .. } => {
                self.report.damaged.add(Damage { path, offset, event, what: flaw.to_string() });
            }
            _ => self.report.damaged.add(Damage { path, offset: 0, event: None, what: error.to_string() }),
        }
    }

    /// Compares the index of a file with the records found in it.
    fn index(&mut self, file: &EventFile, mut walk: FileWalk) -> Result<(), ReadError> {
        let path = file.path().to_owned();
        let damage =
            |what: &str| Damage { path: path.clone(), offset: 0, event: None, what: what.to_owned() };
        match file.index_state() {
            // After damage, the walk may not have found all records.
            IndexState::Present if !walk.comparable || walk.agrees(file)? => {}
            IndexState::Present => self.report.damaged.add(damage(WRONG_INDEX)),
            IndexState::Damaged => self.report.damaged.add(damage(DAMAGED_INDEX)),
            IndexState::Absent if walk.index_is_wrong => {}
            IndexState::Absent => self.report.without_index.add(NotClosed { path }),
        }
        Ok(())
    }

    fn finish(mut self, expected: Option<u64>) -> RunReport {
        self.report.expected = expected;
        self.tally.finish(&mut self.report);
        self.report
    }
}

/// The records found in one file, collected for a comparison with the file's index.
#[derive(Debug)]
struct FileWalk {
    entries: Vec<IndexEntry>,
    comparable: bool,
    /// True if an index that does not match the file's records was already reported as damage.
    index_is_wrong: bool,
}

impl FileWalk {
    fn saw(&mut self, record: &Record) {
        // An index has at most `MAX_RECORDS` entries, so one record more is enough to know that the
        // index does not match the file.
        if self.comparable && self.entries.len() <= MAX_RECORDS {
            self.entries.push(IndexEntry::of(record));
        }
    }

    /// Returns true if the file's index lists the records that were found, and no others.
    fn agrees(&mut self, file: &EventFile) -> Result<bool, ReadError> {
        const PIECE: usize = 4096;
        self.entries.sort();
        if self.entries.len() != file.told_len() {
            return Ok(false);
        }
        for (place, piece) in self.entries.chunks(PIECE).enumerate() {
            if file.told_entries(place * PIECE, PIECE)? != piece {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
