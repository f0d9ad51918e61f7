//! Recognizes a child that was forked after evb had been used. evb's threads do not exist in the
//! child, and its locks may be held for ever.

use std::{
    process,
    ptr::{self, NonNull},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use crate::error::{Failure, evb_code, evb_fault};

/// The id of the process that uses evb.
enum Owner {
    /// On a page that the kernel clears in a child (`MADV_WIPEONFORK`, madvise(2), Linux 4.14), so
    /// that a check costs no system call.
    Wiped(&'static AtomicU32),
    /// Compared with the id of the process at each check, where the kernel has no such pages.
    Compared(u32),
}

static OWNER: OnceLock<Owner> = OnceLock::new();

/// Refuses a child that was forked after the first call of evb.
pub(super) fn check() -> Result<(), Failure> {
    let is_own = match OWNER.get_or_init(owner) {
        Owner::Wiped(id) => id.load(Relaxed) != 0,
        Owner::Compared(id) => *id == process::id(),
    };
    if is_own {
        return Ok(());
    }
    let reason = "this process was forked from a process that uses evb, whose threads it does not have";
    let remedy = "use evb in the parent only, or call exec() in the child";
    Err(Failure::new(evb_code::EVB_FORKED, evb_fault::EVB_FAULT_CALLER, reason, remedy))
}

fn owner() -> Owner {
    let id = process::id();
    wiped_page().map_or(Owner::Compared(id), |page| {
        page.store(id, Relaxed);
        Owner::Wiped(page)
    })
}

/// Returns the first word of a page that the kernel clears in a child.
fn wiped_page() -> Option<&'static AtomicU32> {
    const SIZE: usize = 4096;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses a free range for the new mapping, so no other memory changes.
    let page = unsafe { libc::mmap(ptr::null_mut(), SIZE, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the range is the mapping made above, which nothing else uses.
    if unsafe { libc::madvise(page, SIZE, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: the same range, of which no pointer is left.
        unsafe { libc::munmap(page, SIZE) };
        return None;
    }
    // SAFETY: the mapping is aligned, zeroed, and stays until the process ends.
    NonNull::new(page.cast::<AtomicU32>()).map(|word| unsafe { word.as_ref() })
}
