//! Slips of which builders, or the supervisor, see only a part.

use super::*;

#[test]
fn of_two_clocks_either_is_named_with_size_and_event_whichever_slipped_however_far() {
    for (shift, slipped) in [1, -1, 2, -5, 16].into_iter().flat_map(|shift| [(shift, 0), (shift, 1)]) {
        let mut boards = Boards::new(clocks()[..2].to_vec(), |rng| 1e5 * rng.exponential());
        let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
        let result = run(&mut boards, &mut guard, |boards, board, event| {
            let of = if board == slipped && event >= AT { event.saturating_add_signed(shift) } else { event };
            Some(boards.read(board, of))
        });
        let [(_, finding)] = result.findings[..] else { panic!("{shift} {slipped}: {:?}", result.findings) };
        let shift = if finding.clock.get() == slipped { shift } else { -shift };
        assert_eq!(finding.verdict, Explanation::Slip { shift, offset_is_new: false }, "{slipped}");
        assert_eq!((finding.since, finding.is_disputed), (EventId::new(AT), true), "{shift} {slipped}");
    }
}

#[test]
fn a_slip_of_any_board_while_a_builder_learns_is_named_with_its_first_event() {
    for (shift, slipped, at) in
        [(1, 0, 3), (1, 2, 3), (-1, 0, 6), (-1, 1, 6), (2, 0, 8), (-5, 2, 7), (16, 0, 5), (16, 3, 5)]
    {
        let mut boards = Boards::poisson();
        let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
        let result = run(&mut boards, &mut guard, |boards, board, event| {
            let of = if board == slipped && event >= at { event.saturating_add_signed(shift) } else { event };
            Some(boards.read(board, of))
        });
        let what = (shift, slipped, at);
        assert!(!result.findings.is_empty(), "{what:?}");
        for (_, finding) in &result.findings {
            let verdict = Explanation::Slip { shift, offset_is_new: false };
            assert_eq!((finding.clock.get(), finding.verdict), (slipped, verdict), "{what:?}");
            assert_eq!((finding.since, finding.is_disputed), (EventId::new(at), false), "{what:?}");
        }
    }
}

