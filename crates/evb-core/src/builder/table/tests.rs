use super::*;
use crate::index::SlotIndex;

#[test]
fn events_are_found_in_their_slots_until_they_are_taken_out() {
    let mut table = EventTable::new(8);
    let event = |n: usize| EventId::new(1 + 64 * n as u64);
    (0..8).for_each(|n| table.insert(event(n), SlotIndex::new(7 - n)));
    for gone in 0..8 {
        assert_eq!(table.slot(event(gone)), Some(SlotIndex::new(7 - gone)));
        table.remove(event(gone));
        let found: Vec<_> = (0..8).filter_map(|n| table.slot(event(n)).map(SlotIndex::get)).collect();
        assert_eq!(found, (0..7 - gone).rev().collect::<Vec<_>>());
    }
}
