//! Text at the border: NUL-terminated UTF-8 of callers, and arrays of fixed size for them.

use std::{
    ffi::{CStr, c_char},
    slice,
};

use crate::error::Failure;

/// Longest text that a caller may pass, in bytes. A text without an end is refused instead of read
/// through all memory.
const LONGEST: usize = 4096;

/// Mark at the end of a text that was cut off.
const CUT: &str = "…";

/// Writes text and a NUL into an array, and cuts the text off if the array is too short. Only the
/// bytes up to the NUL are written.
///
/// # Safety
/// The pointer must be valid for writes of the whole array.
pub(crate) unsafe fn write<const N: usize>(into: *mut [c_char; N], text: &str) {
    // SAFETY: the caller vouches for the array.
    unsafe { put(text, into.cast(), N) };
}

/// # Safety
/// The pointer must lead to `size` writable bytes.
unsafe fn put(text: &str, into: *mut c_char, size: usize) {
    let (part, mark) = fitting(text, size.saturating_sub(1));
    let bytes = part.bytes().chain(mark.bytes()).chain([0]);
    for (index, byte) in bytes.enumerate().take(size) {
        // SAFETY: the index is below the size, for which the caller vouches.
        unsafe { into.add(index).write(byte as c_char) };
    }
}

/// Returns the part of a text that fits into `room` bytes, and the mark to put behind it.
fn fitting(text: &str, room: usize) -> (&str, &'static str) {
    if text.len() <= room {
        return (text, "");
    }
    let mark = if room < CUT.len() { "" } else { CUT };
    let mut end = room - mark.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (&text[..end], mark)
}

/// Returns the text of a required argument.
///
/// # Safety
/// The pointer must be NULL, or lead to bytes that are valid up to a NUL during the call.
pub(crate) unsafe fn required<'a>(argument: &str, text: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: the caller vouches for the pointer.
    match unsafe { optional(argument, text) }? {
        Some(text) if !text.is_empty() => Ok(text),
        Some(_) => {
            Err(Failure::invalid(format!("`{argument}` is an empty text"), "pass a text that is not empty"))
        }
        None => Err(Failure::null(argument)),
    }
}

/// Returns the text of an argument that may be left out by NULL.
///
/// # Safety
/// The pointer must be NULL, or lead to bytes that are valid up to a NUL during the call.
pub(crate) unsafe fn optional<'a>(argument: &str, text: *const c_char) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: `strnlen` reads no byte behind the NUL, and the caller vouches for those before it.
    let length = unsafe { libc::strnlen(text, LONGEST + 1) };
    if length > LONGEST {
        let reason = format!("`{argument}` has more than {LONGEST} bytes");
        return Err(Failure::invalid(reason, "end the text with a NUL, or shorten it"));
    }
    // SAFETY: `strnlen` has found the NUL behind these bytes.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), length) };
    let fault = |_| Failure::invalid(format!("`{argument}` is not UTF-8"), "pass UTF-8 text");
    std::str::from_utf8(bytes).map(Some).map_err(fault)
}

/// Copies a text to the caller's `size` bytes, with a NUL, cut off if there is too little room.
///
/// # Safety
/// The pointer must be NULL, or lead to `size` writable bytes.
pub(crate) unsafe fn copy(argument: &str, text: &str, into: *mut c_char, size: usize) -> Result<(), Failure> {
    if into.is_null() || size == 0 {
        return Err(Failure::invalid(format!("`{argument}` has no room"), "pass an array and its size"));
    }
    // SAFETY: the caller vouches for the bytes.
    unsafe { put(text, into, size) };
    Ok(())
}

/// Returns the text that a callback wrote into an array, up to its NUL.
pub(crate) fn written(array: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(array).map_or(array, CStr::to_bytes);
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests;
