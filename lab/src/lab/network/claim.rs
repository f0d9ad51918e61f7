//! [`Claim`]: the exclusive right to this machine's lab. A killed lab cannot take its network down;
//! the next one can, once it knows that no process uses it any more.

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// The lock file. It outlives its process, as the namespaces do, which `ip` keeps in the same
/// place.
const FILE: &str = "/run/evb-lab";

/// The lock that is held while a lab is up. The kernel releases it when its holder ends, however
/// that happens; the file then shows that the existing namespaces belonged to a lab.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    /// The locked file. It is closed on exec, so no program that the lab has started holds the lock
    /// any longer.
    _locked: File,
}

/// The state in which the lab was found.
#[derive(Debug)]
pub(super) enum Found {
    /// No lab has been up, or the last one has taken everything down.
    Free(Claim),
    /// A lab was up and its process has died.
    Left(Claim),
    /// A lab is up.
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
        // The previous holder may have removed the file between the two steps; there is then
        // another file, or none.
        let is_same =
            fs::metadata(path).is_ok_and(|now| file.metadata().is_ok_and(|mine| mine.ino() == now.ino()));
        if !is_same {
            return Ok(Found::Taken);
        }
        let claim = Self { path: path.to_owned(), _locked: file };
        Ok(if is_left { Found::Left(claim) } else { Found::Free(claim) })
    }

    /// Removes the file, after everything has been taken down.
    pub(super) fn give_up(&self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("removing {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests;
