//! A one-dimensional dataset that grows by whole chunks.

use hdf5_pure::{AttrValue, Dataset, DatasetBuilder, File, MaxExtent};

use super::OutputError;

/// Size of a chunk in bytes, and of a chunk of payloads in a small file.
///
/// HDF5 2.0 refuses a dataset unless the lengths of its chunks are stored in as few bytes as
/// possible, and `hdf5_pure` stores them in 1, 2, 4 or 8 bytes. So chunks must not have a number of
/// elements that takes three bytes: from 65 536 to 16 777 215.
pub(super) const CHUNK: usize = 32 << 10;
/// Size of a chunk of payloads in a large file: the next size that HDF5 2.0 can read.
const LARGE_CHUNK: usize = 16 << 20;
/// Size of the payloads from which a file is large: the last chunk is a small part of it.
const LARGE: u64 = 256 << 20;

/// The type of a column's elements; all are little-endian and unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    U8,
    U16,
    U32,
    U64,
}

impl Number {
    const fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::U32 => 4,
            Self::U64 => 8,
        }
    }
}

/// Returns the size of a chunk of payloads, in bytes, for a file with about this many of them.
pub(super) const fn data_chunk(expected: u64) -> usize {
    if expected < LARGE { CHUNK } else { LARGE_CHUNK }
}

/// Declares an empty dataset that can grow, and states its unit.
pub(super) fn declare(dataset: &mut DatasetBuilder, number: Number, unit: &str, chunk: usize) {
    match number {
        Number::U8 => dataset.with_u8_data(&[]),
        Number::U16 => dataset.with_u16_data(&[]),
        Number::U32 => dataset.with_u32_data(&[]),
        Number::U64 => dataset.with_u64_data(&[]),
    };
    dataset.with_shape(&[0]).with_maxshape(&[MaxExtent::Unlimited]);
    dataset.with_chunks(&[(chunk / number.size()) as u64]);
    dataset.set_attr("unit", AttrValue::VarLenString(unit.to_owned()));
}

/// A dataset that is appended to. Elements wait in memory until they fill a chunk.
pub(super) struct Column {
    dataset: Dataset,
    number: Number,
    /// Size of a chunk, in bytes.
    chunk: usize,
    waiting: Vec<u8>,
    /// Number of elements, waiting ones included.
    len: u64,
}

impl Column {
    /// Opens an empty dataset.
    pub(super) fn open(file: &File, path: &str, number: Number, chunk: usize) -> Result<Self, OutputError> {
        let waiting = Vec::with_capacity(chunk);
        Ok(Self { dataset: file.dataset(path)?, number, chunk, waiting, len: 0 })
    }

    /// Returns the number of elements.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Appends one number; the caller keeps to the range of the column's type.
    pub(super) fn push(&mut self, number: u64) -> Result<(), OutputError> {
        self.waiting.extend_from_slice(&number.to_le_bytes()[..self.number.size()]);
        self.len += 1;
        if self.waiting.len() == self.chunk { self.flush() } else { Ok(()) }
    }

    /// Appends the bytes of whole elements.
    pub(super) fn append(&mut self, mut bytes: &[u8]) -> Result<(), OutputError> {
        self.len += (bytes.len() / self.number.size()) as u64;
        let chunk = self.chunk;
        if !self.waiting.is_empty() {
            let (first, rest) = bytes.split_at(bytes.len().min(chunk - self.waiting.len()));
            self.waiting.extend_from_slice(first);
            bytes = rest;
            if self.waiting.len() == chunk {
                self.flush()?;
            }
        }
        let (whole, rest) = bytes.split_at(bytes.len() / chunk * chunk);
        if !whole.is_empty() {
            self.dataset.append_raw(whole)?;
        }
        self.waiting.extend_from_slice(rest);
        Ok(())
    }

    /// Writes the last elements.
    pub(super) fn finish(mut self) -> Result<(), OutputError> {
        self.flush()
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.dataset.append_raw(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}
