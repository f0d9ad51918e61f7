use std::{io::Cursor, time::Instant};

use evb_core::{
    rng::Rng,
    wire::journal::{Entry, Totals, What},
};
use proptest::prelude::*;

use super::{Entries, FRAME, Fault, HEADER, MAX_ENTRY, START, WINDOW, candidate, frame, sum};

fn entry(at_ns: u64) -> Entry {
    Entry { at_ns, what: Some(What::Stopping("x".repeat(at_ns as usize % 40))) }
}

fn framed(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(entries.iter().all(|entry| frame(entry, &mut bytes)));
    bytes
}

fn journal(parts: &[&[u8]]) -> Vec<u8> {
    [&[&HEADER[..]], parts].concat().concat()
}

/// Returns the entries and the number of torn bytes, or the fault.
fn read(bytes: &[u8]) -> Result<(Vec<Entry>, u64), Fault> {
    let mut entries = Entries::new(Cursor::new(bytes))?;
    let found = entries.by_ref().collect::<Result<_, _>>()?;
    Ok((found, entries.torn()))
}

fn damaged_at(bytes: &[u8]) -> Option<u64> {
    match read(bytes) {
        Err(Fault::Damaged(at)) => Some(at),
        _ => None,
    }
}

fn garbage(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

/// Returns every kind of entry, with the smallest content and with a larger one.
fn of_every_kind() -> Vec<Entry> {
    let things = [
        What::Begun(Default::default()),
        What::Epoch(0),
        What::Epoch(u64::MAX),
        What::Registered(Default::default()),
        What::Started(Default::default()),
        What::Roster(Default::default()),
        What::Decided(Default::default()),
        What::Reassigned(Default::default()),
        What::Accounted(Default::default()),
        What::Over(u32::MAX),
        What::Lost(Default::default()),
        What::Membership(Default::default()),
        What::Finding(Default::default()),
        What::Paused(false),
        What::Stopping("enough".repeat(30)),
        What::Ended(0),
        What::Totals(Totals { triggered: 5, lost: u64::MAX, ..Totals::default() }),
        What::Rate(2000.0),
        What::Resumed(Default::default()),
    ];
    let times = [0, 1, (1 << 62) - 1, u64::MAX];
    let at = |at_ns| things.clone().map(|what| Entry { at_ns, what: Some(what) });
    times.into_iter().flat_map(at).collect()
}

#[test]
fn every_entry_has_the_form_that_is_searched_for() {
    for entry in of_every_kind() {
        let bytes = framed(std::slice::from_ref(&entry));
        let start = &bytes[..bytes.len().min(FRAME + START)];
        assert!(candidate(start, bytes.len() as u64).is_some(), "{entry:?}");
        assert!(candidate(start, bytes.len() as u64 - 1).is_none(), "{entry:?}");
    }
}

#[test]
fn a_bit_that_flips_is_damage_where_a_whole_entry_follows() {
    let entries: Vec<Entry> = (1..6).chain([1 << 61]).map(entry).chain(of_every_kind()).collect();
    let ends: Vec<usize> =
        (0..=entries.len()).map(|count| HEADER.len() + framed(&entries[..count]).len()).collect();
    let bytes = journal(&[&framed(&entries)]);
    let (last, all) = (ends[ends.len() - 2], entries.len() - 1);
    for position in HEADER.len()..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[position] ^= 1 << (position % 8);
        if position >= last {
            let (found, torn) = read(&flipped).unwrap();
            assert_eq!((found.len(), torn), (all, (bytes.len() - last) as u64), "byte {position}");
        } else {
            let begins = ends.iter().rev().find(|end| **end <= position).unwrap();
            assert_eq!(damaged_at(&flipped), Some(*begins as u64), "byte {position}");
        }
    }
}

#[test]
fn zeros_and_garbage_behind_the_last_entry_are_torn_off() {
    let whole = framed(&[entry(1), entry(2)]);
    for length in [1, 7, 8, 9, 16, 100, WINDOW - 1, WINDOW, WINDOW + 1, 3 << 20] {
        for torn in [vec![0; length], vec![0xff; length], vec![8; length], garbage(length as u64, length)] {
            let (found, cut) = read(&journal(&[&whole, &torn])).unwrap();
            assert_eq!((found.len(), cut), (2, length as u64), "{:?}", &torn[..1]);
        }
    }
    assert!(matches!(read(&journal(&[])), Ok((none, 0)) if none.is_empty()));
    assert!(matches!(read(&HEADER[..5]), Ok((none, 5)) if none.is_empty()));
    assert!(matches!(read(&[0; 20]), Err(Fault::Foreign)));
}

