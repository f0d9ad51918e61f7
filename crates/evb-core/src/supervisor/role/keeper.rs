//! [`Keeper`]: decides what is written to the journal, and when. It knows when the disk is too
//! slow, when a failed write is tried again, and when a snapshot replaces the journal.

#[cfg(test)]
mod tests;

use core::{mem, time::Duration};

use crate::{
    time::{Instant, earlier},
    wire::journal::Entry,
};

/// Time that a write of the journal may take. If a write takes longer, triggers are inhibited, and
/// the disk is named as the cause.
const STALL: Duration = Duration::from_millis(100);

/// Time after which a write that is not finished is logged.
const HANG: Duration = Duration::from_secs(1);

/// Time from a failed write of the journal to the next attempt.
const RETRY: Duration = Duration::from_millis(100);

/// Time for which a run waits when its journal cannot be written. After that, the run continues
/// without a journal.
const PATIENCE: Duration = Duration::from_secs(5);

/// A write to the journal's file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JournalWrite {
    /// Entries to append, after those that earlier writes failed to append.
    pub entries: Vec<Entry>,
    /// Entries that replace the whole journal when [`Self::entries`] are appended.
    pub snapshot: Option<Vec<Entry>>,
}

/// The journal of a supervisor, as far as it is known without its file.
#[derive(Clone, Debug)]
pub struct Keeper {
    /// The journal's name for operators.
    name: String,
    /// Entries that are not given to the driver yet, because it is still writing earlier ones.
    pending: Vec<Entry>,
    added: u64,
    written: u64,
    work: Option<Work>,
    /// Time since which no entry was written although entries wait.
    waiting: Option<Instant>,
    is_stalled: bool,
    /// True if operators were told that the disk does not answer.
    is_told: bool,
    retry: Option<Instant>,
    /// Time since which the journal cannot be written, and the reason; `None` while it can be
    /// written.
    fails: Option<(Instant, String)>,
    is_long: bool,
    /// Length above which a snapshot replaces the journal.
    compact_at: u64,
    /// Smallest value of [`Self::compact_at`].
    shortest: u64,
}

/// The work that the driver does now.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// It writes the first `up_to` entries of the run.
    Writing { up_to: u64, replaces: bool },
    /// It removes the journal.
    Removing,
}

impl Keeper {
    /// Length in bytes above which a journal is replaced by a snapshot.
    pub const COMPACT_AT: u64 = 8 << 20;

    /// Creates the keeper of a journal without pending entries. A journal that is longer than
    /// `compact_at`, in any unit, is replaced by a snapshot.
    pub fn new(name: impl Into<String>, compact_at: u64) -> Self {
        Self {
            name: name.into(),
            pending: Vec::new(),
            added: 0,
            written: 0,
            work: None,
            waiting: None,
            is_stalled: false,
            is_told: false,
            retry: None,
            fails: None,
            is_long: false,
            compact_at,
            shortest: compact_at,
        }
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, entry: Entry, now: Instant) {
        self.pending.push(entry);
        self.added += 1;
        self.waiting.get_or_insert(now);
    }

    /// Returns the number of entries that were added.
    pub(super) const fn added(&self) -> u64 {
        self.added
    }

    /// Returns the number of entries that are written.
    pub(super) const fn written(&self) -> u64 {
        self.written
    }

