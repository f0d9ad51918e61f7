//! [`JournalDisk`]: carries out the writes to the supervisor's journal on a simulated disk, as the
//! journal's thread does in production.

use core::mem;

use evb_core::{rng::Rng, supervisor::JournalWrite, time::Instant, wire::journal::Entry};

use super::Surroundings;
use crate::system::disk::{WRITE, Written};

#[derive(Debug, Default)]
pub(crate) struct JournalDisk {
    /// Entries that the current write is to append, or that earlier ones failed to append.
    unwritten: Vec<Entry>,
    snapshot: Option<Vec<Entry>>,
    /// Beginning of the current write.
    since: Option<Instant>,
}

impl JournalDisk {
    /// Begins a write.
    pub(crate) fn write(&mut self, write: JournalWrite, now: Instant) {
        self.unwritten.extend(write.entries);
        (self.snapshot, self.since) = (write.snapshot, Some(now));
    }

    /// Returns the length of the journal if the current write is finished, or the error if it
    /// failed.
    pub(crate) fn poll(&mut self, around: &mut Surroundings<'_>) -> Option<Result<u64, String>> {
        let done = match around.disk.look(self.since?, WRITE, around.now()) {
            Written::Later(_) => return None,
            Written::Done => {
                around.journal.append(&mem::take(&mut self.unwritten));
                if let Some(snapshot) = self.snapshot.take() {
                    around.journal.replace(&snapshot);
                }
                Ok(around.journal.len() as u64)
            }
            Written::Full | Written::Failed => Err("the disk fails".to_owned()),
        };
        self.since = None;
        Some(done)
    }

    /// Leaves the journal as it is if the process dies now: some of the entries being written are
    /// on the disk, and perhaps a part of the next one.
    pub(crate) fn tear(&self, around: &mut Surroundings<'_>, rng: &mut Rng) {
        if self.since.is_some() {
            around.journal.tear(&self.unwritten, rng);
        }
    }

    pub(crate) fn next_timeout(&self, around: &Surroundings<'_>) -> Option<Instant> {
        let now = around.now();
        match around.disk.look(self.since?, WRITE, now) {
            Written::Later(at) => at,
            _ => Some(now),
        }
    }
}
