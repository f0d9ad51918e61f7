//! [`EventRing`]: the memory that evb shares with a worker, and what of it is in use.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt as _,
    },
};

use evb_core::units::Bytes;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

use super::RECORD_LIMIT;

/// Memory in which the records of several events are at the same time.
pub(super) const RING: Bytes = Bytes::mib(16);

/// Records begin at multiples of this, so that readers may use the numbers in place.
const ALIGNED: u64 = 64;

/// Memory of a worker's own, which evb writes and the worker reads. Records are freed in the order
/// in which they were written. evb reads none of it, so a worker that writes there harms itself.
#[derive(Debug)]
pub(super) struct EventRing {
    memory: File,
    /// Begin and end of each record in use, the oldest first.
    used: VecDeque<(u64, u64)>,
}

impl EventRing {
    pub(super) fn new() -> io::Result<Self> {
        let memory = File::from(memfd_create("evb filter", MemfdFlags::CLOEXEC)?);
        memory.set_len(RECORD_LIMIT.count())?;
        Ok(Self { memory, used: VecDeque::new() })
    }

    pub(super) fn memory(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Writes a record, and returns its offset; `None` if it has no room before others are freed.
    /// A record that is larger than the ring has room alone.
    ///
    /// # Errors
    /// The machine has no memory, or the record is larger than the limit.
    pub(super) fn write(&mut self, record: &[u8]) -> io::Result<Option<u64>> {
        let size = record.len() as u64;
        if size > RECORD_LIMIT.count() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let Some(begin) = self.room(size) else { return Ok(None) };
        self.memory.write_all_at(record, begin)?;
        self.used.push_back((begin, begin + size));
        Ok(Some(begin))
    }

    /// Returns the offset at which that number of bytes is free.
    fn room(&self, size: u64) -> Option<u64> {
        let (Some((oldest, _)), Some((newest, end))) = (self.used.front(), self.used.back()) else {
            return Some(0);
        };
        let begin = end.next_multiple_of(ALIGNED);
        let fits = |begin: u64, limit: u64| (begin + size <= limit).then_some(begin);
        // If the newest record lies before the oldest one, the free bytes are between them. Else
        // they are behind the newest one and in front of the oldest one.
        match newest < oldest {
            true => fits(begin, *oldest),
            false => fits(begin, RING.count()).or_else(|| fits(0, *oldest)),
        }
    }

    /// Frees the oldest record.
    pub(super) fn free(&mut self) {
        if let Some((_, end)) = self.used.pop_front()
            && end > RING.count()
        {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // If the kernel keeps the pages, they are used again.
            let _ = fallocate(&self.memory, flags, RING.count(), RECORD_LIMIT.count() - RING.count());
        }
    }
}
