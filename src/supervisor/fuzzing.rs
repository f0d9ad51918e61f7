//! Access to the supervisor's ports for the fuzz targets, with the feature `fuzzing` alone.

use std::{future::poll_fn, io::Cursor, net::SocketAddr};

use evb_core::wire::journal::Entry;
use tokio::io::AsyncRead;

use super::{
    journal::entries::{Entries, Fault, HEADER, frame, sum},
    trigger_port::Client,
};

/// Returns the counts of triggers that one TCP connection asks for, until it ends or is closed.
pub async fn trigger_lines(stream: impl AsyncRead + Unpin) -> Vec<u64> {
    let mut client = Client::new(stream, SocketAddr::from(([0; 4], 0)));
    let mut counts = Vec::new();
    while let Ok(count) = poll_fn(|cx| client.poll_line(cx)).await {
        counts.push(count);
    }
    counts
}

/// The content of these bytes, read as a journal.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalContent {
    /// The entries and the number of whole bytes; the rest is a torn end.
    Whole(Vec<Entry>, usize),
    /// The entry that begins at this byte cannot be read, and it is not a torn end.
    Damaged(usize),
    /// The file does not begin with a journal's header.
    Foreign,
}

/// Reads these bytes as a journal.
///
/// # Panics
/// Memory cannot be read.
pub fn read_journal(bytes: &[u8]) -> JournalContent {
    let read = Entries::new(Cursor::new(bytes)).and_then(|mut entries| {
        let found = entries.by_ref().collect::<Result<_, _>>()?;
        Ok(JournalContent::Whole(found, entries.whole() as usize))
    });
    match read {
        Ok(content) => content,
        Err(Fault::Damaged(at)) => JournalContent::Damaged(at as usize),
        Err(Fault::Foreign) => JournalContent::Foreign,
        Err(Fault::Io(error)) => panic!("{error}"),
    }
}

/// Returns the bytes of a journal with these entries.
pub fn write_journal(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    for entry in entries {
        frame(entry, &mut bytes);
    }
    bytes
}

/// Returns the checksum that precedes these bytes of an entry.
pub fn journal_sum(body: &[u8]) -> u32 {
    sum(body)
}
