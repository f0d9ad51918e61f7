//! The claim of one process on a configuration whose addresses are all on loopback: its system
//! belongs to one host, and there to one process.

#[cfg(test)]
mod tests;

use std::{
    fs::{File, TryLockError},
    path::Path,
};

use super::RunError;

/// The claim of one process on the system of a configuration that is on loopback. It ends with the
/// process.
#[derive(Debug)]
pub(super) struct Claim {
    /// Configuration file, locked unless its file system has no locks.
    _file: Option<File>,
}

/// Claims the system of this configuration for this process. A second process that shares the file
/// gets an error, on this host or on another one: with loopback addresses alone, each host could
/// run a system of its own.
///
/// # Errors
/// [`RunError::Taken`]: another process has claimed it.
pub(super) fn claim(path: &Path) -> Result<Claim, RunError> {
    // A pipe has been read to its end, and opening it again would block.
    if !path.is_file() {
        return Ok(Claim { _file: None });
    }
    // NFS grants an exclusive lock only on a file that is open for writing.
    let Ok(file) = File::options().read(true).write(true).open(path).or_else(|_| File::open(path)) else {
        return Ok(Claim { _file: None });
    };
    match file.try_lock() {
        Ok(()) => Ok(Claim { _file: Some(file) }),
        Err(TryLockError::WouldBlock) => Err(RunError::Taken { path: path.to_owned() }),
        Err(TryLockError::Error(_)) => Ok(Claim { _file: None }),
    }
}