    /// Returns the next write, if there is anything to write and the driver is idle. `snapshot`
    /// returns entries that can replace all earlier ones.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        snapshot: impl FnOnce() -> Vec<Entry>,
    ) -> Option<JournalWrite> {
        let is_due = self.retry.map_or(!self.pending.is_empty(), |at| at <= now);
        if self.work.is_some() || !is_due {
            return None;
        }
        self.retry = None;
        let snapshot = mem::take(&mut self.is_long).then(snapshot);
        self.work = Some(Work::Writing { up_to: self.added, replaces: snapshot.is_some() });
        Some(JournalWrite { entries: mem::take(&mut self.pending), snapshot })
    }

    /// Notes that the current write is finished. The journal has the given length, and `replaced`
    /// is an error if the snapshot of the write did not replace it.
    pub(super) fn handle_written(&mut self, length: u64, replaced: Result<(), String>, now: Instant) {
        let Some(Work::Writing { up_to, replaces }) = self.work.take() else { return };
        let name = &self.name;
        if self.fails.take().is_some() {
            tracing::warn!(
                path = name,
                "the supervisor's journal {name} can be written again, and the run goes on: nothing needs to be done"
            );
        }
        match replaced {
            // A snapshot may be long itself, and must not be written again each time.
            Ok(()) if replaces => self.compact_at = self.shortest.max(2 * length),
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(path = name, %error, "the supervisor cannot shorten its journal {name}, which keeps growing while the run goes on: {error}; make room on its disk, or make its directory writable");
                self.compact_at = length + self.shortest;
            }
        }
        self.is_long = length > self.compact_at;
        self.written = up_to;
        self.waiting = (self.written < self.added).then_some(now);
    }

    /// Notes that the current write failed, and the reason. Returns true if the journal has to be
    /// removed.
    pub(super) fn handle_failure(&mut self, error: String, now: Instant) -> bool {
        let name = &self.name;
        if self.fails.is_none() {
            tracing::warn!(path = name, %error, "the supervisor's journal {name} cannot be written, and the run takes no triggers: {error}; make room on its disk, or mend what the error names (after {} s, the run goes on without the journal, and loses no events by that)", PATIENCE.as_secs());
        }
        let (since, _) = self.fails.get_or_insert((now, error));
        let is_hopeless = now.since(*since) >= PATIENCE;
        self.work = is_hopeless.then_some(Work::Removing);
        self.retry = (!is_hopeless).then_some(now + RETRY);
        is_hopeless
    }

    /// Ends the keeping of the journal, and returns the problem for the report.
    pub(super) fn abandon(self, removed: Result<(), String>) -> String {
        let Self { name, fails, .. } = self;
        let error = fails.map_or_else(|| "the journal's thread ended".to_owned(), |(_, error)| error);
        let problem = format!(
            "the supervisor's journal {name} could not be written, so the run went on without it: {error}"
        );
        let and_remove = match removed {
            Ok(()) => String::new(),
            Err(error) => {
                format!(", and remove the file before the next start, which evb could not do: {error}")
            }
        };
        tracing::warn!(
            "{problem}; keep this supervisor running until the run is over, because no other could go on with the run, and repair the disk{and_remove}"
        );
        problem + "; repair its disk before the next run" + &and_remove
    }

    /// Handles the passage of time: notes if the run has to wait for the disk, and logs a long wait
    /// and its end.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let waits = self.waiting.map_or(Duration::ZERO, |since| now.since(since));
        self.is_stalled = waits >= STALL;
        let name = &self.name;
        if waits >= HANG && !self.is_told && self.fails.is_none() {
            self.is_told = true;
            tracing::warn!(
                path = name,
                "the disk of the supervisor's journal {name} does not answer, so the run takes no triggers until it does; look with `iostat` whether the disk is overloaded, and with `dmesg` whether it fails"
            );
        } else if !self.is_stalled && mem::take(&mut self.is_told) {
            tracing::warn!(
                path = name,
                "the disk of the supervisor's journal {name} answers again, and the run goes on: nothing needs to be done"
            );
        }
    }

    /// Returns true if the run has to wait for the disk.
    pub(super) const fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Returns the time at which [`Self::handle_timeout`] and [`Self::poll`] must be called next.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let stall = self.waiting.filter(|_| !self.is_stalled).map(|since| since + STALL);
        earlier(stall, self.retry)
    }

    /// Checks the invariants, for tests and the simulator.
    pub(super) fn invariants(&self) {
        let pending = self.pending.len() as u64;
        assert!(self.written + pending <= self.added, "an entry is pending or written");
        assert!(self.waiting.is_some() || self.written == self.added, "it is known since when entries wait");
        assert!(!self.is_stalled || self.waiting.is_some(), "a disk stalls only if entries wait");
    }
}