/// A whole entry is found at any position relative to the window of the file that is held in
/// memory.
#[test]
fn a_whole_entry_is_found_at_any_distance() {
    let first = framed(&[entry(1)]);
    let begins = (HEADER.len() + first.len()) as u64;
    let long = Entry { at_ns: 1 << 40, what: Some(What::Stopping("x".repeat(3 * WINDOW))) };
    for behind in [Entry { at_ns: 1, what: Some(What::Epoch(1)) }, entry(39), long] {
        let behind = framed(&[behind]);
        for hole in [1, 2, 7, 8, 9].into_iter().chain(WINDOW - FRAME - START - 2..WINDOW + 3) {
            let bytes = journal(&[&first, &vec![0; hole], &behind]);
            assert_eq!(damaged_at(&bytes), Some(begins), "{hole} bytes");
            // The second entry lacks its last byte, so it counts as a torn end.
            assert_eq!(damaged_at(&bytes[..bytes.len() - 1]), None, "{hole} bytes");
        }
    }
}

#[test]
fn what_was_written_so_and_cannot_be_understood_is_no_torn_end() {
    let body = [0xff; 20];
    let mut bytes = journal(&[&framed(&[entry(1)])]);
    let begins = bytes.len() as u64;
    bytes.extend_from_slice(&20u32.to_le_bytes());
    bytes.extend_from_slice(&sum(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    assert_eq!(damaged_at(&bytes), Some(begins));
}

#[test]
fn lengths_are_not_believed() {
    for length in [0, MAX_ENTRY as u32 + 1, u32::MAX] {
        let head = [length.to_le_bytes(), sum(&[]).to_le_bytes()].concat();
        let (found, torn) = read(&journal(&[&framed(&[entry(1)]), &head, &[0; 30]])).unwrap();
        assert_eq!((found.len(), torn), (1, 38));
    }
    assert!(!frame(&Entry::default(), &mut Vec::new()));
    let longest = |length| Entry { at_ns: 0, what: Some(What::Stopping("x".repeat(length))) };
    assert!(!frame(&longest(MAX_ENTRY), &mut Vec::new()));
    let bytes = journal(&[&framed(&[longest(MAX_ENTRY - 5)])]);
    assert_eq!(read(&bytes).unwrap().0.len(), 1);
}

/// Thousands of nested entries, none of which is whole: the search gives up before it has
/// checksummed all of them.
#[test]
fn the_search_has_an_end() {
    let mut bytes = journal(&[]);
    let total = 8 << 20;
    while bytes.len() + 64 < total {
        let left = total - bytes.len() - FRAME;
        let inner = left - 6;
        bytes.extend_from_slice(&(left as u32).to_le_bytes());
        bytes.extend_from_slice(&[1, 2, 3, 4, 15 << 3 | 2]);
        // The inner length is encoded as a varint of five bytes.
        bytes.extend((0..5).map(|byte| (inner >> (7 * byte)) as u8 & 0x7f | if byte < 4 { 0x80 } else { 0 }));
    }
    bytes.resize(total, 0);
    assert!(candidate(&bytes[8..40], (total - 8) as u64).is_some());
    let began = Instant::now();
    assert_eq!(damaged_at(&bytes), Some(HEADER.len() as u64), "in doubt nothing is cut off");
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn what_the_disk_says_is_no_damage() {
    struct Broken(Cursor<Vec<u8>>);
    impl std::io::Read for Broken {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if self.0.position() >= 100 {
                return Err(std::io::Error::other("bad sector"));
            }
            let most = into.len().min(10);
            self.0.read(&mut into[..most])
        }
    }
    impl std::io::Seek for Broken {
        fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
            self.0.seek(to)
        }
    }
    let bytes = journal(&[&framed(&(1..50).map(entry).collect::<Vec<_>>())]);
    let read: Result<Vec<Entry>, Fault> = Entries::new(Broken(Cursor::new(bytes))).unwrap().collect();
    assert!(matches!(read, Err(Fault::Io(_))), "{read:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_whole_torn_or_damaged(
        count in 0u64..5,
        more in prop::collection::vec(any::<u8>(), 0..200),
        behind in 0u64..3,
    ) {
        let first = framed(&(1..=count).map(entry).collect::<Vec<_>>());
        let last = framed(&(1..=behind).map(entry).collect::<Vec<_>>());
        let read = read(&journal(&[&first, &more, &last]));
        match read {
            Ok((found, torn)) => {
                prop_assert!(more.is_empty() || behind == 0);
                prop_assert_eq!((found.len() as u64, torn), (count + behind, more.len() as u64));
            }
            Err(Fault::Damaged(at)) => {
                prop_assert!(!more.is_empty() && behind > 0);
                prop_assert_eq!(at, (HEADER.len() + first.len()) as u64);
            }
            Err(other) => prop_assert!(false, "{:?}", other),
        }
    }
}
