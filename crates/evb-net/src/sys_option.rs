//! Options of sockets: one call each of `setsockopt` and `getsockopt`.

#![allow(unsafe_code)]

use std::{
    ffi::c_int,
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
};

/// Types that the kernel may write as bytes.
///
/// # Safety
/// Every bit pattern is a value.
pub(crate) unsafe trait Plain: Copy {
    /// A value to be overwritten.
    const ZERO: Self;
}

// SAFETY: a whole number.
unsafe impl Plain for i32 {
    const ZERO: Self = 0;
}

// SAFETY: a whole number.
unsafe impl Plain for u32 {
    const ZERO: Self = 0;
}

// SAFETY: a whole number.
unsafe impl Plain for u64 {
    const ZERO: Self = 0;
}

// SAFETY: whole numbers.
unsafe impl<const N: usize> Plain for [u32; N] {
    const ZERO: Self = [0; N];
}

/// Sets an option.
pub(crate) fn set<T: Copy>(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed; `value` is plain and as long as said.
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

/// Reads an option; what the kernel leaves unwritten is zero.
pub(crate) fn get<T: Plain>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = T::ZERO;
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `length` bytes
    // to `value`, for which any bytes are a value.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
