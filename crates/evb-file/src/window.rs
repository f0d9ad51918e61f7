//! A moving window over a file: small reads are served from memory, large ones bypass it.

use std::{fs::File, io, os::unix::fs::FileExt};

/// The number of bytes that the window reads from the file at a time.
const SPAN: usize = 128 * 1024;

/// A buffer over a part of a file. The buffer holds at most [`SPAN`] bytes, or more if a caller
/// asks [`Self::up_to`] for more.
#[derive(Debug)]
pub(crate) struct Window<'f> {
    file: &'f File,
    length: u64,
    /// The offset of `bytes` in the file.
    at: u64,
    bytes: Vec<u8>,
}

/// The bytes of a window without its file, from which a later window over the same file goes on.
#[derive(Debug, Default)]
pub(crate) struct WindowBytes {
    at: u64,
    bytes: Vec<u8>,
}

impl<'f> Window<'f> {
    /// Creates a window over a file of the given length. Bytes appended later are ignored.
    pub(crate) const fn new(file: &'f File, length: u64) -> Self {
        Self { file, length, at: 0, bytes: Vec::new() }
    }

    /// Creates a window with the bytes that an earlier window over the same file has read.
    pub(crate) fn with(file: &'f File, length: u64, held: WindowBytes) -> Self {
        Self { file, length, at: held.at, bytes: held.bytes }
    }

    /// Returns the bytes of the window.
    pub(crate) fn into_held(self) -> WindowBytes {
        WindowBytes { at: self.at, bytes: self.bytes }
    }

    /// Returns `count` bytes from `offset` on, or fewer at the end of the file. The window holds
    /// all `count` bytes in memory, so the caller must bound `count`.
    pub(crate) fn up_to(&mut self, offset: u64, count: u64) -> io::Result<&[u8]> {
        let count = count.min(self.length.saturating_sub(offset)) as usize;
        if self.held(offset) < count {
            self.fill(offset, count.max(SPAN))?;
        }
        let start = (offset.saturating_sub(self.at) as usize).min(self.bytes.len());
        Ok(&self.bytes[start..][..count])
    }

    /// Returns between one and `count` bytes from `offset` on; an empty slice at the end of the
    /// file.
    pub(crate) fn some(&mut self, offset: u64, count: u64) -> io::Result<&[u8]> {
        let held = self.held(offset) as u64;
        self.up_to(offset, count.min(if held > 0 { held } else { SPAN as u64 }))
    }

    /// Fills `into` with the bytes of the file from `offset` on.
    pub(crate) fn read_exact(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let held = self.held(offset).min(into.len());
        let (first, rest) = into.split_at_mut(held);
        first.copy_from_slice(self.up_to(offset, held as u64)?);
        let offset = offset + held as u64;
        if rest.len() > SPAN / 4 {
            return self.file.read_exact_at(rest, offset);
        }
        let bytes = self.up_to(offset, rest.len() as u64)?;
        if bytes.len() < rest.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        rest.copy_from_slice(bytes);
        Ok(())
    }

    /// Returns the number of bytes from `offset` on that are in memory.
    fn held(&self, offset: u64) -> usize {
        match offset.checked_sub(self.at) {
            Some(start) => (self.bytes.len() as u64).saturating_sub(start) as usize,
            None => 0,
        }
    }

    /// Reads `count` bytes from `offset` on, or fewer at the end of the file.
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
