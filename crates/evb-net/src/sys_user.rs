//! The user of this process: `geteuid(2)`.

/// Returns the effective user ID of this process.
#[cfg(unix)]
#[allow(unsafe_code)]
pub(crate) fn effective_user() -> u32 {
    // SAFETY: `geteuid` takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}
