//! Access to the supervisor's trigger port and journal for the fuzz targets; only with the feature
//! `fuzzing`.

use std::{future::poll_fn, io::Cursor, net::SocketAddr};

use evb_core::wire::journal::Entry;
use tokio::io::AsyncRead;

use super::{
    journal::entries::{Entries, Fault, HEADER, frame, sum},
    trigger_port::Client,
};

/// Returns the counts of triggers that one TCP connection asks for, until the connection ends or is
/// closed.
pub async fn trigger_lines(stream: impl AsyncRead + Unpin) -> Vec<u64> {
    let mut client = Client::new(stream, SocketAddr::from(([0; 4], 0)));
    let mut counts = Vec::new();
    while let Ok(count) = poll_fn(|cx| client.poll_line(cx)).await {
        counts.push(count);
    }
    counts
}

/// The result of reading bytes as a journal.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalContent {
    /// The entries and the number of whole bytes; the bytes that follow are a torn end.
    Whole(Vec<Entry>, usize),
    /// Offset of an entry that cannot be read and is not a torn end.
    Damaged(usize),
    /// The file does not begin with a journal's header.
    Foreign,
}

/// Reads the given bytes as a journal.
///
/// # Panics
/// Panics if reading from memory fails.
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

/// Returns the bytes of a journal with the given entries.
pub fn write_journal(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    for entry in entries {
        frame(entry, &mut bytes);
    }
    bytes
}

/// Returns the checksum that precedes the given bytes of an entry.
pub fn journal_sum(body: &[u8]) -> u32 {
    sum(body)
}
