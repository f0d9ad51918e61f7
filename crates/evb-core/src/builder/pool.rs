//! [`Pool`]: reusable memory for large fragments.

use bytes::BytesMut;

/// Spare memory for large fragments, kept for each source. If the sources shared it, every piece
/// would grow to the size of the largest fragment of all sources.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// Spare pieces of memory of each source.
    spare: Vec<Vec<BytesMut>>,
    /// Most spare pieces that are kept for one source.
    limit: usize,
    /// Capacity of all pieces, in use or spare, in bytes.
    allocated: usize,
    peak: usize,
}

impl Pool {
    pub(super) fn new(sources: usize, limit: usize) -> Self {
        Self { spare: vec![Vec::new(); sources], limit, ..Self::default() }
    }

    /// Returns the highest number of bytes that were in use or spare at once.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }

    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.allocated
    }

    /// Returns memory for `length` bytes of a source: a spare piece if it is large enough, else a
    /// new one, for which a smaller spare piece is freed.
    pub(super) fn take(&mut self, source: usize, length: usize) -> BytesMut {
        let memory = match self.spare[source].pop() {
            Some(spare) if spare.capacity() >= length => spare,
            other => {
                self.forget(other.map_or(0, |spare| spare.capacity()));
                let fresh = BytesMut::with_capacity(length);
                self.allocated += fresh.capacity();
                fresh
            }
        };
        self.peak = self.peak.max(self.allocated);
        memory
    }

    /// Takes back memory of a source. Beyond the limit of spare pieces, the memory is freed.
    pub(super) fn give(&mut self, source: usize, mut memory: BytesMut) {
        if self.spare[source].len() < self.limit {
            memory.clear();
            self.spare[source].push(memory);
        } else {
            self.forget(memory.capacity());
        }
    }

    pub(super) fn forget(&mut self, bytes: usize) {
        self.allocated = self.allocated.saturating_sub(bytes);
    }
}
