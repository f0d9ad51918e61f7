use std::time::{Duration, Instant};

use super::watch::Watch;

#[test]
fn who_has_no_turn_for_too_long_hangs_and_may_come_back() {
    let begin = Instant::now();
    let at = |millis: u64| begin + Duration::from_millis(millis);
    let mut watch = Watch::new(Duration::from_millis(100));
    let turns = |a: u64, b: u64| vec![("a".to_owned(), a), ("b".to_owned(), b)];
    assert_eq!(watch.look(turns(1, 1), at(0)), Ok(()));
    assert_eq!(watch.look(turns(2, 1), at(90)), Ok(()));
    assert_eq!(watch.look(turns(3, 1), at(120)), Err(vec!["b".to_owned()]));
    assert_eq!(watch.look(turns(4, 2), at(200)), Ok(()));
    // A loop that has ended does not count as hanging, and a new loop of the same name starts
    // afresh.
    assert_eq!(watch.look(vec![("a".to_owned(), 5)], at(500)), Ok(()));
    assert_eq!(watch.look(turns(6, 2), at(600)), Ok(()));
}
