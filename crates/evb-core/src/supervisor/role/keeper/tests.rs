use super::*;

const START: Instant = Instant::from_nanos(1_000_000);

fn keeper() -> Keeper {
    Keeper::new("a.journal", 100)
}

fn at(millis: u64) -> Instant {
    START + Duration::from_millis(millis)
}

fn entry(at_ns: u64) -> Entry {
    Entry { at_ns, what: None }
}

fn poll(keeper: &mut Keeper, now: Instant) -> Option<JournalWrite> {
    keeper.poll(now, || vec![entry(77)])
}

/// Returns the length that a write of one entry reports, and whether the next write replaces the
/// journal.
fn is_replaced(keeper: &mut Keeper, length: u64, replaced: Result<(), String>) -> bool {
    keeper.handle_written(length, replaced, START);
    keeper.add(entry(1), START);
    poll(keeper, START).unwrap().snapshot.is_some()
}

#[test]
fn entries_wait_for_the_present_write_and_follow_it_together() {
    let mut keeper = keeper();
    assert_eq!(poll(&mut keeper, START), None);
    keeper.add(entry(1), START);
    assert_eq!(poll(&mut keeper, START).unwrap().entries, [entry(1)]);
    (2..4).for_each(|it| keeper.add(entry(it), START));
    assert_eq!((poll(&mut keeper, START), keeper.written(), keeper.added()), (None, 0, 3));
    keeper.handle_written(10, Ok(()), START);
    assert_eq!(keeper.written(), 1);
    assert_eq!(poll(&mut keeper, START).unwrap().entries, [entry(2), entry(3)]);
    keeper.handle_written(10, Ok(()), START);
    assert_eq!((keeper.written(), poll(&mut keeper, START), keeper.next_timeout()), (3, None, None));
    keeper.handle_written(10, Ok(()), START);
    assert_eq!(keeper.written(), 3, "the result of no write changes nothing");
}

#[test]
fn a_failed_write_is_tried_again_with_what_was_added_since() {
    let mut keeper = keeper();
    keeper.add(entry(1), START);
    poll(&mut keeper, START);
    assert!(!keeper.handle_failure("no space".to_owned(), START));
    keeper.add(entry(2), START);
    assert_eq!(poll(&mut keeper, at(99)), None, "not before its time");
    keeper.handle_timeout(at(99));
    assert_eq!(keeper.next_timeout(), Some(at(100)));
    assert_eq!(poll(&mut keeper, at(100)).unwrap().entries, [entry(2)]);
    assert_eq!(keeper.written(), 0);
    keeper.handle_written(10, Ok(()), at(100));
    assert_eq!(keeper.written(), 2, "the driver has kept the first one");
    // After a success, the time limit begins again.
    keeper.add(entry(3), at(200));
    poll(&mut keeper, at(200));
    assert!(!keeper.handle_failure("no space".to_owned(), at(5000)));
}

#[test]
fn a_journal_that_cannot_be_written_for_long_is_removed() {
    let mut keeper = keeper();
    keeper.add(entry(1), START);
    for tried in (0..5000).step_by(100) {
        assert!(poll(&mut keeper, at(tried)).is_some());
        assert!(!keeper.handle_failure(format!("no space at {tried}"), at(tried)));
    }
    poll(&mut keeper, at(5000));
    assert!(keeper.handle_failure("no space".to_owned(), at(5000)));
    keeper.add(entry(2), at(5000));
    assert_eq!(poll(&mut keeper, at(6000)), None, "nothing is written while it is removed");
    let problem = keeper.abandon(Err("read-only".to_owned()));
    assert!(problem.contains("no space at 0") && problem.contains("read-only"), "{problem}");
}

#[test]
fn a_disk_stalls_when_nothing_was_written_for_some_time() {
    let mut keeper = keeper();
    let is_stalled = |keeper: &mut Keeper, now| {
        keeper.handle_timeout(now);
        keeper.is_stalled()
    };
    keeper.add(entry(1), START);
    poll(&mut keeper, START);
    keeper.add(entry(2), at(50));
    assert_eq!(keeper.next_timeout(), Some(at(100)));
    assert!(!is_stalled(&mut keeper, at(99)) && is_stalled(&mut keeper, at(100)));
    assert_eq!(keeper.next_timeout(), None, "only the disk can change it");
    keeper.handle_written(10, Ok(()), at(3000));
    // Each write has all the time.
    assert!(!is_stalled(&mut keeper, at(3000)));
    assert_eq!(keeper.next_timeout(), Some(at(3100)));
    poll(&mut keeper, at(3000));
    assert!(is_stalled(&mut keeper, at(3100)));
    keeper.handle_written(10, Ok(()), at(3100));
    assert!(!is_stalled(&mut keeper, at(9000)), "nothing waits");
}

/// A journal that stayed long after its replacement would make each turn rewrite a large state and
/// log each failure.
#[test]
fn a_journal_is_long_once_more_when_it_has_grown() {
    let mut keeper = keeper();
    keeper.add(entry(1), START);
    assert!(poll(&mut keeper, START).unwrap().snapshot.is_none());
    assert!(!is_replaced(&mut keeper, 100, Ok(())));
    assert!(is_replaced(&mut keeper, 101, Ok(())));
    // The snapshot is nearly as long as the journal was.
    assert!(!is_replaced(&mut keeper, 90, Ok(())));
    assert!(!is_replaced(&mut keeper, 180, Ok(())));
    assert!(is_replaced(&mut keeper, 181, Ok(())));
    // A replacement that failed is tried again when the journal has grown by as much as it may.
    assert!(!is_replaced(&mut keeper, 190, Err("no space".to_owned())));
    assert!(!is_replaced(&mut keeper, 290, Ok(())));
    assert!(is_replaced(&mut keeper, 291, Ok(())));
    assert!(!is_replaced(&mut keeper, 20, Ok(())));
    assert!(is_replaced(&mut keeper, 101, Ok(())), "a short snapshot has the usual limit");
}

#[test]
fn a_failed_write_replaces_nothing() {
    let mut keeper = keeper();
    keeper.add(entry(1), START);
    poll(&mut keeper, START);
    assert!(is_replaced(&mut keeper, 101, Ok(())));
    assert!(!keeper.handle_failure("no space".to_owned(), START));
    assert_eq!(poll(&mut keeper, at(100)), Some(JournalWrite::default()));
    assert!(is_replaced(&mut keeper, 110, Ok(())), "it is still long");
}
