//! Options of sockets: one call each of `setsockopt` and `getsockopt`.

#![allow(unsafe_code)]

use std::{
    ffi::c_int,
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
};

/// Types whose values the kernel may overwrite with arbitrary bytes.
///
/// # Safety
/// Every bit pattern must be a valid value of the type.
pub(crate) unsafe trait Plain: Copy {
    /// Initial value, which the kernel overwrites.
    const ZERO: Self;
}

// SAFETY: every bit pattern is a valid integer.
unsafe impl Plain for i32 {
    const ZERO: Self = 0;
}

// SAFETY: every bit pattern is a valid integer.
unsafe impl Plain for u32 {
    const ZERO: Self = 0;
}

// SAFETY: every bit pattern is a valid integer.
unsafe impl Plain for u64 {
    const ZERO: Self = 0;
}

// SAFETY: every bit pattern is a valid array of integers.
unsafe impl<const N: usize> Plain for [u32; N] {
    const ZERO: Self = [0; N];
}

/// Sets a socket option to `value`.
pub(crate) fn set<T: Copy>(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads `size_of::<T>()` bytes
    // from `value`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option; bytes that the kernel does not write are zero.
pub(crate) fn get<T: Plain>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = T::ZERO;
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `length` bytes
    // to `value`, and every bit pattern is a valid `T`.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
