//! Files that hold a secret: who may read and change them.

#[cfg(test)]
mod tests;

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{OFlags, StatVfsMountFlags, fstatvfs};

/// Reason why a file with a secret is not used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read the file {}: {reason}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error that the operating system reported.
        reason: io::Error,
    },
    /// Others may read or change the file.
    #[error(
        "the file {} may be read or changed by others than its owner (mode {mode:04o}); run `chmod 600 {}`",
        path.display(), path.display()
    )]
    Mode {
        /// Path of the file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The file belongs to another user, who may change the secret.
    #[error(
        "the file {} belongs to user {owner}, not to this user ({user}) or root; as root, run `chown {user} {}`",
        path.display(), path.display()
    )]
    Owner {
        /// Path of the file.
        path: PathBuf,
        /// User ID of the file's owner.
        owner: u32,
        /// Effective user ID of this process.
        user: u32,
    },
    /// The path leads to a device, a pipe or a directory.
    #[error("{} is not a regular file, but a device, a pipe or a directory", .0.display())]
    NotAFile(PathBuf),
}

/// Opens a regular file that belongs to this user or to root, and that no others may read or
/// change. Its group may read it if that is root's group or the group of this process, or if the
/// file lies on a file system that is mounted read-only, such as a secret of Kubernetes.
///
/// # Errors
/// Returns a [`SecretError`], whose text names the remedy.
pub fn open_secret(path: &Path) -> Result<File, SecretError> {
    let fault = |reason| SecretError::Read { path: path.to_owned(), reason };
    // A pipe would keep the process waiting for a writer.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(nonblocking).open(path).map_err(fault)?;
    // The open file is checked, because its path may lead to another file a moment later.
    let facts = file.metadata().map_err(fault)?;
    let is_fixed = || fstatvfs(&file).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY));
    check(path, &facts, is_fixed)?;
    Ok(file)
}

/// Checks the facts about a file. `is_fixed` returns true if its file system is read-only.
fn check(path: &Path, facts: &Metadata, is_fixed: impl FnOnce() -> bool) -> Result<(), SecretError> {
    if !facts.is_file() {
        return Err(SecretError::NotAFile(path.to_owned()));
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if facts.uid() != user && facts.uid() != 0 {
        return Err(SecretError::Owner { path: path.to_owned(), owner: facts.uid(), user });
    }
    let is_closed = match facts.mode() & 0o077 {
        0 => true,
        0o040 => facts.gid() == 0 || facts.gid() == group || is_fixed(),
        _ => false,
    };
    if is_closed {
        Ok(())
    } else {
        Err(SecretError::Mode { path: path.to_owned(), mode: facts.mode() & 0o7777 })
    }
}
