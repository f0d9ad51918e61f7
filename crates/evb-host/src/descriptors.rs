//! The number of file descriptors that this process may have open.

#[cfg(test)]
mod tests;

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Returns the hard limit, up to which the process may raise its own limit; `u64::MAX`: unlimited.
pub fn hard_limit() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Returns the limit that is in force; `u64::MAX`: unlimited.
pub fn soft_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the limit of this process to the hard limit, and returns it. Login shells and systemd set
/// a low limit for the sake of programs that use `select`; evb does not use it, and a system with
/// thousands of sources needs more.
///
/// # Errors
/// The error of the operating system; the limit is unchanged.
pub fn raise() -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(maximum.unwrap_or(u64::MAX))
}
