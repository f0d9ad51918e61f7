//! [`Keeper`]: writes the supervisor's journal to a simulated disk, one write at a time. In
//! production, `src/supervisor/journal/keeper.rs` writes the journal on a thread.

use core::mem;

use evb_core::{
    rng::Rng,
    supervisor::{JOURNAL_RETRY, JOURNAL_STALL},
    time::{Instant, earlier},
    wire::journal::Entry,
};

use super::Surroundings;
use crate::system::disk::{WRITE, Written};

#[derive(Debug, Default)]
pub(crate) struct Keeper {
    pending: Vec<Entry>,
    added: u64,
    written: u64,
    job: Option<Job>,
    waiting: Option<Instant>,
    stalled: bool,
    retry: Option<Instant>,
    is_long: bool,
}

#[derive(Debug)]
struct Job {
    entries: Vec<Entry>,
    up_to: u64,
    instead: Option<Vec<Entry>>,
    since: Instant,
}

/// The result of a write to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Written,
    Failed,
}

impl Keeper {
    pub(crate) fn add(&mut self, entry: Entry, now: Instant) {
        self.pending.push(entry);
        self.added += 1;
        self.waiting.get_or_insert(now);
    }

    pub(crate) const fn added(&self) -> u64 {
        self.added
    }

    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Begins to write the waiting entries, if no other write is in progress. `snapshot` returns
    /// entries that can replace all earlier ones in a journal that has become long.
    pub(crate) fn start(&mut self, now: Instant, snapshot: impl FnOnce() -> Vec<Entry>) {
        let is_due = self.retry.map_or(!self.pending.is_empty(), |at| at <= now);
        if self.job.is_some() || !is_due {
            return;
        }
        self.retry = None;
        let instead = mem::take(&mut self.is_long).then(snapshot);
        let entries = mem::take(&mut self.pending);
        self.job = Some(Job { entries, up_to: self.added, instead, since: now });
    }

    /// Returns the result of the current write, if the write is finished.
    pub(crate) fn poll(&mut self, around: &mut Surroundings<'_>) -> Option<Done> {
        let now = around.now();
        let job = self.job.as_ref()?;
        match around.disk.look(job.since, WRITE, now) {
            Written::Later(_) => None,
            Written::Done => {
                around.journal.append(&job.entries);
                if let Some(instead) = &job.instead {
                    around.journal.replace(instead);
                }
                self.is_long = around.journal.len() > around.scenario.compact_at;
                self.written = job.up_to;
                self.waiting = (self.written < self.added).then_some(now);
                self.job = None;
                Some(Done::Written)
            }
            Written::Full | Written::Failed => {
                // The entries of the failed write are put back in front of those added since.
                if let Some(job) = self.job.take() {
                    let later = mem::replace(&mut self.pending, job.entries);
                    self.pending.extend(later);
                }
                self.retry = Some(now + JOURNAL_RETRY);
                Some(Done::Failed)
            }
        }
    }

    /// Returns true if entries have been waiting for so long that the run must pause until the disk
    /// has written them.
    pub(crate) fn is_stalled(&mut self, now: Instant) -> bool {
        self.stalled = self.waiting.is_some_and(|since| now.since(since) >= JOURNAL_STALL);
        self.stalled
    }

    /// Leaves the journal as it is if the process dies now: some of the entries being written are
    /// on the disk, and perhaps a part of the next one.
    pub(crate) fn tear(&self, around: &mut Surroundings<'_>, rng: &mut Rng) {
        if let Some(job) = &self.job {
            around.journal.tear(&job.entries, rng);
        }
    }

    pub(crate) fn next_timeout(&self, around: &Surroundings<'_>) -> Option<Instant> {
        let now = around.now();
        let job = self.job.as_ref().and_then(|job| match around.disk.look(job.since, WRITE, now) {
            Written::Later(at) => at,
            _ => Some(now),
        });
        let stall = self.waiting.filter(|_| !self.stalled).map(|since| since + JOURNAL_STALL);
        earlier(job, earlier(stall, self.retry))
    }
}
