use proptest::prelude::*;

use super::*;

/// Returns the builder for the next event by a look at every builder.
fn chosen(policy: AssignmentPolicy, free: &[u32], last: usize) -> Option<usize> {
    let next = (last + 1).min(free.len());
    let mut in_turn = (next..free.len()).chain(0..next).filter(|builder| free[*builder] > 0);
    match policy {
        AssignmentPolicy::RoundRobin => in_turn.next(),
        AssignmentPolicy::LeastLoaded => in_turn.rev().max_by_key(|builder| free[*builder]),
    }
}

proptest! {
    #[test]
    fn the_choice_is_that_of_a_look_at_every_builder(
        least_loaded: bool,
        changes in proptest::collection::vec((0..70_usize, 0..4_u32), 1..200),
    ) {
        let policy = if least_loaded { AssignmentPolicy::LeastLoaded } else { AssignmentPolicy::RoundRobin };
        let (mut set, mut last) = (Free::new(policy), 69);
        let mut free: Per<BuilderIndex, u32> = core::iter::repeat_n(0, 70).collect();
        for (builder, now) in changes {
            let builder = BuilderIndex::new(builder);
            set.change(builder, free[builder], now);
            free[builder] = now;
            prop_assert!(set.agrees(free.iter().copied()));
            let choice = set.choose(BuilderIndex::new(last), &free).map(BuilderIndex::get);
            prop_assert_eq!(choice, chosen(policy, free.as_slice(), last));
            last = choice.unwrap_or(last);
        }
    }
}
