//! Maps closed event files into memory. This is the only module with `unsafe`.

use std::{fs::File, io, path::Path};

use memmap2::{Advice, Mmap, UncheckedAdvice};

/// A whole file in memory, of which the kernel reads parts when they are first used.
#[derive(Debug)]
pub(crate) struct FileMap(Mmap);

impl FileMap {
    /// Maps a file. The caller must be sure that no program will truncate or change the file, as is
    /// the case for an event file that has an index.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: the bytes must not change while the map lives. evb only appends to event files,
        // and never touches a file again that has an index (FILE-5, FILE-50); the caller has found
        // the index intact. A program that overwrites such a file breaks the format's rules.
        let map = unsafe { Mmap::map(&file)? };
        // The advice only makes the kernel read further ahead, so an error means nothing.
        let _ = map.advise(Advice::Sequential);
        Ok(Self(map))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Takes a part of the file out of the process's resident memory. The part remains readable:
    /// the kernel maps it again from its cache, or reads it from the disk.
    pub(crate) fn release(&self, start: u64, end: u64) {
        const PAGE: usize = 1 << 16;
        let first = (start as usize).next_multiple_of(PAGE);
        let last = (end as usize).min(self.0.len()) / PAGE * PAGE;
        if first < last {
            // SAFETY: the map is shared and read-only, so the kernel has no other copy of its
            // content than the file itself, and brings back the same bytes.
            let _ = unsafe { self.0.unchecked_advise_range(UncheckedAdvice::DontNeed, first, last - first) };
        }
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}
