//! The signals that a write may raise: `pthread_sigmask(3)`.

/// Blocks SIGPIPE and SIGXFSZ in the calling thread and in the threads that it starts, so that a
/// write to a closed connection or beyond the limit of a file's size fails, and does not end the
/// process. What the process does about these signals stays as it is. A child process gets the mask
/// too, but [`std::process::Command`] starts children with an empty one.
#[cfg(unix)]
#[allow(unsafe_code)]
pub(crate) fn block_signals_of_writes() {
    // SAFETY: `sigset_t` is plain bits, and `sigemptyset` gives them their values.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is valid during the calls, and the signals exist.
    unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGPIPE);
        libc::sigaddset(&raw mut set, libc::SIGXFSZ);
        // The call fails only for an unknown way to change the mask.
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

#[cfg(not(unix))]
pub(crate) fn block_signals_of_writes() {}
