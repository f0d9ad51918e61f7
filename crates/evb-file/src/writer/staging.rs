//! The buffer in which small records are gathered, and vectored writes that continue until all
//! bytes are written.

use std::io::{self, IoSlice};

use evb_core::{event::Event, fragment::RunningChecksum};

use super::disk::Storage;
use crate::format::{FileTag, aligned, encode_head, encode_record};

/// The size of the buffer in which small records are gathered before they are written. A buffer of
/// this size fits into the second-level cache of a processor core.
pub(super) const STAGING: usize = 256 * 1024;
/// The largest record that is copied to the buffer. For a larger record, a copy would cost more
/// than a system call of its own.
pub(super) const COPIED: u64 = 32 * 1024;
/// The largest number of slices that one `writev` accepts (Linux: `UIO_MAXIOV`).
const PIECES: usize = 1024;

/// The bytes of small records that are not written to the file yet.
#[derive(Debug)]
pub(super) struct Staging {
    bytes: Vec<u8>,
    /// Checksum of all bytes that were written; `None` if it is left out.
    pub(super) sum: Option<RunningChecksum>,
}

impl Staging {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::with_capacity(STAGING), sum: Some(RunningChecksum::default()) }
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn fits(&self, size: u64) -> bool {
        self.len() + size <= STAGING as u64
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        // The buffer may have grown beyond `STAGING` bytes to hold the head of a large record.
        self.bytes.shrink_to(STAGING);
    }

    /// Copies the record of an event, payloads included, to the buffer.
    pub(super) fn copy(&mut self, event: &Event, size: u64, tag: &FileTag) {
        encode_record(event, size, tag, &mut self.bytes);
    }

    pub(super) fn copy_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes all buffered bytes to the file.
    pub(super) fn write(&mut self, storage: &mut dyn Storage) -> io::Result<()> {
        self.sum.iter_mut().for_each(|sum| sum.update(&self.bytes));
        write_all(storage, &mut [IoSlice::new(&self.bytes)])?;
        self.clear();
        Ok(())
    }

    /// Writes all buffered bytes and the record of an event, without copying the event's payloads.
    pub(super) fn write_with(
        &mut self,
        event: &Event,
        size: u64,
        tag: &FileTag,
        storage: &mut dyn Storage,
    ) -> io::Result<()> {
        encode_head(event, size, tag, &mut self.bytes);
        let payload = event.payload_size().count();
        let padding = &[0; 8][..(aligned(payload) - payload) as usize];
        let mut slices = Vec::with_capacity(event.fragments().len() + 2);
        slices.push(IoSlice::new(&self.bytes));
        slices.extend(event.fragments().map(|fragment| IoSlice::new(fragment.payload)));
        slices.push(IoSlice::new(padding));
        self.sum.iter_mut().for_each(|sum| slices.iter().for_each(|slice| sum.update(slice)));
        write_all(storage, &mut slices)?;
        self.clear();
        Ok(())
    }
}

/// Writes all bytes of all slices, with as many system calls as necessary.
fn write_all(storage: &mut dyn Storage, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    // `advance_slices` skips empty slices at the front: a write of only empty slices returns 0,
    // which would be taken for a full disk.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match storage.write_vectored(&slices[..slices.len().min(PIECES)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut slices, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
