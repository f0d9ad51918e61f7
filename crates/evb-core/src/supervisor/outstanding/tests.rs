use std::collections::BTreeMap;

use proptest::prelude::*;

use super::Outstanding;

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
                    table.insert(event, builder);
                } else {
                    prop_assert!(table.take(event, map[&event]) || table.take(event, 0) || table.take(event, 1) || table.take(event, 2));
                    table.insert(event, builder);
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
