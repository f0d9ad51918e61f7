use super::*;
use crate::rng::Rng;

const DEADLINE: Duration = Duration::from_millis(200);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
}

/// A readout and its watch, with the time in milliseconds.
struct Bench {
    watch: ReadoutWatch,
    millis: u64,
    event: u64,
}

impl Bench {
    fn new() -> Self {
        let mut watch = ReadoutWatch::new(DEADLINE);
        watch.handle_front_ends(1, 1, at(0));
        Self { watch, millis: 0, event: 0 }
    }

    /// Assigns an event every 10 ms for that time; readout delivers if `delivers`.
    fn run(&mut self, millis: u64, delivers: bool) {
        let end = self.millis + millis;
        while self.millis < end {
            self.millis += 10;
            self.event += 1;
            let (event, now) = (EventId::new(self.event), at(self.millis));
            self.watch.handle_assigned(event, !delivers);
            if delivers {
                self.watch.handle_delivered(event, now);
            }
            self.watch.settle(now);
            self.watch.handle_timeout(false, now);
        }
    }

    fn connect(&mut self, expected: u32, connected: u32) {
        self.watch.handle_front_ends(expected, connected, at(self.millis));
    }

    fn assign(&mut self, event: u64, now: Instant) {
        self.watch.handle_assigned(EventId::new(event), true);
        self.watch.settle(now);
    }

    fn deliver(&mut self, event: u64) {
        self.watch.handle_delivered(EventId::new(event), at(self.millis));
    }

    fn state(&self) -> ReadoutState {
        self.watch.status(false).state
    }
}

#[test]
fn a_readout_that_stops_is_silent_after_a_second_and_back_with_its_next_fragment() {
    let mut bench = Bench::new();
    assert_eq!(bench.state(), ReadoutState::Present);
    bench.run(500, true);
    assert_eq!(bench.state(), ReadoutState::Present);
    bench.run(950, false);
    assert_eq!(bench.state(), ReadoutState::Present);
    bench.run(150, false);
    assert_eq!(bench.state(), ReadoutState::Silent);
    bench.deliver(60);
    assert_eq!(bench.state(), ReadoutState::Silent, "a fragment of a backlog does not count");
    bench.deliver(bench.event - 5);
    assert_eq!(bench.state(), ReadoutState::Present);
}

#[test]
fn the_deadline_counts_if_it_is_longer_than_a_second() {
    let mut bench = Bench { watch: ReadoutWatch::new(Duration::from_secs(4)), ..Bench::new() };
    bench.run(3900, false);
    assert_eq!(bench.state(), ReadoutState::Present);
    bench.run(400, false);
    assert_eq!(bench.state(), ReadoutState::Silent);
}

#[test]
fn a_single_event_is_enough_to_notice_and_slow_triggers_are_no_silence() {
    let mut bench = Bench::new();
    for event in 1..=4 {
        bench.assign(event, at(5000 * event));
        bench.watch.handle_timeout(false, at(5000 * event + 100));
        bench.watch.handle_delivered(EventId::new(event), at(5000 * event + 150));
        assert_eq!(bench.watch.next_timeout(), None, "nothing is lacking");
    }
    bench.assign(5, at(30_000));
    while let Some(due) = bench.watch.next_timeout() {
        assert!(due <= at(31_100));
        bench.watch.handle_timeout(false, due);
    }
    assert_eq!(bench.state(), ReadoutState::Silent);
}

#[test]
fn neither_a_full_backlog_nor_a_standstill_is_silence() {
    let mut bench = Bench::new();
    bench.assign(1, at(0));
    for millis in 1..50 {
        bench.watch.handle_timeout(true, at(millis * 100));
    }
    assert_eq!(bench.state(), ReadoutState::Present, "evb took nothing");
    bench.watch.handle_timeout(false, at(20_000));
    assert_eq!(bench.state(), ReadoutState::Present, "the process stood still");
}