#[test]
fn with_periodic_triggers_too_a_step_while_a_builder_learns_is_no_single_timestamp() {
    let slip = |shift| Explanation::Slip { shift, offset_is_new: false };
    for (shift, slipped, at) in [(1, 2, 3), (-1, 1, 6), (2, 2, 8), (-5, 2, 7), (16, 1, 5), (1, 0, 6)] {
        let mut boards = Boards::periodic();
        let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
        let result = run(&mut boards, &mut guard, |boards, board, event| {
            let of = if board == slipped && event >= at { event.saturating_add_signed(shift) } else { event };
            Some(boards.read(board, of))
        });
        let (what, found) = ((shift, slipped, at), &result.findings);
        assert!(!found.is_empty(), "{what:?}");
        for (_, finding) in found {
            assert_eq!((finding.clock.get(), finding.verdict), (slipped, slip(shift)), "{what:?}");
            assert_eq!((finding.since, finding.is_disputed), (EventId::new(at), false), "{what:?}");
        }
    }
    for (jump, is_wrap) in [(123_456_789, false), (-(1 << 20), true)] {
        let mut boards = Boards::periodic();
        let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
        let result = run(&mut boards, &mut guard, |boards, board, event| {
            let jump = if board == FAULTY && event >= 6 { jump } else { 0 };
            let ticks = boards.read(board, event).wrapping_add_signed(jump);
            Some(boards.cut(board, ticks))
        });
        let [(_, finding)] = result.findings[..] else { panic!("{:?}", result.findings) };
        match finding.verdict {
            Explanation::OtherBits(20) => assert!(is_wrap),
            Explanation::ClockJump { .. } => assert!(!is_wrap),
            _ => panic!("{finding:?}"),
        }
    }
}

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
fn a_first_wrong_event_whose_fragments_come_late_is_told() {
    // Before and after the source is suspect.
    for late_by in [2, 6] {
        let mut boards = boards_with_a_pause();
        let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
        let mut doubts = Vec::new();
        for event in (1..400).chain(401..=400 + late_by).chain([400]) {
            observe(&mut boards, &mut guard, event, u64::MAX);
            doubts.extend(core::iter::from_fn(|| guard.next_doubt()).map(|doubt| doubt.first.number()));
        }
        assert_eq!((doubts.first(), doubts.last()), (Some(&401), Some(&400)), "{late_by}: {doubts:?}");
    }
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

/// Returns what the readings of some events say about a slip by 1 since event 400, which a guard
/// has doubted at that event, before a pause.
fn seen_in(events: impl Iterator<Item = u64> + Clone) -> Option<Finding> {
    let (mut inquiry, survey, gathered) = inquiry_with(events);
    inquiry.conclude(&survey, &gathered, EventId::new(1000))
}

fn inquiry_with(events: impl Iterator<Item = u64> + Clone) -> (Inquiry, Survey, Gathered) {
    let mut boards = boards_with_a_pause();
    let mut guard = Guard::with_lead(&boards.clocks, ClockIndex::new(0));
    let mut doubt = None;
    for event in 1..=410 {
        observe(&mut boards, &mut guard, event, u64::MAX);
        doubt = guard.next_doubt().or(doubt);
    }
    let mut read =
        |board: usize, event| boards.read(board, event + u64::from(board == FAULTY && event >= 400));
    let mut gathered = Gathered::new(3);
    for clock in ClockIndex::all(3) {
        let one = |event| (EventId::new(event), Timestamp::new(read(clock.get(), event)));
        gathered.add(clock, events.clone().map(one).collect::<Vec<_>>());
    }
    (Inquiry::new(&doubt.unwrap(), EventId::new(1000)), guard.survey(), gathered)
}

#[test]
fn a_slip_is_named_before_it_is_time_only_if_its_first_event_is_certain() {
    let glance = |events: Vec<u64>| {
        let (inquiry, survey, gathered) = inquiry_with(events.into_iter());
        inquiry.glance(&survey, &gathered).map(|found| found.since)
    };
    assert_eq!(glance((250..480).collect()), Some(EventId::new(400)));
    // Fragments that come later, or have left the ring, may be wrong, too.
    assert_eq!(glance((250..400).chain(403..480).collect()), None);
    assert_eq!(glance((403..480).collect()), None);
}

#[test]
fn a_slip_is_named_also_if_the_sources_have_readings_of_few_events() {
    let slip = Explanation::Slip { shift: 1, offset_is_new: false };
    let expected = Some((slip, EventId::new(400)));
    let found = |events: &mut dyn Iterator<Item = u64>| {
        let events: Vec<_> = events.collect();
        seen_in(events.into_iter()).map(|found| (found.verdict, found.since))
    };
    assert_eq!(found(&mut (250..490)), expected);
    // The first wrong fragments have left the rings, at last also in a pause in which the clock may
    // have moved by much more than a slip.
    assert_eq!(found(&mut (450..690)), expected);
    assert_eq!(found(&mut (600..840)), expected);
    // Ring after ring, with holes.
    assert_eq!(found(&mut (250..490).chain(600..840)), expected);
    assert_eq!(found(&mut (380..900).filter(|event| event % 16 < 9)), expected);
}

#[test]
fn a_source_that_was_started_again_may_have_slipped_earlier() {
    let is_begin_lost = |events: core::ops::Range<u64>| {
        let found = seen_in(events).unwrap();
        assert_eq!(found.since, EventId::new(400));
        let sentence = found.sentence(|_| String::new());
        assert_eq!(sentence.contains("perhaps since an earlier event"), found.is_begin_lost, "{sentence}");
        found.is_begin_lost
    };
    assert!(!is_begin_lost(250..490));
    // The first wrong fragments have left the ring of a source that ran all the time.
    assert!(!is_begin_lost(450..690));
    assert!(is_begin_lost(405..600));
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
    for event in (1..AT + 10).filter(|event| !held.contains(event)) {
        observe(&mut boards, event);
    }
    for event in held {
        assert_eq!(observe(&mut boards, event), (None, true), "{event}");
    }
}
