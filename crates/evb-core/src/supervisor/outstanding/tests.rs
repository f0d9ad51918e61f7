use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Outstanding, OutstandingEvent};
use crate::index::BuilderIndex;

fn at(builder: usize) -> Option<BuilderIndex> {
    Some(BuilderIndex::new(builder))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// The table behaves like a map from events to builders. The events are chosen so that their
    /// hashes often collide.
    #[test]
    fn it_is_a_map(steps in prop::collection::vec((any::<bool>(), 1u64..8, 0u64..40, 0usize..3), 1..300)) {
        let (mut table, mut map) = (Outstanding::new(), BTreeMap::new());
        for (insert, low, high, builder) in steps {
            let event = high * 64 + low;
            if insert {
                if map.insert(event, at(builder)).is_none() {
                    table.insert(OutstandingEvent { event, builder: at(builder), ..OutstandingEvent::default() });
                } else {
                    prop_assert!(table.take(event, map[&event]) || (0..3).any(|other| table.take(event, at(other))));
                    table.insert(OutstandingEvent { event, builder: at(builder), ..OutstandingEvent::default() });
                }
            } else {
                let theirs = map.get(&event) == Some(&at(builder));
                prop_assert_eq!(table.take(event, at(builder)), theirs);
                if theirs {
                    map.remove(&event);
                }
            }
            prop_assert_eq!(table.len(), map.len());
        }
        table.take_all(BuilderIndex::new(1));
        map.retain(|_, builder| *builder != at(1));
        for (event, builder) in map {
            prop_assert!(table.take(event, builder));
        }
        prop_assert!(table.is_empty());
    }
}

#[test]
fn events_go_from_builder_to_builder_and_are_accepted_there() {
    let mut table = Outstanding::new();
    for event in 1..=200 {
        table.insert(OutstandingEvent {
            event,
            builder: at((event % 3) as usize),
            ..OutstandingEvent::default()
        });
    }
    for entry in table.of(at(1)) {
        table.hand_over(entry.event, None, 0);
    }
    assert_eq!((table.of(at(1)).len(), table.of(None).len()), (0, 67));
    for (confirmation, entry) in (1..).zip(table.of(None)) {
        table.hand_over(entry.event, at(2), confirmation);
    }
    let [first, third] = [0, 2].map(BuilderIndex::new);
    assert!(table.accept(third, 60) && !table.accept(third, 60) && !table.accept(first, 67));
    assert_eq!(table.iter().filter(|entry| entry.confirmation != 0).count(), 7);
    assert_eq!(table.hand_over(201, at(0), 0), None);
    assert!(table.take(1, at(2)) && table.len() == 199);
}
