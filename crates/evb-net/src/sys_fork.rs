//! A page that the kernel clears in a forked child: `MADV_WIPEONFORK`, madvise(2), Linux 4.14.

#[cfg(test)]
mod tests;

use std::{
    process,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// The id of the process that uses evb.
enum Owner {
    /// On a page that the kernel clears in a child, so that a look costs no system call.
    Wiped(&'static AtomicU32),
    /// Compared with the id of the process at each look, where the kernel has no such pages.
    Compared(u32),
}

static OWNER: OnceLock<Owner> = OnceLock::new();

/// Returns true in a child that was forked after the first call of this function.
pub(crate) fn is_forked_child() -> bool {
    match OWNER.get_or_init(owner) {
        Owner::Wiped(id) => id.load(Relaxed) == 0,
        Owner::Compared(id) => *id != process::id(),
    }
}

fn owner() -> Owner {
    let id = process::id();
    wiped_page().map_or(Owner::Compared(id), |page| {
        page.store(id, Relaxed);
        Owner::Wiped(page)
    })
}

/// Returns the first word of a page that the kernel clears in a child.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn wiped_page() -> Option<&'static AtomicU32> {
    use std::ptr::{self, NonNull};

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

#[cfg(not(target_os = "linux"))]
fn wiped_page() -> Option<&'static AtomicU32> {
    None
}