#[test]
fn a_closed_connection_counts_soon_unless_fragments_are_left() {
    let mut bench = Bench::new();
    bench.run(100, true);
    bench.connect(1, 0);
    bench.run(190, false);
    assert_eq!(bench.state(), ReadoutState::Present, "it may connect again");
    bench.run(10, false);
    assert_eq!(bench.watch.status(true).state, ReadoutState::Present);
    assert_eq!(bench.state(), ReadoutState::Gone);
    bench.connect(1, 1);
    assert_eq!(bench.state(), ReadoutState::Silent, "a connection is not a fragment");
    bench.deliver(bench.event + 1);
    assert_eq!(bench.state(), ReadoutState::Present);
    bench.connect(0, 0);
    bench.run(500, false);
    assert_eq!(bench.state(), ReadoutState::Present, "front ends that may come and go");
}

#[test]
fn a_front_end_may_connect_for_each_event() {
    let mut bench = Bench::new();
    for _ in 0..100 {
        bench.run(50, true);
        bench.connect(1, 0);
        bench.run(100, false);
        bench.connect(1, 1);
        assert_eq!(bench.state(), ReadoutState::Present);
    }
}

/// However readout comes and goes, its state changes at most eight times in a minute.
#[test]
fn no_readout_changes_its_state_more_than_eight_times_in_a_minute() {
    let mut rng = Rng::new(36);
    for _ in 0..200 {
        let (mut bench, mut last, mut changes) = (Bench::new(), ReadoutState::Present, Vec::new());
        let longest = 10 << rng.below(9);
        while bench.millis < 300_000 {
            let (millis, delivers) = (10 * (1 + rng.below(longest)), rng.below(2) == 0);
            if rng.below(3) == 0 {
                bench.connect(1, rng.below(2) as u32);
            }
            let end = bench.millis + millis;
            while bench.millis < end {
                bench.run(10, delivers && bench.watch.connected > 0);
                let state = bench.state();
                // Silent or gone is the same to events.
                if (state == ReadoutState::Present) != (last == ReadoutState::Present) {
                    changes.push(bench.millis);
                }
                last = state;
            }
        }
        let minutes = changes.windows(9).map(|nine| nine[8] - nine[0]);
        assert!(minutes.min().is_none_or(|shortest| shortest >= 60_000), "{changes:?}");
    }
}

#[test]
fn an_unsteady_readout_stays_silent_for_half_a_minute() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.run(1200, false);
        assert_eq!(bench.state(), ReadoutState::Silent);
        bench.run(50, true);
    }
    assert_eq!(bench.state(), ReadoutState::Silent);
    bench.run(28_000, true);
    assert_eq!(bench.state(), ReadoutState::Silent);
    bench.run(2000, true);
    assert_eq!(bench.state(), ReadoutState::Present);
}

#[test]
fn the_supervisor_is_told_once_and_again_on_a_new_connection() {
    let mut bench = Bench::new();
    let status = bench.watch.take_news(false);
    assert_eq!(status.map(|status| (status.state, status.connected)), Some((ReadoutState::Present, 1)));
    assert_eq!(bench.watch.take_news(false), None);
    bench.watch.forget_told();
    assert_eq!(bench.watch.take_news(false), status);
}

/// A front end may send its fragments before the run begins, and be gone by then.
#[test]
fn fragments_that_wait_for_the_run_are_told_of_until_it_begins() {
    let mut watch = ReadoutWatch::new(Duration::from_secs(1));
    watch.handle_front_ends(1, 1, at(0));
    watch.handle_front_ends(1, 0, at(0));
    let holds = |watch: &mut ReadoutWatch, held| watch.take_news(held).map(|status| status.holds_first);
    assert_eq!(holds(&mut watch, true), Some(true));
    assert_eq!(holds(&mut watch, false), Some(false));
    assert_eq!(holds(&mut watch, true), Some(true));
    watch.begin();
    assert_eq!(holds(&mut watch, true), Some(false));
    assert_eq!(holds(&mut watch, false), None, "in the run, the supervisor is not told");
}

/// Connections that come and go between two looks are known by their fragments.
#[test]
fn a_readout_that_connects_for_each_fragment_is_not_gone() {
    let mut bench = Bench::new();
    bench.connect(1, 0);
    bench.run(1000, true);
    assert_eq!(bench.state(), ReadoutState::Present);
    bench.run(300, false);
    assert_eq!(bench.state(), ReadoutState::Gone);
}
