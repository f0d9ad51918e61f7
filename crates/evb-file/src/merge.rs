//! Merges the files of all builders into one run in the order of event ids.

mod input;
mod unfinished;
#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    mem,
    path::PathBuf,
};

use evb_core::{
    alignment::Episode,
    event::{Alignment, Event},
    id::{Epoch, EventId, SourceId},
    ledger::OwingChange,
    units::Bytes,
};

use crate::{
    error::{CreateError, ReadError, WriteError},
    format::{FileHeader, FormatVersion, Record},
    realign::{RealignReport, Realigner},
    runs::{FoundRun, Runs, RunsError, Selection},
    verify::{Listed, VerifyError, distinct_files},
    writer::{EventFileWriter, FileIdentity, WriterOptions, Written},
};
use input::{EventCopy, MergeInput};
use unfinished::Unfinished;

/// The outcome of a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// The totals of the output.
    pub written: Written,
    /// Copies of events left out because the event was built again in a later epoch.
    pub superseded: u64,
    /// Copies of events left out because another copy of the same event and epoch was merged
    /// already.
    pub duplicates: u64,
    /// Records left out because of the selection of epochs.
    pub other_epochs: u64,
    /// Events whose states of alignment and numbers of lost packets are left out, because format 1
    /// has no place for them.
    pub without_states: u64,
    /// The outcome of the repair of slips.
    pub realigned: RealignReport,
    /// The names of the run's sources that have one.
    pub source_names: BTreeMap<SourceId, String>,
    /// Descriptions of damaged records, torn tails, and files that cannot be read. If the copy of
    /// an event in one file is damaged, the merge uses another copy, if one exists.
    pub damaged: Listed<String>,
}

/// Returns the descriptions of damage that people are told: at most ten of one file, so that one
/// file with much damage does not hide another.
pub fn few_of_each_file(damage: &[String]) -> Vec<&str> {
    const SHOWN: u32 = 10;
    let (mut counts, mut shown) = (BTreeMap::<&str, u32>::new(), Vec::new());
    for text in damage {
        let file = text.split_once(" at byte ").map_or(text.as_str(), |(file, _)| file);
        let count = counts.entry(file).or_default();
        *count += 1;
        if *count <= SHOWN {
            shown.push(text.as_str());
        }
    }
    shown
}

