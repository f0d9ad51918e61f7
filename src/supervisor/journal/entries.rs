//! The file format of the journal: a header, then entries, each preceded by its length and
//! checksum. Entries are read through a buffer, one at a time.

#[cfg(test)]
mod tests;

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest, checksum};
use evb_core::wire::encoding::Encoding as _;
use evb_core::wire::journal::Entry;

/// First bytes of each journal file: its type, and the version of the format.
pub(in crate::supervisor) const HEADER: [u8; 8] = *b"evbjrn\x01\n";

/// Limit of the length of an entry; an entry with decisions on 65 536 events takes a tenth of this.
const MAX_ENTRY: usize = 16 << 20;

/// Number of bytes of an entry's length and checksum.
const FRAME: usize = 8;

/// Limit of the number of bytes with which an entry states its time, its kind and its length.
const START: usize = 24;

/// Number of bytes of the file that are held in memory at once, besides one entry.
const WINDOW: usize = 64 << 10;

/// Limit of the bytes that are checksummed in search of a whole entry behind an unreadable one. A
/// torn end needs far less, because only bytes in the form of an entry are checksummed.
const MAX_SUMMED: u64 = 256 << 20;

/// Reason for which the entries of a journal cannot be read.
#[derive(Debug)]
pub(in crate::supervisor) enum Fault {
    Io(io::Error),
    /// The file does not begin with a journal's header.
    Foreign,
    /// Offset of an entry that cannot be read and is not a torn end.
    Damaged(u64),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Appends an entry to `bytes`; returns false if the entry is empty or too long, so that it could
/// not be read again.
pub(in crate::supervisor) fn frame(entry: &Entry, bytes: &mut Vec<u8>) -> bool {
    let body = entry.encode_to_vec();
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&sum(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    (1..=MAX_ENTRY).contains(&body.len())
}

/// Returns an entry's checksum: CRC-32C.
pub(in crate::supervisor) fn sum(body: &[u8]) -> u32 {
    // The algorithm returns 32 bits as a 64-bit number.
    checksum(Crc32Iscsi, body) as u32
}

/// The entries of a journal. A torn end, left by a killed process, a full disk or a power cut, is
/// ignored; damage before the end is an error.
#[derive(Debug)]
pub(in crate::supervisor) struct Entries<R> {
    input: BufReader<R>,
    /// Offset up to which the journal was read and is valid.
    at: u64,
    /// Length of the input when reading began.
    end: u64,
    over: bool,
    body: Vec<u8>,
}

impl<R: Read + Seek> Entries<R> {
    /// Reads the header. A journal that ends within its header is empty.
    pub(in crate::supervisor) fn new(input: R) -> Result<Self, Fault> {
        let mut input = BufReader::with_capacity(WINDOW, input);
        let end = input.seek(SeekFrom::End(0))?;
        input.rewind()?;
        let mut header = [0; HEADER.len()];
        let length = fill(&mut input, &mut header)?;
        if !HEADER.starts_with(&header[..length]) {
            return Err(Fault::Foreign);
        }
        let over = length < HEADER.len();
        Ok(Self { input, at: if over { 0 } else { length as u64 }, end, over, body: Vec::new() })
    }

    /// Returns the length of the valid part, once all entries were read; 0 if not even the header
    /// is complete.
    pub(in crate::supervisor) fn whole(&self) -> u64 {
        self.at
    }

    /// Returns the number of bytes that follow the valid part.
    pub(in crate::supervisor) fn torn(&self) -> u64 {
        self.end - self.at
    }

    /// Reads the next entry; `None` at the end, and where a torn entry begins behind which there is
    /// no whole one.
    fn read(&mut self) -> Result<Option<Entry>, Fault> {
        let mut head = [0; FRAME];
        let left = self.end - self.at;
        if left >= FRAME as u64 && fill(&mut self.input, &mut head)? == FRAME {
            let (length, expected) = split(head);
            if fits(length, left) {
                self.body.resize(length, 0);
                if fill(&mut self.input, &mut self.body)? == length && sum(&self.body) == expected {
                    // An entry with the right checksum is not torn, so a failure to decode it is
                    // damage.
                    let entry = Entry::decode(&self.body).map_err(|_| Fault::Damaged(self.at))?;
                    self.at += (FRAME + length) as u64;
                    return Ok(Some(entry));
                }
            }
        }
        if self.is_whole_behind(self.at + 1)? { Err(Fault::Damaged(self.at)) } else { Ok(None) }
    }

    /// Returns true if a whole entry begins at `from` or later: then the bytes before it are not a
    /// torn end. If the search would take too long, the file counts as damaged, and nothing is cut
    /// off.
    fn is_whole_behind(&mut self, mut from: u64) -> io::Result<bool> {
        let mut window = vec![0; WINDOW];
        let mut effort = MAX_SUMMED;
        while from + (FRAME as u64) < self.end {
            self.input.seek(SeekFrom::Start(from))?;
            let length = fill(&mut self.input, &mut window)?;
            let is_last = length < WINDOW;
            // An entry that begins too near to the window's end is examined in the next window.
            let starts = if is_last { length } else { WINDOW - FRAME - START + 1 };
            for start in 0..starts {
                let (begins, seen) = (from + start as u64, &window[start..length]);
                let Some((length, expected)) = candidate(seen, self.end - begins) else { continue };
                let here = seen.get(FRAME..FRAME + length);
                let costs = if here.is_some() { length } else { length.max(WINDOW) };
                let Some(left) = effort.checked_sub(costs as u64) else { return Ok(true) };
                effort = left;
                let found = match here {
                    Some(body) => sum(body),
                    None => self.sum_at(begins + FRAME as u64, length)?,
                };
                if found == expected {
                    return Ok(true);
                }
            }
            if is_last {
                return Ok(false);
            }
            from += starts as u64;
        }
        Ok(false)
    }

    /// Returns the checksum of the bytes from this place on, or of fewer if the file ends before.
    fn sum_at(&mut self, from: u64, length: usize) -> io::Result<u32> {
        self.input.seek(SeekFrom::Start(from))?;
        let mut digest = Digest::new(Crc32Iscsi);
        let mut piece = [0; 4 << 10];
        let mut left = length;
        while left > 0 {
            let most = left.min(piece.len());
            let length = fill(&mut self.input, &mut piece[..most])?;
            if length == 0 {
                break;
            }
            digest.update(&piece[..length]);
            left -= length;
        }
        Ok(digest.finalize() as u32)
    }
}

impl<R: Read + Seek> Iterator for Entries<R> {
    type Item = Result<Entry, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let read = self.read().transpose();
        self.over = !matches!(read, Some(Ok(_)));
        read
    }
}

/// Fills `into` as far as the input goes, and returns the number of bytes read.
fn fill(input: &mut impl Read, mut into: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while !into.is_empty() {
        match input.read(into) {
            Ok(0) => break,
            Ok(more) => {
                length += more;
                into = &mut into[more..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

fn split(head: [u8; FRAME]) -> (usize, u32) {
    let [l0, l1, l2, l3, sum @ ..] = head;
    (u32::from_le_bytes([l0, l1, l2, l3]) as usize, u32::from_le_bytes(sum))
}

/// Returns true if an entry can have this length. An empty entry is not allowed: its checksum is 0,
/// and a file may contain many zeros after a power cut.
fn fits(length: usize, left: u64) -> bool {
    (1..=MAX_ENTRY).contains(&length) && (FRAME + length) as u64 <= left
}

/// Returns length and checksum if the given bytes may begin an entry. The start of an entry is a
/// time, and one field that fills the rest of the entry (`journal.proto`).
fn candidate(bytes: &[u8], left: u64) -> Option<(usize, u32)> {
    let (head, rest) = bytes.split_first_chunk::<FRAME>()?;
    let (length, expected) = split(*head);
    if !fits(length, left) {
        return None;
    }
    let start = &rest[..rest.len().min(length).min(START)];
    let mut rest = start;
    let mut key = varint(&mut rest)?;
    if key == AT_NS {
        varint(&mut rest)?;
        key = varint(&mut rest)?;
    }
    // The lower three bits of a field's key are its type: a number, eight bytes, or a length with
    // bytes.
    let rest_of_field = match key & 7 {
        0 => varint(&mut rest).map(|_| 0)?,
        1 => 8,
        2 => varint(&mut rest)?,
        _ => return None,
    };
    let used = (start.len() - rest.len()) as u64;
    (used.checked_add(rest_of_field) == Some(length as u64)).then_some((length, expected))
}

/// Protobuf tag of `Entry.at_ns`: field 1, a varint.
const AT_NS: u64 = 1 << 3;

/// Takes a variable-length integer of Protobuf from the front of the bytes.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
