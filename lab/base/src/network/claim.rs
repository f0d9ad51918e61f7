//! [`Claim`]: the exclusive right to run a lab on this machine. A lab that is killed leaves its
//! network behind. The next lab removes that network, once the lock shows that the earlier process
//! has ended.

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// The lock file. If a lab is killed, the file remains, just as the network namespaces do, which
/// `ip` also keeps in `/run`.
const FILE: &str = "/run/evb-lab";

/// The file lock that is held while a lab is up. The kernel releases the lock when its process
/// ends, even if it is killed. A file without a lock shows that existing namespaces belonged to a
/// killed lab.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    /// The locked file. The file is closed on exec, so that programs started by the lab do not
    /// inherit the lock.
    _locked: File,
}

/// The state in which the lock was found.
#[derive(Debug)]
pub(super) enum Found {
    /// No lab is up, and the last lab has removed its network.
    Free(Claim),
    /// The process of an earlier lab was killed, and its network may still exist.
    Left(Claim),
    /// A lab is up on this machine.
    Taken,
}

impl Claim {
    pub(super) fn try_take() -> Result<Found> {
        Self::take_at(Path::new(FILE))
    }

    fn take_at(path: &Path) -> Result<Found> {
        let is_left = path.exists();
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .with_context(|| format!("opening {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Found::Taken),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("locking {}", path.display()));
            }
        }
        // The previous holder of the lock may have removed the file between `open` and `try_lock`;
        // the path then leads to another file, or none.
        let is_same =
            fs::metadata(path).is_ok_and(|now| file.metadata().is_ok_and(|mine| mine.ino() == now.ino()));
        if !is_same {
            return Ok(Found::Taken);
        }
        let claim = Self { path: path.to_owned(), _locked: file };
        Ok(if is_left { Found::Left(claim) } else { Found::Free(claim) })
    }

    /// Removes the lock file; call this after the lab's network has been removed.
    pub(super) fn give_up(&self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("removing {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests;