/// The reason why a run was not merged, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// There is no input file, or a given path does not exist.
    #[error(transparent)]
    Input(#[from] VerifyError),
    /// An input file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The input files belong to several runs, and one merge takes the files of one run.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// The first output file cannot be created, for example because the directory already has files
    /// of the run.
    #[error("{}", created(.0))]
    Create(#[from] CreateError),
    /// The output cannot be written to its end. The part written so far is removed.
    #[error("{}", written(.0))]
    Write(#[from] WriteError),
}

/// The remedy if the disk for the merged files fails.
const MERGE_AGAIN: &str = "make room or repair the disk, and merge again";

fn created(error: &CreateError) -> String {
    match error {
        CreateError::File(file) => file.with_remedy(MERGE_AGAIN),
        CreateError::Exists { .. } | CreateError::Sources { .. } => error.to_string(),
    }
}

fn written(error: &WriteError) -> String {
    match error {
        WriteError::Failed { file, .. } => file.with_remedy(MERGE_AGAIN),
        WriteError::Refused { .. } => error.to_string(),
    }
}

/// Merges the files at `inputs` (directories stand for all `*.evb` in them), of which the selection
/// must leave those of one run, into new files in `dir`, which must have no files of the same run.
/// The files get there when all are written; until then, they are in the directory `merge.part`
/// inside of `dir`. A merge that is killed while it moves several files leaves the others in
/// `merge.whole`, from where the next merge into `dir` moves them.
///
/// Records of version 2 are copied to files of version 2 with all that they have, even sections
/// that this version of evb does not know.
///
/// Of several copies of an event, the merge keeps the copy of the highest epoch. An input file is
/// open only while its range of event ids is being merged, so rotated files take no more than one
/// open file for each builder. The merge holds in memory one event and a piece of the index of each
/// open file (the whole index if the file must be scanned).
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
/// let (from, to) = (dir.path().to_owned(), dir.path().join("merged"));
/// let report = merge(&[from], &Selection::default(), to, WriterOptions::default())?;
/// assert_eq!((report.written.events, report.damaged.total), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn merge(
    inputs: &[PathBuf],
    selection: &Selection,
    dir: impl Into<PathBuf>,
    options: WriterOptions,
) -> Result<MergeReport, MergeError> {
    merge_watched(inputs, selection, dir, options, |_| ())
}

/// Merges files as [`merge`] does, and calls `watch` after each event with the number of its
/// payload bytes.
///
/// # Errors
/// Returns the same errors as [`merge`].
pub fn merge_watched(
    inputs: &[PathBuf],
    selection: &Selection,
    dir: impl Into<PathBuf>,
    options: WriterOptions,
    watch: impl FnMut(Bytes),
) -> Result<MergeReport, MergeError> {
    write_merged(Merge::open(inputs, selection)?, dir.into(), options, watch)
}

/// Merges files as [`merge_watched`] does, and repairs slips: see [`Merge::realign`]. What a
/// record has that this version of evb does not know is left out.
///
/// # Errors
/// Returns the same errors as [`merge`].
pub fn merge_realigned(
    inputs: &[PathBuf],
    selection: &Selection,
    dir: impl Into<PathBuf>,
    options: WriterOptions,
    found: &[Episode],
    watch: impl FnMut(Bytes),
) -> Result<MergeReport, MergeError> {
    let mut merge = Merge::open(inputs, selection)?;
    merge.realign(found);
    write_merged(merge, dir.into(), options, watch)
}

/// Writes the events of all inputs to a new directory, which gets its name when it is whole.
/// `watch` is told the bytes of each event.
fn write_merged(
    mut merge: Merge,
    dir: PathBuf,
    options: WriterOptions,
    mut watch: impl FnMut(Bytes),
) -> Result<MergeReport, MergeError> {
    let run = merge.identity().run;
    let unfinished = Unfinished::create(dir, run)?;
    let mut writer =
        EventFileWriter::create_merged(unfinished.dir().to_owned(), merge.identity().clone(), options)?;
    let (mut bytes, mut without_states) = (Vec::new(), 0);
    loop {
        let copy = match merge.realigner.is_some() {
            // Only a decoded event can be realigned; others are copied as bytes.
            true => merge.next_event()?.map(EventCopy::Decoded),
            false => merge.next_by(|input| input.read_copy(options.format, &mut bytes))?,
        };
        let Some(copy) = copy else { break };
        match copy {
            EventCopy::Decoded(event) => {
                writer.append(&event)?;
                let has_state = event.has_lost_packets()
                    || event.fragments().any(|fragment| fragment.alignment != Alignment::Unchecked);
                without_states += u64::from(has_state && options.format == FormatVersion::One);
                watch(event.payload_size());
            }
            EventCopy::Bytes(record) => {
                writer.append_copy(&record, &mut bytes)?;
                watch(record.payload_size());
            }
        }
        bytes.clear();
    }
    let written = writer.close()?;
    unfinished.finish(run)?;
    let realigned = merge.realigner.map(Realigner::into_report).unwrap_or_default();
    let source_names = merge.identity.source_names;
    Ok(MergeReport { written, without_states, realigned, source_names, ..merge.report })
}

/// The events of one run in the order of their ids, read from the files of all builders as
/// [`merge`] reads them: for programs that write something else than event files.
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
/// # writer.close()?;
/// let mut merge = Merge::open(&[dir.path().to_owned()], &Selection::default())?;
/// let mut memory = Vec::new();
/// while let Some(record) = merge.next_into(&mut memory)? {
///     assert_eq!((record.event, record.fragments.len()), (EventId::FIRST, 1));
/// }
/// // Damage is no error: the events that can be read come out.
/// assert_eq!((&memory[..], merge.report().damaged.total), (&b"data"[..], 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Merge {
    inputs: Vec<MergeInput>,
    identity: FileIdentity,
    queue: BinaryHeap<Reverse<Next>>,
    selection: Selection,
    /// The last event that was read.
    last: Option<(EventId, Epoch)>,
    report: MergeReport,
    /// The repair of slips, if it is wanted.
    realigner: Option<Realigner>,
}

