use std::{
    ptr,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use super::*;
use crate::error::evb_code;

static RELEASED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" fn release(owner: *mut c_void) {
    RELEASED.fetch_add(owner.addr(), Relaxed);
}

fn given(data: &[u8], release: evb_release) -> evb_fragment {
    let (data, size) = (data.as_ptr().cast(), data.len());
    evb_fragment { event: 1, timestamp: 2, data, size, release, owner: ptr::without_provenance_mut(1) }
}

fn refused(given: evb_fragment, largest: u64) -> Failure {
    // SAFETY: a payload that is refused is not read.
    unsafe { fragment(&given, largest) }.unwrap_err()
}

#[test]
fn an_owned_payload_is_not_copied_and_released_once() {
    let data = [7; 100];
    // SAFETY: the payload outlives the fragment.
    let made = unsafe { fragment(&given(&data, Some(release)), 100) }.unwrap();
    assert_eq!(made.payload.as_ptr(), data.as_ptr());
    let copy = made.clone();
    drop(made);
    assert_eq!(RELEASED.load(Relaxed), 0, "the clone still uses it");
    drop(copy);
    assert_eq!(RELEASED.load(Relaxed), 1);
    // SAFETY: as above.
    leave(unsafe { fragment(&given(&data, Some(release)), 100) }.unwrap());
    assert_eq!(RELEASED.load(Relaxed), 1, "it stays with the caller");
}

#[test]
fn a_payload_without_release_is_copied() {
    let data = [7; 100];
    // SAFETY: the payload is valid.
    let made = unsafe { fragment(&given(&data, None), 100) }.unwrap();
    assert_ne!(made.payload.as_ptr(), data.as_ptr());
    assert_eq!(made.payload, &data[..]);
}

#[test]
fn a_payload_that_cannot_be_is_refused_unread() {
    let huge = evb_fragment { size: usize::MAX, ..given(&[], None) };
    assert_eq!(refused(huge, 100).code, evb_code::EVB_REFUSED);
    assert_eq!(refused(huge, u64::MAX).code, evb_code::EVB_INVALID);
    let none = evb_fragment { data: ptr::null(), size: 1, ..given(&[], None) };
    assert_eq!(refused(none, 100).code, evb_code::EVB_INVALID);
    let wraps = evb_fragment { data: ptr::without_provenance(usize::MAX), size: 2, ..given(&[], None) };
    assert_eq!(refused(wraps, 100).code, evb_code::EVB_INVALID);
    // SAFETY: an empty payload is not read.
    assert!(unsafe { fragment(&evb_fragment { size: 0, ..none }, 0) }.is_ok());
}
