//! Counters of every length become event ids, and whatever cannot be placed is named.

mod model;

use super::*;
use crate::alignment::CounterStart;

pub(super) fn counter(bits: u8, first: u64) -> TriggerCounter {
    TriggerCounter { first: CounterStart::At(first), ..TriggerCounter::new(bits) }
}

fn id(event: u64) -> EventId {
    EventId::new(event)
}

/// Returns the value of a counter for an event.
pub(super) fn value_of(counter: TriggerCounter, event: u64) -> u64 {
    counter.value_of(EventId::new(event)).expect("a first value")
}

/// A board whose fragments come as the supervisor decides.
struct Board {
    counter: TriggerCounter,
    widener: Widener,
}

impl Board {
    /// Returns a board that has sent events 1 to `last`.
    fn after(counter: TriggerCounter, last: u64) -> Self {
        assert_eq!(counter.check(), Ok(()));
        let mut board = Self { counter, widener: Widener::new(counter, id(0)) };
        for event in 1..=last {
            assert_eq!(board.send(event, event), Widened::Next(id(event)), "{counter:?}");
        }
        board
    }

    /// Sends the right value of an event, when the last decided event is `decided`.
    fn send(&mut self, event: u64, decided: u64) -> Widened {
        self.raw(value_of(self.counter, event), decided)
    }

    fn raw(&mut self, value: u64, decided: u64) -> Widened {
        let widened = self.widener.widen(value, id(decided), |_| false);
        self.widener.invariants();
        widened
    }
}

fn reset(distance: i64, is_new: bool) -> Widened {
    Widened::Misfit(Misfit::Reset { distance, is_new })
}

fn gap(event: u64, missing: u64) -> Widened {
    Widened::Gap { event: id(event), missing }
}

#[test]
fn counters_of_every_length_wrap() {
    let lengths = [
        (8, 0),
        (8, 1),
        (8, 255),
        (16, 0),
        (16, 1),
        (16, 65_535),
        (24, 0),
        (24, 16_777_200),
        (32, 1),
        (32, u64::from(u32::MAX)),
        (64, u64::MAX),
    ];
    for (bits, first) in lengths {
        Board::after(counter(bits, first), 150_000);
    }
    for step in [3, 4, 256] {
        Board::after(TriggerCounter { step, ..counter(16, 2) }, 100_000);
    }
}

#[test]
fn a_gap_says_how_many_events_are_missing_and_a_late_fragment_fills_it() {
    for first in [0, 1, 65_535] {
        let mut board = Board::after(counter(16, first), 65_530);
        assert_eq!(board.send(65_540, 65_540), gap(65_540, 9));
        assert_eq!(board.send(65_535, 65_540), Widened::Late(id(65_535)));
        assert_eq!(board.send(65_541, 65_540), Widened::Next(id(65_541)));
    }
}

#[test]
fn a_skipped_value_is_a_gap_which_only_the_timestamps_explain() {
    // This counter goes from 65 535 to 1.
    let mut board = Board::after(counter(16, 1), 65_535);
    assert_eq!(board.raw(1, 65_536), gap(65_537, 1));
}

#[test]
fn a_large_gap_is_believed_only_if_the_supervisor_confirms_it() {
    let mut board = Board::after(counter(16, 0), 70_000);
    // The decisions come a moment later than the fragments.
    assert_eq!(board.send(75_001, 70_000), reset(5000, true));
    assert_eq!(board.send(75_002, 70_000), reset(5001, false));
    assert_eq!(board.send(75_003, 75_000), gap(75_003, 5002));
    assert_eq!(board.send(75_004, 75_001), Widened::Next(id(75_004)));
}

#[test]
fn a_reset_counter_gets_no_place_even_when_it_comes_past_the_expected_value() {
    for (bits, last) in [(16, 70_000), (16, 500), (24, 2000), (32, 100_000)] {
        let mut board = Board::after(counter(bits, 1), last);
        let mut news = 0;
        for value in 1..=last + 5000 {
            let widened = board.raw(value & 0xffff_ffff & board.counter.most(), last + value);
            let Widened::Misfit(Misfit::Reset { is_new, .. }) = widened else {
                panic!("{bits} bits, {value}: {widened:?}")
            };
            news += u32::from(is_new);
        }
        assert_eq!(news, 1, "{bits} bits: one reset");
    }
}

#[test]
fn a_counter_that_falls_a_little_is_found_by_its_second_fragment() {
    let mut board = Board::after(counter(32, 1), 40);
    assert_eq!(board.raw(1, 41), Widened::Repeat(id(1)), "this may be a single fault");
    for value in 2..=100 {
        let widened = board.raw(value, 40 + value);
        assert!(matches!(widened, Widened::Misfit(Misfit::Reset { .. })), "{value}: {widened:?}");
    }
}

