//! [`RecordNotes`]: what others than the supervisor add to the record of a run.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use evb_core::{
    id::RunId,
    time::Utc,
    wire::control::{Begin, plain},
};
use evb_net::clock;

use super::{HookCall, NotedProblem, RunRecord, record};

/// Most calls for runs that have not begun.
const EARLY: usize = 20;

/// Largest length of a text in a note, in characters.
const MOST: usize = 1000;

/// The place of notes that a program adds to the record of its next or present run. A copy is the
/// same place.
///
/// ```
/// use evb::supervisor::{NotedProblem, StateDir};
/// use evb_core::id::RunId;
///
/// let notes = StateDir::new("evb-state").notes();
/// let problem = NotedProblem { text: "the magnet is off".to_owned(), ..NotedProblem::default() };
/// // No run has begun, so the record of no run gets the note.
/// assert!(!notes.note_problem(RunId::new(7), problem));
/// ```
#[derive(Clone, Debug, Default)]
pub struct RecordNotes(Arc<SharedRecord>);

impl PartialEq for RecordNotes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for RecordNotes {}

#[derive(Debug, Default)]
struct SharedRecord {
    state: Mutex<OpenRecord>,
    /// Number of the revision in the file.
    written: Mutex<u64>,
}

/// The record of the present run, or of the latest one.
#[derive(Debug, Default)]
struct OpenRecord {
    dir: PathBuf,
    record: Option<RunRecord>,
    /// The beginning of the run, which has the scale of its times.
    begin: Begin,
    revision: u64,
    /// Calls for runs that have not begun.
    early: Vec<(RunId, HookCall)>,
}

/// A state of a record. A later one replaces an earlier one, whichever is written first.
#[derive(Debug)]
pub(super) struct Revision {
    number: u64,
    pub(super) record: RunRecord,
}

impl RecordNotes {
    /// Begins the record of a run that has begun as stated.
    pub(super) fn open(&self, dir: &Path, begin: &Begin, mut record: RunRecord) {
        let mut state = self.state();
        let early = std::mem::take(&mut state.early).into_iter();
        early.filter(|(run, _)| *run == begin.run_id).for_each(|(_, call)| record.note_call(call));
        (state.dir, state.begin, state.record) = (dir.to_owned(), begin.clone(), Some(record));
    }

    /// Returns true if there is a record of that run.
    pub(super) fn has(&self, run: RunId) -> bool {
        self.state().record.as_ref().is_some_and(|record| record.run.run_id == run)
    }

    /// Changes the record, if there is one.
    pub(super) fn change(&self, change: impl FnOnce(&mut RunRecord)) {
        if let Some(record) = &mut self.state().record {
            change(record);
        }
    }

    /// Returns the present state of the record, if there is one.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.state().revision()
    }

    /// Writes a state of the record, unless a later one is written.
    pub(super) fn keep(&self, dir: &Path, revision: &Revision) -> io::Result<()> {
        let mut written = lock(&self.0.written);
        if revision.number > *written {
            record::keep(dir, &revision.record)?;
            *written = revision.number;
        }
        Ok(())
    }

    /// Notes a problem that is new, with the present time. Returns false if the record is of
    /// another run. After the end of the run, the call writes the record.
    pub fn note_problem(&self, run: RunId, problem: NotedProblem) -> bool {
        self.note(run, |record, first| {
            let problem = NotedProblem {
                subject: plain(&problem.subject, MOST),
                text: plain(&problem.text, MOST),
                remedy: plain(&problem.remedy, MOST),
                first,
                ..problem
            };
            record.note_problem(problem);
        })
    }

    /// Notes a call of a program of `[hooks]`, with the present time. Returns false if there is no
    /// record of that run: if the run begins later, its record gets the call then. After the end of
    /// the run, the call writes the record.
    pub fn note_call(&self, run: RunId, call: HookCall) -> bool {
        let call = HookCall { program: plain(&call.program, MOST), text: plain(&call.text, MOST), ..call };
        if self.note(run, |record, at| record.note_call(HookCall { at, ..call.clone() })) {
            return true;
        }
        let early = &mut self.state().early;
        if early.len() < EARLY {
            let at = clock::wall_clock(clock::now()).utc;
            early.push((run, HookCall { at, ..call }));
        }
        false
    }

    /// Notes something in the record of a run. Returns false if the record of this run is not
    /// there. After the end of the run, the changed record is written at once.
    fn note(&self, run: RunId, note: impl FnOnce(&mut RunRecord, Utc)) -> bool {
        let mut state = self.state();
        if state.record.as_ref().is_none_or(|record| record.run.run_id != run) {
            return false;
        }
        let (at, dir) = (state.begin.utc(clock::now()), state.dir.clone());
        let Some(record) = &mut state.record else { return false };
        note(record, at);
        let revision = if record.closed { state.revision() } else { None };
        drop(state);
        if let Some(revision) = revision
            && let Err(error) = self.keep(&dir, &revision)
        {
            let (run, path) = (revision.record.run.run, dir.display());
            tracing::warn!(%path, %error, run, "the record of run {run} in the state directory {path} lacks what happened after the end of the run: {error}; see that its disk has room and that this user may write there");
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, OpenRecord> {
        lock(&self.0.state)
    }
}

impl OpenRecord {
    fn revision(&mut self) -> Option<Revision> {
        self.revision += 1;
        Some(Revision { number: self.revision, record: self.record.clone()? })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
