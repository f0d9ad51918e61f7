//! Who we are: `geteuid(2)`.

/// The effective user of this process.
#[cfg(unix)]
#[allow(unsafe_code)]
pub(crate) fn effective_user() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}
