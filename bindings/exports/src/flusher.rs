//! Writes the output to disk while it is being written to memory.
//!
//! Without this, the kernel gathers gigabytes in memory before it begins, at the expense of
//! everything else that the machine has cached, and the export ends with a long wait.

use std::{
    io,
    sync::mpsc::{SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use rustix::fs::{Advice, fadvise};

use crate::staged::{Staged, StagedError};

/// Number of bytes after which the disk gets the next part.
const PART: u64 = 64 << 20;

/// A thread that flushes a file.
pub(crate) struct Flusher {
    /// Number of bytes written since the last flush began.
    waiting: u64,
    wake: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Flusher {
    pub(crate) fn begin(staged: &Staged) -> Result<Self, StagedError> {
        let file = staged.again()?;
        let (wake, woken) = sync_channel(1);
        let thread = thread::spawn(move || {
            while woken.recv().is_ok() {
                file.sync_data()?;
                // The kernel need not keep what is on disk. It may ignore this advice.
                let _ = fadvise(&file, 0, None, Advice::DontNeed);
            }
            Ok(())
        });
        Ok(Self { waiting: 0, wake, thread })
    }

    /// Takes note of bytes that were written.
    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.waiting += bytes;
        if self.waiting >= PART {
            self.waiting = 0;
            // If the thread is still busy, it takes these bytes with the next ones; if it has
            // failed, `finish` tells.
            let _ = self.wake.try_send(());
        }
    }

    /// Waits until the thread has ended, and returns its error. The kernel reports a failed write
    /// only once, so a later flush of the same file may succeed.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.wake);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
