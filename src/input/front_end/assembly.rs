//! [`Assembly`]: the memory for fragments of which only a part has arrived.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use evb_core::{source::assembly_memory, units::Bytes};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

/// Time after which a front end that has stopped within a fragment gives way to others.
pub(super) const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 800 } else { 5000 });

/// A front end sends nothing more of a fragment, while others wait for its memory.
#[derive(Debug, thiserror::Error)]
#[error(
    "it sent nothing more in the middle of a fragment, while other front ends waited for the memory: see whether it hangs"
)]
pub(in crate::input) struct Stopped;

/// The memory that a source has for fragments of which only a part has arrived. A connection reads
/// a payload only when it holds room for all of it.
#[derive(Debug)]
pub(super) struct Assembly {
    room: Semaphore,
    /// Number of connections that wait for room.
    waiting: AtomicUsize,
}

impl Assembly {
    pub(super) fn new(max_fragment: Bytes, front_ends: u32) -> Self {
        let size = assembly_memory(max_fragment, front_ends).count();
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { room: Semaphore::new(size), waiting: AtomicUsize::new(0) }
    }

    /// Waits until there is room for a payload, which is not larger than `max_fragment`.
    pub(super) async fn room(&self, length: u32) -> SemaphorePermit<'_> {
        if let Ok(room) = self.room.try_acquire_many(length) {
            return room;
        }
        let _waiting = Waiting::new(&self.waiting);
        self.room.acquire_many(length).await.unwrap_or_else(|_| unreachable!("it is never closed"))
    }

    /// Reads into `payload`, which has room; returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// The front end sends nothing while others wait for room.
    pub(super) async fn read(
        &self,
        stream: &mut (impl AsyncRead + Unpin + Send),
        payload: &mut bytes::BytesMut,
        missing: u64,
    ) -> Result<usize, Stopped> {
        loop {
            match timeout(PATIENCE, (&mut *stream).take(missing).read_buf(payload)).await {
                // A connection that is reset ends like one that is closed.
                Ok(read) => return Ok(read.unwrap_or(0)),
                Err(_) if self.waiting.load(Ordering::Relaxed) > 0 => return Err(Stopped),
                Err(_) => {}
            }
        }
    }
}

/// Counts a connection that waits, as long as it exists.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
