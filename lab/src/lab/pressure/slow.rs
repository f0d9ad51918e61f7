//! [`SlowDisk`]: makes a disk accept writes only for short times, like a disk that is much too slow
//! for its load.

use std::{
    path::Path,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Result, anyhow};
use lab_base::disk::{self, Disk};

/// Time for which the disk hangs; after it, the disk accepts writes for the time `TAKES`, and so
/// on.
pub(super) const HANGS: Duration = Duration::from_millis(950);
pub(super) const TAKES: Duration = Duration::from_millis(50);

/// A disk that is slow until this value is dropped.
pub(crate) struct SlowDisk {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl SlowDisk {
    pub(crate) fn new(disk: &Disk) -> Self {
        let folder = disk.folder.clone();
        let (end, ends) = mpsc::channel();
        let thread = thread::spawn(move || {
            let goes_on = |time| matches!(ends.recv_timeout(time), Err(RecvTimeoutError::Timeout));
            while hang(&folder, || goes_on(HANGS))? && goes_on(TAKES) {}
            Ok(())
        });
        Self { end: Some(end), thread: Some(thread) }
    }

    /// Restores the disk's full speed.
    pub(crate) fn heal(mut self) -> Result<()> {
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        drop(self.end.take());
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| anyhow!("the thread that makes a disk slow has panicked"))?
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        if let Err(error) = self.join() {
            eprintln!("{error:#}");
        }
    }
}

/// Freezes the file system while `wait` runs, and returns the result of `wait`.
fn hang(folder: &Path, wait: impl FnOnce() -> bool) -> Result<bool> {
    disk::stick(folder, true)?;
    let goes_on = wait();
    disk::stick(folder, false)?;
    Ok(goes_on)
}
