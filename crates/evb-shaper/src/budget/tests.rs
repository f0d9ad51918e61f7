use evb_core::units::Bytes;
use proptest::prelude::*;

use super::BudgetTree;

#[test]
fn who_is_behind_a_small_buffer_leaves_more_to_others() {
    let mut tree = BudgetTree::default();
    let trunk = tree.add("trunk", Bytes::new(1000), None);
    let small = tree.add("port 1", Bytes::new(100), Some(trunk));
    let large = tree.add("port 2", Bytes::new(5000), Some(trunk));
    for port in [small, small, large, large] {
        tree.add_builder(port);
    }
    let elsewhere = tree.add("port 3", Bytes::new(7), None);
    tree.add_builder(elsewhere);
    let budgets = tree.divide();
    assert_eq!(budgets, [50, 50, 450, 450, 7].map(Bytes::new));
    let loads: Vec<_> = tree.loads(&budgets).collect();
    assert_eq!(loads[0], ("trunk", Bytes::new(1000), Bytes::new(1000)));
    assert_eq!(loads[2], ("port 2", Bytes::new(900), Bytes::new(5000)));
}

#[test]
fn nothing_is_divided_among_nobody() {
    let mut tree = BudgetTree::default();
    assert_eq!(tree.divide(), []);
    let port = tree.add("port", Bytes::ZERO, None);
    tree.add_builder(port);
    assert_eq!(tree.divide(), [Bytes::ZERO]);
}

#[test]
fn a_thousand_ports_are_divided_in_milliseconds() {
    let mut tree = BudgetTree::default();
    let mut trunk = None;
    for number in 0..4096_u64 {
        if number % 64 == 0 {
            trunk = Some(tree.add("trunk", Bytes::new(1_000_000 + number * 100), None));
        }
        let port = tree.add("port", Bytes::new(1000 + number), trunk);
        tree.add_builder(port);
    }
    let mut shortest = core::time::Duration::MAX;
    for _ in 0..5 {
        #[allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "the test measures time")]
        let began = std::time::Instant::now();
        assert_eq!(tree.divide().len(), 4096);
        shortest = shortest.min(began.elapsed());
    }
    // A division that walks over all builders for every port takes a minute in a test build.
    assert!(shortest.as_millis() < 200, "{shortest:?}");
}

/// Returns true if a builder is behind a buffer, directly or through others.
fn is_behind(tree: &BudgetTree, builder: usize, node: usize) -> bool {
    let mut at = Some(tree.builders[builder]);
    while let Some(index) = at.filter(|index| *index != node) {
        at = tree.nodes[index].parent;
    }
    at.is_some()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Checks that no buffer is overcommitted, and that each builder is behind a full buffer in
    /// which no builder has a larger budget.
    #[test]
    fn the_division_is_max_min_fair(
        nodes in proptest::collection::vec((0u64..1_000_000, any::<prop::sample::Index>(), any::<bool>()), 1..12),
        builders in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut tree = BudgetTree::default();
        let mut all = Vec::new();
        for (capacity, above, is_root) in nodes {
            let above = (!is_root && !all.is_empty()).then(|| *above.get(&all));
            all.push(tree.add("", Bytes::new(capacity), above));
        }
        for behind in builders {
            tree.add_builder(*behind.get(&all));
        }
        let budgets = tree.divide();
        let loads: Vec<_> = tree.loads(&budgets).collect();
        for (_, load, capacity) in &loads {
            prop_assert!(load <= capacity, "{load} of {capacity}");
        }
        for (builder, budget) in budgets.iter().enumerate() {
            let held = loads.iter().enumerate().any(|(node, (_, load, capacity))| {
                let others: Vec<_> = (0..budgets.len()).filter(|other| is_behind(&tree, *other, node)).collect();
                // Budgets are whole bytes, so in a full buffer up to one byte for each builder
                // behind it may be left.
                is_behind(&tree, builder, node)
                    && *load + Bytes::new(others.len() as u64) > *capacity
                    && others.iter().all(|other| budgets[*other] <= *budget)
            });
            prop_assert!(held, "builder {builder} could have more than {budget}: {budgets:?}");
        }
    }
}
