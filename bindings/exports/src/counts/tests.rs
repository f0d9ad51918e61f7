use evb_core::id::EventId;

use super::{Counts, LISTED};

fn of(ids: &[u64]) -> Counts {
    let mut counts = Counts::default();
    ids.iter().for_each(|id| counts.reached(EventId::new(*id)));
    counts
}

#[test]
fn absent_ids_are_counted_from_the_first_event_id_on() {
    assert_eq!(of(&[1, 2, 3]).absent, 0);
    let counts = of(&[3, 4, 8]);
    assert_eq!((counts.absent, &counts.gaps[..]), (5, &[(1, 2), (5, 7)][..]));
    assert!(counts.is_clean(true) && !counts.is_clean(false));
    assert!(counts.sentences().contains(&"  events 5 to 7".to_owned()));
}

#[test]
fn the_list_of_gaps_has_a_limit_and_their_count_has_none() {
    let counts = of(&(1..=2000).map(|place| 2 * place).collect::<Vec<_>>());
    assert_eq!((counts.absent, counts.gaps.len()), (2000, LISTED));
}