#[test]
fn the_same_fragments_again_are_repeats_however_old() {
    let mut board = Board::after(counter(16, 1), 70_000);
    for event in 60_000..=70_000 {
        let widened = board.widener.widen(value_of(board.counter, event), id(70_000), |_| true);
        assert_eq!(widened, Widened::Repeat(id(event)));
    }
    assert_eq!(board.send(70_001, 70_001), Widened::Next(id(70_001)));
}

#[test]
fn one_wild_value_is_no_reset_of_those_that_follow() {
    for wild in [3_000_000, 17] {
        let mut board = Board::after(counter(32, 0), 5000);
        assert!(matches!(board.raw(wild, 5000), Widened::Misfit(Misfit::Reset { is_new: true, .. })));
        assert_eq!(board.send(5002, 5002), gap(5002, 1));
        assert_eq!(board.send(5001, 5002), Widened::Late(id(5001)));
    }
    let mut board = Board::after(counter(16, 1), 5000);
    assert_eq!(board.send(4990, 5000), Widened::Repeat(id(4990)), "with another content");
    assert_eq!(board.send(5001, 5001), Widened::Next(id(5001)));
}

#[test]
fn a_silence_of_a_whole_wrap_is_named_and_never_forgiven() {
    for (bits, wrap) in [(8, 256), (16, 65_536), (24, 1 << 24)] {
        let mut board = Board::after(counter(bits, 0), 700);
        for event in 701..1000 {
            let widened = board.send(event, wrap + event);
            assert_eq!(widened, Widened::Misfit(Misfit::LostWrap), "{bits} bits");
        }
    }
}

#[test]
fn a_board_that_comes_before_the_decisions_is_believed() {
    let mut board = Board::after(counter(8, 0), 10);
    for event in 11..100_000 {
        assert_eq!(board.send(event, 10), Widened::Next(id(event)));
    }
}

#[test]
fn values_that_the_counter_cannot_have_are_named() {
    let mut board = Board::after(TriggerCounter { step: 4, ..counter(16, 2) }, 100);
    let value = value_of(board.counter, 101);
    assert_eq!(board.raw(value + 1, 100), Widened::Misfit(Misfit::OffStep));
    assert_eq!(board.raw(1 << 16, 100), Widened::Misfit(Misfit::TooLarge));
    assert_eq!(board.raw(value, 101), Widened::Next(id(101)));
}

#[test]
fn what_is_left_over_has_no_place_and_the_board_that_is_reset_then_has() {
    let mut board = Board::after(counter(16, 10), 0);
    assert_eq!(board.raw(9, 0), reset(-1, true), "nothing comes before event 1");
    assert_eq!(board.raw(10, 0), reset(0, true), "the counter runs on, so that it was not reset");
    let mut board = Board::after(counter(16, 1), 0);
    for left_over in 499..=510 {
        assert_eq!(board.raw(left_over | 0x8000, 0), reset(left_over as i64 - 32_769, left_over == 499));
    }
    assert_eq!(board.raw(1, 1), Widened::Next(id(1)));
}

#[test]
fn a_board_that_was_not_reset_gets_no_place_even_when_it_wraps() {
    let mut board = Board::after(counter(16, 1), 0);
    for number in 0..100_000 {
        let widened = board.raw((40_000 + number) & 0xffff, number);
        assert!(matches!(widened, Widened::Misfit(Misfit::Reset { .. })), "{number}: {widened:?}");
    }
}

#[test]
fn a_counter_that_starts_anywhere_begins_with_its_first_fragment() {
    let any = TriggerCounter { first: CounterStart::Any, ..TriggerCounter::new(16) };
    let mut board = Board { counter: any, widener: Widener::new(any, id(0)) };
    assert_eq!(board.widener.expected(), (id(1), None));
    assert_eq!(board.raw(65_534, 3), Widened::Next(id(1)));
    assert_eq!(board.raw(0, 3), gap(3, 1));
    assert_eq!(board.raw(65_535, 3), Widened::Late(id(2)));
    let mut board = Board { counter: any, widener: Widener::new(any, id(7)) };
    assert_eq!(board.raw(8, 7), Widened::Misfit(Misfit::NoStart));
}

#[test]
fn a_source_that_joins_late_expects_the_next_event() {
    let joined = || Board { counter: counter(16, 1), widener: Widener::new(counter(16, 1), id(1_000_000)) };
    let mut board = joined();
    assert_eq!(board.send(999_990, 1_000_002), Widened::Late(id(999_990)), "of no concern any more");
    assert_eq!(board.send(1_000_003, 1_000_002), gap(1_000_003, 2));
    // This board was reset when the source joined; it comes past the expected value later.
    let mut board = joined();
    let wrong = 20_000;
    for number in 1..=50_000 {
        let widened = board.send(1_000_000 - wrong + number, 1_000_000 + number);
        assert!(!matches!(widened, Widened::Next(_) | Widened::Gap { .. }), "{number}: {widened:?}");
    }
}
