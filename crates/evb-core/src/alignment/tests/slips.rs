//! Slips of which builders, or the supervisor, see only a part.

use super::*;

/// Returns three boards whose triggers pause for a minute after event 500.
fn boards_with_a_pause() -> Boards {
    let mut count = 0;
    Boards::new(clocks()[..3].to_vec(), |rng| {
        count += 1;
        if count == 501 { 6e10 } else { 1e5 * rng.exponential() }
    })
}

/// Observes an event of boards of which one slipped by 1 since event 400, and until another one.
fn observe(boards: &mut Boards, guard: &mut Guard, event: u64, until: u64) {
    let slipped = |board| u64::from(board == FAULTY && (400..until).contains(&event));
    let readings: Vec<_> = (0..3).map(|board| Some(boards.read(board, event + slipped(board)))).collect();
    guard.observe(EventId::new(event), boards.host(event), &readings);
}

#[test]
fn a_pause_alone_does_not_absolve_a_source() {
    for (until, is_believed) in [(u64::MAX, false), (501, true)] {
        let mut boards = boards_with_a_pause();
        let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
        let mut returned = Vec::new();
        for event in 1..900 {
            observe(&mut boards, &mut guard, event, until);
            returned.extend(guard.next_returned());
        }
        assert_eq!(returned.contains(&ClockIndex::new(FAULTY)), is_believed, "{until}");
        assert_eq!(guard.is_suspect(ClockIndex::new(FAULTY)), !is_believed);
    }
}

#[test]
fn late_events_from_before_a_slip_do_not_absolve_the_source() {
    let mut boards = Boards::poisson();
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    let mut observe = |boards: &mut Boards, event: u64| {
        let slipped = |board| u64::from(board == FAULTY && event >= AT);
        let readings: Vec<_> = (0..4).map(|board| Some(boards.read(board, event + slipped(board)))).collect();
        guard.observe(EventId::new(event), boards.host(event), &readings);
        (guard.next_returned(), guard.is_suspect(ClockIndex::new(FAULTY)))
    };
    // Another builder died, and this one takes over what that one held.
    let held = AT - 100..AT - 20;
    (1..AT).filter(|event| !held.contains(event)).for_each(|event| drop(observe(&mut boards, event)));
    (AT..AT + 10).for_each(|event| drop(observe(&mut boards, event)));
    for event in held {
        assert_eq!(observe(&mut boards, event), (None, true), "{event}");
    }
}
