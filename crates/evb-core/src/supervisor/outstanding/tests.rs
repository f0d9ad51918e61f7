use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{HOMELESS, Outstanding, Place};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// It does what a map does; ids that collide are likely.
    #[test]
    fn it_is_a_map(steps in prop::collection::vec((any::<bool>(), 1u64..8, 0u64..40, 0u16..3), 1..300)) {
        let (mut table, mut map) = (Outstanding::new(), BTreeMap::new());
        for (insert, low, high, builder) in steps {
            let event = high * 64 + low;
            if insert {
                if map.insert(event, builder).is_none() {
                    table.insert(Place { event, builder, ..Place::default() });
                } else {
                    prop_assert!(table.take(event, map[&event]) || table.take(event, 0) || table.take(event, 1) || table.take(event, 2));
                    table.insert(Place { event, builder, ..Place::default() });
                }
            } else {
                let theirs = map.get(&event) == Some(&builder);
                prop_assert_eq!(table.take(event, builder), theirs);
                if theirs {
                    map.remove(&event);
                }
            }
            prop_assert_eq!(table.len(), map.len());
        }
        table.take_all(|builder| builder == 1);
        map.retain(|_, builder| *builder != 1);
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
        table.insert(Place { event, builder: (event % 3) as u16, ..Place::default() });
    }
    for place in table.of(1) {
        table.hand_over(place.event, HOMELESS, 0);
    }
    assert_eq!((table.of(1).len(), table.of(HOMELESS).len()), (0, 67));
    for (answer, place) in (1..).zip(table.of(HOMELESS)) {
        table.hand_over(place.event, 2, answer);
    }
    assert!(table.accept(2, 60) && !table.accept(2, 60) && !table.accept(0, 67));
    assert_eq!(table.iter().filter(|place| place.answer != 0).count(), 7);
    assert_eq!(table.hand_over(201, 0, 0), None);
    assert!(table.take(1, 2) && table.len() == 199);
}
