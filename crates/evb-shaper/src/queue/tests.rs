use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Compares the order with that of a sorted list.
    #[test]
    fn the_oldest_event_comes_first_and_ties_rotate(
        changes in proptest::collection::vec((0usize..40, proptest::option::of(1u64..5)), 1..80),
        next in 0usize..40,
    ) {
        let (mut queue, mut events) = (Queue::default(), vec![None; 40]);
        for (lane, event) in changes {
            let event = event.map(EventId::new);
            queue.change(LaneIndex::new(lane), events[lane], event);
            events[lane] = event;
        }
        let mut sorted: Vec<_> = (0..40).filter_map(|lane| events[lane].map(|event| (event, lane))).collect();
        sorted.sort_by_key(|(event, lane)| (*event, (lane + 40 - next) % 40));
        let found: Vec<_> =
            queue.in_order(LaneIndex::new(next)).map(|(event, lane)| (event, lane.get())).collect();
        prop_assert_eq!(found, sorted);
    }
}
