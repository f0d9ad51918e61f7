//! [`evb_fragment`]: the data of one source for one event, copied from the caller's memory or
//! borrowed from it.

use std::{cell::Cell, ffi::c_void, slice};

use bytes::Bytes;
use evb_rs::{
    fragment::{Fragment, Timestamp},
    id::EventId,
    source::Refused,
    units,
};

use crate::{
    border::{self, Callback},
    error::Failure,
};

/// Gives the memory of a payload back to its owner. Called exactly once for each fragment that evb
/// took over, on any thread of evb, and perhaps before the function that took the fragment returns.
/// It must not throw, and must not call a function of evb that waits.
pub type evb_release = Option<unsafe extern "C-unwind" fn(owner: *mut c_void)>;

/// The data of one source for one event.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct evb_fragment {
    /// Event id: the trigger number, from 1 without gaps.
    pub event: u64,
    /// The detector's own timestamp, in its ticks. evb does not interpret it.
    pub timestamp: u64,
    /// Payload bytes; may be NULL if `size` is 0.
    pub data: *const c_void,
    /// Number of payload bytes.
    pub size: usize,
    /// NULL: evb copies the payload. Otherwise evb keeps the pointer, does not copy, and calls this
    /// function with `owner` when no builder needs the payload any more. Until then the bytes must
    /// not change.
    pub release: evb_release,
    /// Argument of `release`.
    pub owner: *mut c_void,
}

/// A payload in the caller's memory.
struct Lent {
    data: *const u8,
    size: usize,
    release: unsafe extern "C-unwind" fn(owner: *mut c_void),
    owner: *mut c_void,
}

// SAFETY: the caller permits evb to read the payload, and to release it, on any thread.
unsafe impl Send for Lent {}
// SAFETY: nothing writes to the payload while it is lent.
unsafe impl Sync for Lent {}

thread_local! {
    /// True while fragments are dropped that stay with the caller.
    static KEEPS: Cell<bool> = const { Cell::new(false) };
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: `bytes` has checked pointer and length; the caller keeps the memory valid and
        // unchanged until `release`.
        unsafe { slice::from_raw_parts(self.data, self.size) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !KEEPS.get() {
            // SAFETY: the caller passed this function for this owner, and `drop` runs once.
            border::call(Callback::Release, || unsafe { (self.release)(self.owner) });
        }
    }
}

/// Drops fragments that no function took. Their memory stays with the caller, so `release` is not
/// called.
pub(crate) fn leave<T>(fragments: T) {
    KEEPS.set(true);
    drop(fragments);
    KEEPS.set(false);
}

/// Makes a fragment of at most `largest` payload bytes from the caller's.
///
/// # Safety
/// The payload must be readable, and remain so until `release` if that is given.
pub(crate) unsafe fn fragment(given: &evb_fragment, largest: u64) -> Result<Fragment, Failure> {
    let event = EventId::new(given.event);
    // A payload that would be refused is neither read nor copied.
    if given.size as u64 > largest {
        let (size, limit) = (units::Bytes::new(given.size as u64), units::Bytes::new(largest));
        return Err(Refused::Oversize { event, size, limit }.into());
    }
    // SAFETY: the caller vouches for the payload.
    let payload = unsafe { bytes(given) }?;
    Ok(Fragment::new(event, Timestamp::new(given.timestamp), payload))
}

/// # Safety
/// The same as for [`fragment`].
unsafe fn bytes(given: &evb_fragment) -> Result<Bytes, Failure> {
    let (data, size) = (given.data.cast::<u8>(), given.size);
    if data.is_null() && size > 0 {
        return Err(Failure::null("data"));
    }
    let is_object = isize::try_from(size).is_ok() && data.addr().checked_add(size).is_some();
    if !is_object {
        let reason = format!("the size of the payload is {size} bytes, more than memory can hold");
        return Err(Failure::invalid(reason, "pass the number of bytes at `data`"));
    }
    if let Some(release) = given.release {
        return Ok(Bytes::from_owner(Lent { data, size, release, owner: given.owner }));
    }
    if size == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the pointer is not null, the size is possible, and the caller vouches for the bytes.
    Ok(Bytes::copy_from_slice(unsafe { slice::from_raw_parts(data, size) }))
}

#[cfg(test)]
mod tests;
