//! The claim of one process on a configuration whose addresses are all on loopback: such a system
//! belongs to one host, and on that host to one process.

#[cfg(test)]
mod tests;

use std::{
    fs::{File, TryLockError},
    path::Path,
};

use super::RunError;

/// The claim of one process on the system of a configuration whose addresses are all on loopback.
/// The claim ends with the process.
#[derive(Debug)]
pub(super) struct Claim {
    /// Configuration file, locked unless its file system has no locks.
    _file: Option<File>,
}

/// Claims the system of this configuration for this process. A second process that uses the same
/// file gets an error, on this host or on another host: with loopback addresses alone, each host
/// could run a system of its own.
///
/// # Errors
/// [`RunError::Taken`]: another process has claimed the system.
pub(super) fn claim(path: &Path) -> Result<Claim, RunError> {
    // If the configuration came through a pipe, opening the pipe again would block.
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
