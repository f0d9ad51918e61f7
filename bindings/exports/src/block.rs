//! A block of events: the unit that goes from the reader to the writer.

use evb_file::format::Record;

/// Events in the order of their ids, with their payloads one after the other.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) records: Vec<Record>,
    /// The payloads of all fragments of all records, without gaps.
    pub(crate) memory: Vec<u8>,
    /// Number of the block's fragments.
    pub(crate) fragments: usize,
    /// Number of the block's missing and absent sources.
    pub(crate) missing: usize,
}

impl Block {
    /// Size of the payloads at which a block is full. It is also the size of a Parquet row group.
    pub(crate) const FULL: usize = 16 << 20;
    /// Number of fragments at which a block is full, however small they are.
    const FRAGMENTS: usize = 1 << 16;

    pub(crate) fn is_full(&self) -> bool {
        self.memory.len() >= Self::FULL
            || self.fragments + self.missing + self.records.len() >= Self::FRAGMENTS
    }

    pub(crate) fn add(&mut self, record: Record) {
        self.fragments += record.fragments.len();
        self.missing += record.missing.len() + record.absent.len();
        self.records.push(record);
    }

    /// Empties the block and keeps its memory, except what an unusually large event took.
    pub(crate) fn clear(&mut self) {
        self.records.clear();
        self.memory.clear();
        self.memory.shrink_to(2 * Self::FULL);
        (self.fragments, self.missing) = (0, 0);
    }
}
