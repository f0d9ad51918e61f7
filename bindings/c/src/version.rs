//! The version of the library.

use std::ffi::c_char;

use crate::border;

/// Version of the binary interface that this header describes.
pub const EVB_ABI: u32 = 0;

/// Returns the version of the library's binary interface. A program may compare it with EVB_ABI,
/// the version of its header. Thread safety: any thread, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn evb_abi() -> u32 {
    border::enter_or("evb_abi", u32::MAX, || EVB_ABI)
}

/// Returns the version of evb, such as "0.1.0"; the text stays valid. Thread safety: any thread, at
/// any time.
#[unsafe(no_mangle)]
pub extern "C" fn evb_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    border::enter_or("evb_version", c"".as_ptr(), || VERSION.as_ptr().cast())
}