impl Merge {
    /// Opens the files at `inputs` (directories stand for all `*.evb` in them), of which the
    /// selection must leave those of one run.
    ///
    /// # Errors
    /// Returns [`MergeError::Input`], [`MergeError::Read`] or [`MergeError::Runs`].
    pub fn open(inputs: &[PathBuf], selection: &Selection) -> Result<Self, MergeError> {
        let mut report = MergeReport::default();
        let (inputs, identity) = survey(distinct_files(inputs)?, selection, &mut report)?;
        let selection = selection.clone();
        let queue = inputs.iter().enumerate().filter_map(|(place, input)| Next::of(place, input));
        let queue = queue.map(Reverse).collect();
        Ok(Self { queue, inputs, identity, selection, last: None, report, realigner: None })
    }

    /// Lets [`Self::next_event`] move the fragments of sources that slipped to the events to which
    /// they belong, as [`Alignment::Moved`]. It takes the slips from the episodes that the files
    /// have, and from those in `found`. Call this before the first event is read.
    ///
    /// An event for which no such fragment exists names the source as missing.
    pub fn realign(&mut self, found: &[Episode]) {
        let episodes = &mut self.identity.episodes;
        found.iter().cloned().for_each(|episode| Episode::note(episodes, episode));
        self.realigner = Some(Realigner::new(episodes));
    }

    /// Returns the run, the highest epoch of its files, and the sources and names of all files. The
    /// builder has no meaning, because the events of all builders are merged.
    pub const fn identity(&self) -> &FileIdentity {
        &self.identity
    }

    /// Returns what was left out so far; `written` has no meaning here.
    pub const fn report(&self) -> &MergeReport {
        &self.report
    }

    /// Reads the next event. Returns `None` after the last one.
    ///
    /// # Errors
    /// Returns [`MergeError::Read`] if an event is larger than
    /// [`EventFile::RECORD_LIMIT`](crate::EventFile::RECORD_LIMIT).
    pub fn next_event(&mut self) -> Result<Option<Event>, MergeError> {
        loop {
            if let Some(event) = self.realigner.as_mut().and_then(Realigner::next) {
                return Ok(Some(event));
            }
            match (self.next_by(MergeInput::read)?, &mut self.realigner) {
                (Some(event), Some(realigner)) => realigner.push(event),
                (None, Some(realigner)) if !realigner.has_ended() => realigner.end(),
                (event, _) => return Ok(event),
            }
        }
    }

    /// Reads the head of the next event, and appends the event's payloads to `memory`, in the order
    /// of the fragments and without gaps. Returns `None` after the last event. Moves no fragments.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::next_event`].
    pub fn next_into(&mut self, memory: &mut Vec<u8>) -> Result<Option<Record>, MergeError> {
        self.next_by(|input| input.read_into(memory))
    }

