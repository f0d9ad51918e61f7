use evb_core::id::{Epoch, EventId};
use std::fs;

use super::{ClosingBlock, Footer, IndexEntry, IndexState};
use crate::format::{FileTag, FormatVersion, MAX_RECORDS};
use evb_core::fragment::Checksum;

const TAG: FileTag = FileTag {
    checksum: Checksum::from_number(0x1234),
    version: FormatVersion::Two,
    run_id: evb_core::id::RunId::UNKNOWN,
    owner: None,
};
const HEADER: [u8; 96] = [7; 96];
const BLOCK: ClosingBlock<'_> = ClosingBlock { tag: TAG, copy: Some(&HEADER) };

fn entries(count: u64) -> Vec<IndexEntry> {
    let entry = |place| IndexEntry {
        event: EventId::new((place * 7) % count),
        epoch: Epoch::new(1),
        offset: place * 64,
    };
    (0..count).map(entry).collect()
}

fn encoded(count: u64, offset: usize) -> Vec<u8> {
    let mut bytes = vec![0; offset];
    BLOCK
        .write::<()>(&mut entries(count), offset as u64, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
    bytes
}

fn find(bytes: &[u8]) -> (Footer, fs::File) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    fs::write(&path, bytes).unwrap();
    let file = fs::File::open(path).unwrap();
    (Footer::find(&file, bytes.len() as u64, BLOCK).unwrap(), file)
}

#[test]
fn index_is_found_sorted_and_searchable_in_pieces() {
    // An index of 10 000 entries is written and read in several pieces.
    for count in [0, 1, 10_000] {
        let bytes = encoded(count, 80);
        assert_eq!(bytes.len() as u64, 80 + BLOCK.size(count as usize));
        let (footer, file) = find(&bytes);
        assert_eq!(footer, Footer { state: IndexState::Present, offset: 80, records: count as usize });
        let mut sorted = entries(count);
        sorted.sort();
        let (mut all, mut piece) = (Vec::new(), Vec::new());
        while all.len() < count as usize {
            footer.entries(&file, all.len(), 999, &mut piece).unwrap();
            all.append(&mut piece);
        }
        assert_eq!(all, sorted);
        if let Some(last) = sorted.last() {
            assert_eq!(footer.entry(&file, sorted.len() - 1).unwrap(), *last);
        }
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let bytes = encoded(3, 16);
    for bit in 16 * 8..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(find(&bytes).0.state, IndexState::Present, "bit {bit}");
    }
}

#[test]
fn an_index_of_another_file_is_not_believed() {
    let bytes = encoded(3, 16);
    let file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut &file, &bytes).unwrap();
    let other = ClosingBlock { tag: TAG, copy: Some(&[8; 96]) };
    let footer = Footer::find(&file, bytes.len() as u64, other).unwrap();
    assert_eq!(footer.state, IndexState::Damaged);
    // In version 1, the tag is in the checksum.
    let first = FileTag { version: FormatVersion::One, ..TAG };
    let mut bytes = Vec::new();
    let block = ClosingBlock { tag: first, copy: Some(&[]) };
    let collect = |piece: &[u8]| -> Result<(), ()> {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    block.write(&mut entries(3), 0, collect).unwrap();
    let file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut &file, &bytes).unwrap();
    let tag = FileTag { checksum: Checksum::from_number(0x1235), ..first };
    for (tag, state) in [(first, IndexState::Present), (tag, IndexState::Damaged)] {
        let block = ClosingBlock { tag, copy: Some(&[]) };
        assert_eq!(Footer::find(&file, bytes.len() as u64, block).unwrap().state, state);
    }
}

#[test]
fn an_index_beyond_the_limit_is_not_believed() {
    // The sparse file ends with the trailer of an index with more than `MAX_RECORDS` entries.
    let bytes = encoded(0, 0);
    let file = tempfile::tempfile().unwrap();
    let length = BLOCK.size(MAX_RECORDS + 1);
    file.set_len(length).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[16..], length - 24).unwrap();
    assert_eq!(Footer::find(&file, length, BLOCK).unwrap().state, IndexState::Absent);
}
