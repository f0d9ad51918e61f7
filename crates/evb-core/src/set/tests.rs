use std::collections::BTreeSet;

use proptest::{collection::btree_set, prelude::*};

use super::{MAX_SOURCES, SourceSet};

fn indices() -> impl Strategy<Value = BTreeSet<usize>> {
    btree_set(0..MAX_SOURCES, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn is_a_set(a in indices(), b in indices()) {
        let (x, y): (SourceSet, SourceSet) = (a.iter().copied().collect(), b.iter().copied().collect());
        prop_assert_eq!(x.iter().collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(x.len(), a.len());
        prop_assert_eq!(x.is_empty(), a.is_empty());
        prop_assert_eq!(x.union(&y), a.union(&b).copied().collect());
        prop_assert_eq!(x.without(&y), a.difference(&b).copied().collect());
        prop_assert_eq!(x.is_superset(&y), a.is_superset(&b));
        for index in 0..MAX_SOURCES {
            prop_assert_eq!(x.contains(index), a.contains(&index));
        }
    }
}

#[test]
fn insert_and_remove_say_what_was() {
    let mut set = SourceSet::default();
    assert!(set.insert(255) && !set.insert(255));
    assert!(set.remove(255) && !set.remove(255));
    assert!(set.is_empty());
    assert_eq!(SourceSet::first(1000).len(), MAX_SOURCES);
}
