//! A configuration on loopback belongs to one host, and there to one process.

#[cfg(test)]
mod tests;

use std::{
    fs::{File, TryLockError},
    path::Path,
};

use super::RunError;

/// The right of one process to the system of a configuration that is on loopback. It ends with the process.
#[derive(Debug)]
pub(super) struct Claim {
    /// Locked, unless the file system knows no locks.
    _file: Option<File>,
}

/// Takes the system of that configuration for this process. Another process that shares the file is told, on this host or on another
/// one: a loopback address alone would let each host run a system of its own.
///
/// # Errors
/// Another process has it.
pub(super) fn claim(path: &Path) -> Result<Claim, RunError> {
    // A pipe has been read to its end, and would be waited for.
    if !path.is_file() {
        return Ok(Claim { _file: None });
    }
    // NFS locks what is open for writing.
    let Ok(file) = File::options().read(true).write(true).open(path).or_else(|_| File::open(path)) else {
        return Ok(Claim { _file: None });
    };
    match file.try_lock() {
        Ok(()) => Ok(Claim { _file: Some(file) }),
        Err(TryLockError::WouldBlock) => Err(RunError::Taken { path: path.to_owned() }),
        Err(TryLockError::Error(_)) => Ok(Claim { _file: None }),
    }
}
