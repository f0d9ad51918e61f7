use std::{collections::VecDeque, os::unix::fs::FileExt as _, os::unix::fs::MetadataExt as _};

use evb_core::rng::Rng;

use super::{EventRing, RING};

#[test]
fn what_is_in_use_is_never_written_over() {
    let (mut ring, mut rng) = (EventRing::new().unwrap(), Rng::new(7));
    let mut held: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    let mut full = 0;
    for turn in 0..3000_u64 {
        let size = 1 + rng.next_u64() % (RING.count() / 6);
        let record = vec![turn as u8; size as usize];
        match ring.write(&record).unwrap() {
            Some(begin) => held.push_back((begin, record)),
            None => {
                full += 1;
                let (begin, record) = held.pop_front().unwrap();
                let mut found = vec![0; record.len()];
                ring.memory.read_exact_at(&mut found, begin).unwrap();
                assert!(found == record, "the record at {begin} has changed in turn {turn}");
                ring.free();
            }
        }
    }
    assert!(full > 100, "{full}");
}

#[test]
fn a_record_larger_than_the_ring_is_alone_and_gives_its_memory_back() {
    let mut ring = EventRing::new().unwrap();
    let large = vec![1; 3 * RING.as_usize()];
    assert_eq!(ring.write(&[1]).unwrap(), Some(0));
    assert_eq!(ring.write(&large).unwrap(), None);
    ring.free();
    assert_eq!(ring.write(&large).unwrap(), Some(0));
    assert_eq!(ring.write(&[1]).unwrap(), None);
    ring.free();
    let taken = ring.memory.metadata().unwrap().blocks() * 512;
    assert!(taken <= RING.count(), "{taken}");
    assert_eq!(ring.write(&[1]).unwrap(), Some(0));
}
