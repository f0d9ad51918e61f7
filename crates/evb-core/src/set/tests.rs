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
        prop_assert_eq!(x.intersection(&y), a.intersection(&b).copied().collect());
        prop_assert_eq!(x.is_superset(&y), a.is_superset(&b));
        prop_assert_eq!(x.is_disjoint(&y), a.is_disjoint(&b));
        prop_assert_eq!(x == y, a == b);
        for index in 0..MAX_SOURCES {
            prop_assert_eq!(x.contains(index), a.contains(&index));
        }
    }
}

#[test]
fn insert_and_remove_say_what_was() {
    let mut set = SourceSet::default();
    for index in [255, 256, MAX_SOURCES - 1] {
        assert!(!set.remove(index));
        assert!(set.insert(index) && !set.insert(index));
        assert!(set.remove(index) && !set.remove(index));
        assert!(set.is_empty());
    }
    // Words that have become zero make no difference.
    assert_eq!(set, SourceSet::default());
    assert_eq!(SourceSet::first(2 * MAX_SOURCES).len(), MAX_SOURCES);
}

#[test]
fn indices_are_taken_in_ascending_order() {
    let mut set = SourceSet::from_iter([4000, 3, 300]);
    assert_eq!(core::iter::from_fn(|| set.take_first()).collect::<Vec<_>>(), [3, 300, 4000]);
}
