//! [`Claim`]: who has this machine's lab. A killed lab cannot take its network down; the next one can, once it knows
//! that nobody uses it any more.

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// Outlives whoever made it, as the namespaces do, which `ip` keeps in the same place.
const FILE: &str = "/run/evb-lab";

/// Held for as long as a lab is up. The kernel lets go of the lock when its holder ends, however that happens; the
/// file then says that what is up was a lab's.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    /// Closed on exec, so no program that the lab has started holds it any longer.
    _locked: File,
}

/// What was found.
#[derive(Debug)]
pub(super) enum Found {
    /// No lab has been up, or the last one has taken everything down.
    Free(Claim),
    /// A lab was up and its process is no more.
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
        // Who had it may have removed it between the two steps; another file is there then, or none.
        let is_same =
            fs::metadata(path).is_ok_and(|now| file.metadata().is_ok_and(|mine| mine.ino() == now.ino()));
        if !is_same {
            return Ok(Found::Taken);
        }
        let claim = Self { path: path.to_owned(), _locked: file };
        Ok(if is_left { Found::Left(claim) } else { Found::Free(claim) })
    }

    /// Everything has been taken down.
    pub(super) fn give_up(&self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("removing {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests;