    /// Takes the events in order, and reads the first of each that the selection takes; older and
    /// equal copies are counted.
    fn next_by<T>(
        &mut self,
        mut read: impl FnMut(&mut MergeInput) -> Result<T, ReadError>,
    ) -> Result<Option<T>, MergeError> {
        while let Some(Reverse(next)) = self.queue.pop() {
            let (input, report) = (&mut self.inputs[next.input], &mut self.report);
            let mut event_read = None;
            match self.last {
                _ if !self.selection.takes(next.epoch.0) => report.other_epochs += 1,
                Some((event, epoch)) if event == next.event => {
                    let is_same_epoch = epoch == next.epoch.0;
                    let count = if is_same_epoch { &mut report.duplicates } else { &mut report.superseded };
                    *count += 1;
                }
                _ => match read(input) {
                    Ok(event) => {
                        self.last = Some((next.event, next.epoch.0));
                        event_read = Some(event);
                    }
                    Err(error @ ReadError::TooLarge { .. }) => return Err(error.into()),
                    Err(error) => {
                        report.damaged.add(error.to_string());
                        if matches!(error, ReadError::File(_)) {
                            // The other events of this file are out of reach too.
                            continue;
                        }
                    }
                },
            }
            match input.advance() {
                Ok(()) => self.queue.extend(Next::of(next.input, input).map(Reverse)),
                Err(error) => report.damaged.add(error.to_string()),
            }
            if event_read.is_some() {
                return Ok(event_read);
            }
        }
        Ok(None)
    }
}

/// Opens every input file of the run, to find its first event, its sources, and any damage.
fn survey(
    paths: Vec<PathBuf>,
    selection: &Selection,
    report: &mut MergeReport,
) -> Result<(Vec<MergeInput>, FileIdentity), MergeError> {
    // A file that cannot be read costs no event of another file.
    let mut first = None;
    let mut leave_out = |report: &mut MergeReport, error: ReadError| {
        report.damaged.add(error.to_string());
        first.get_or_insert(error);
    };
    let mut runs = Runs::of(paths, selection);
    for (_, error) in mem::take(&mut runs.unreadable) {
        leave_out(report, error);
    }
    let run = runs.one(selection)?;
    let (mut inputs, mut headers) = (Vec::new(), Vec::new());
    for path in run.iter().flat_map(|run| &run.files) {
        match MergeInput::survey(path, |damage| report.damaged.add(damage)) {
            Ok((input, header)) => {
                inputs.push(input);
                headers.push(header);
            }
            Err(error) => leave_out(report, error),
        }
    }
    match run {
        Some(run) if !inputs.is_empty() => Ok((inputs, identity_of(&run, headers))),
        _ => Err(first.map_or_else(no_files, MergeError::from)),
    }
}

fn no_files() -> MergeError {
    VerifyError::NoFiles { paths: Vec::new() }.into()
}

/// Puts together what the headers of a run's files say.
fn identity_of(run: &FoundRun, headers: Vec<FileHeader>) -> FileIdentity {
    let mut sources = BTreeSet::<SourceId>::new();
    let mut identity =
        FileIdentity { run: run.run, run_id: run.run_id, begun: run.begun, ..FileIdentity::default() };
    for header in headers {
        identity.epoch = identity.epoch.max(header.epoch);
        identity.clock_synchronised = identity.clock_synchronised.or(header.clock_synchronised);
        for (text, of_file) in [(&mut identity.kind, header.kind), (&mut identity.comment, header.comment)] {
            if text.is_empty() {
                *text = of_file;
            }
        }
        identity.source_names.extend(header.source_names);
        identity.builder_names.extend(header.builder_names);
        sources.extend(header.sources);
        header.episodes.into_iter().for_each(|episode| Episode::note(&mut identity.episodes, episode));
        identity.changes.extend(header.changes);
    }
    identity.changes = OwingChange::joined(identity.changes);
    identity.sources = sources.into_iter().collect();
    identity
}

/// The next event of one input file. The order is by event id; of the copies of an event, the
/// highest epoch comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Next {
    event: EventId,
    epoch: Reverse<Epoch>,
    input: usize,
}

impl Next {
    fn of(place: usize, input: &MergeInput) -> Option<Self> {
        let entry = input.next()?;
        Some(Self { event: entry.event, epoch: Reverse(entry.epoch), input: place })
    }
}
