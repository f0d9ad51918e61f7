//! [`SlowDisk`]: a disk that takes writes only now and then, as one that is much too slow for what it is given.

use std::{
    path::Path,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Result, anyhow};

use crate::lab::disk::{self, Disk};

/// It hangs for so long, then takes writes for so long.
pub(super) const HANGS: Duration = Duration::from_millis(950);
pub(super) const TAKES: Duration = Duration::from_millis(50);

/// A disk that is slow until this is dropped.
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

    /// Lets it be as fast as it is.
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

/// Hangs for as long as `wait` takes; gives what it says.
fn hang(folder: &Path, wait: impl FnOnce() -> bool) -> Result<bool> {
    disk::stick(folder, true)?;
    let goes_on = wait();
    disk::stick(folder, false)?;
    Ok(goes_on)
}
