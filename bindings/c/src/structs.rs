//! Structs of callers, whose first field is their size. A program that was built with an older
//! header has shorter structs; fields that it does not know are zero, which means the default.

use std::{
    mem::{MaybeUninit, size_of},
    ptr, slice,
};

use crate::error::Failure;

/// Largest size that a caller may state; a larger one is memory that was not initialized.
const LARGEST: usize = 4096;

/// Advice for a struct that was not cleared.
pub(crate) const CLEAR_FIRST: &str =
    "set all fields to zero, then struct_size to the size of the struct, and then those that are needed";

/// A struct for which zero in all bytes is a valid value, and whose first field is its size.
///
/// # Safety
/// Both must be true of the type.
pub(crate) unsafe trait Sized0: Copy {}

/// Returns a copy of the caller's struct.
///
/// # Safety
/// The pointer must be NULL, or lead to as many readable bytes as the first field states.
pub(crate) unsafe fn read<T: Sized0>(argument: &str, from: *const T) -> Result<T, Failure> {
    // SAFETY: the caller vouches for the pointer.
    let stated = unsafe { stated_size(argument, from) }?;
    // SAFETY: as many bytes as the first field states are readable.
    let given = unsafe { slice::from_raw_parts(from.cast::<MaybeUninit<u8>>(), stated) };
    let (known, rest) = given.split_at(stated.min(size_of::<T>()));
    // SAFETY: a caller initializes the fields that it has; bytes behind the fields known here are
    // fields too.
    if rest.iter().any(|byte| unsafe { byte.assume_init() } != 0) {
        let reason = format!(
            "`{argument}` uses a field that the installed libevb {} does not have",
            env!("CARGO_PKG_VERSION")
        );
        let remedy = "build the program with the evb.h of this libevb, or install the newer libevb whose evb.h the program used";
        return Err(Failure::invalid(reason, remedy));
    }
    let mut read = MaybeUninit::<T>::zeroed();
    // SAFETY: both ranges are valid for the number of bytes and belong to different objects; zeroed
    // bytes are a valid value of the type.
    unsafe {
        ptr::copy_nonoverlapping(known.as_ptr(), read.as_mut_ptr().cast(), known.len());
        Ok(read.assume_init())
    }
}

/// Writes a struct to the caller, as far as the caller's struct reaches; its first field keeps its
/// value. NULL means that the caller wants none.
///
/// # Safety
/// The pointer must be NULL, or lead to as many writable bytes as the first field states.
pub(crate) unsafe fn write<T: Sized0>(argument: &str, into: *mut T, value: &T) -> Result<(), Failure> {
    if into.is_null() {
        return Ok(());
    }
    // SAFETY: the caller vouches for the pointer.
    let stated = unsafe { stated_size(argument, into) }?;
    let (first, end) = (size_of::<usize>(), stated.min(size_of::<T>()));
    let from = ptr::from_ref(value).cast::<MaybeUninit<u8>>();
    // SAFETY: both ranges are valid up to `end`, and belong to different objects.
    unsafe {
        ptr::copy_nonoverlapping(from.add(first), into.cast::<MaybeUninit<u8>>().add(first), end - first)
    };
    Ok(())
}

/// Checks the size that a struct for an answer states, before work whose result could not be
/// written.
///
/// # Safety
/// The pointer must be NULL, or lead to a readable first field.
pub(crate) unsafe fn check<T: Sized0>(argument: &str, into: *mut T) -> Result<(), Failure> {
    if into.is_null() {
        return Ok(());
    }
    // SAFETY: the caller vouches for the pointer.
    unsafe { stated_size(argument, into) }.map(drop)
}

/// Returns the size that the first field of a struct states.
///
/// # Safety
/// The pointer must be NULL, or lead to a readable first field.
unsafe fn stated_size<T>(argument: &str, from: *const T) -> Result<usize, Failure> {
    if from.is_null() {
        return Err(Failure::null(argument));
    }
    if !from.is_aligned() {
        return Err(Failure::invalid(format!("`{argument}` is not aligned"), "pass a valid pointer"));
    }
    // SAFETY: the first field is readable, and the pointer is aligned for the whole struct.
    let stated = unsafe { from.cast::<usize>().read() };
    if (size_of::<usize>() + 1..=LARGEST).contains(&stated) {
        return Ok(stated);
    }
    let reason = format!("`{argument}.struct_size` is {stated}, which is no size of this struct");
    Err(Failure::invalid(reason, CLEAR_FIRST))
}

#[cfg(test)]
mod tests;
