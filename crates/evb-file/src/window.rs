//! A moving window over a file: small reads come from memory, large ones go past it.

use std::{fs::File, io, os::unix::fs::FileExt};

/// What one read brings in.
const SPAN: usize = 128 * 1024;

/// Bounded by [`SPAN`] or the longest [`Self::up_to`], whichever is more.
#[derive(Debug)]
pub(crate) struct Window<'f> {
    file: &'f File,
    length: u64,
    /// Where in the file `bytes` begins.
    at: u64,
    bytes: Vec<u8>,
}

impl<'f> Window<'f> {
    /// Over a file of that length; the file may grow meanwhile, which is not seen.
    pub(crate) const fn new(file: &'f File, length: u64) -> Self {
        Self { file, length, at: 0, bytes: Vec::new() }
    }

    /// The bytes from `offset` on: `count` of them, or fewer where the file ends. `count` is bounded by the caller.
    pub(crate) fn up_to(&mut self, offset: u64, count: u64) -> io::Result<&[u8]> {
        let count = count.min(self.length.saturating_sub(offset)) as usize;
        if self.held(offset) < count {
            self.fill(offset, count.max(SPAN))?;
        }
        let start = (offset.saturating_sub(self.at) as usize).min(self.bytes.len());
        Ok(&self.bytes[start..][..count])
    }

    /// At least one byte from `offset` on, at most `count`; none where the file ends.
    pub(crate) fn some(&mut self, offset: u64, count: u64) -> io::Result<&[u8]> {
        let held = self.held(offset) as u64;
        self.up_to(offset, count.min(if held > 0 { held } else { SPAN as u64 }))
    }

    /// Fills `into` from `offset` on.
    pub(crate) fn read_exact(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if into.len() > SPAN / 4 && self.held(offset) < into.len() {
            return self.file.read_exact_at(into, offset);
        }
        let bytes = self.up_to(offset, into.len() as u64)?;
        if bytes.len() < into.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        into.copy_from_slice(bytes);
        Ok(())
    }

    /// How many bytes from `offset` on are in memory.
    fn held(&self, offset: u64) -> usize {
        match offset.checked_sub(self.at) {
            Some(start) => (self.bytes.len() as u64).saturating_sub(start) as usize,
            None => 0,
        }
    }

    fn fill(&mut self, offset: u64, count: usize) -> io::Result<()> {
        let count = (count as u64).min(self.length.saturating_sub(offset)) as usize;
        self.at = offset;
        self.bytes.resize(count, 0);
        let read = self.file.read_exact_at(&mut self.bytes, offset);
        if read.is_err() {
            self.bytes.clear();
        }
        read
    }
}
