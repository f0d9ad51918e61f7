use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Returns the numbers that the set contains.
fn numbers(set: &RangeSet) -> BTreeSet<u64> {
    set.iter().cloned().flatten().collect()
}

proptest! {
    #[test]
    fn it_is_a_set_of_numbers(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 1..60)) {
        let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
        for (add, start, length) in steps {
            let range = start..start + length;
            let missing: Vec<_> = set.missing_in(range.clone()).flatten().collect();
            let expected: Vec<_> = range.clone().filter(|number| !model.contains(number)).collect();
            prop_assert_eq!(missing, expected);
            let touches = numbers(&set).iter().any(|n| range.start <= n + 1 && *n <= range.end);
            prop_assert_eq!(set.touches(&range), touches);
            if add {
                set.insert(range.clone());
                model.extend(range);
            } else {
                set.remove(&range);
                model.retain(|number| !range.contains(number));
            }
            prop_assert_eq!(&numbers(&set), &model);
            let apart = set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.end < b.start);
            prop_assert!(apart && set.iter().all(|range| range.start < range.end), "{:?}", set);
        }
    }
}
