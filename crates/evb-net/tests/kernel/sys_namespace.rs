//! `unshare(2)`.
#![allow(unsafe_code)]

/// Moves the calling thread into a new network namespace.
pub(crate) fn leave_network() -> std::io::Result<()> {
    // SAFETY: `unshare` takes no pointers here, and changes only the calling thread's namespace.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
