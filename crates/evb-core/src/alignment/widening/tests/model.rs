//! Random boards against a model that knows the true event of each fragment.

use std::collections::BTreeSet;

use super::*;
use crate::rng::Rng;

/// A board with gaps, exchanged neighbours, repeated fragments and, at the end, a reset.
struct RandomBoard {
    counter: TriggerCounter,
    widener: Widener,
    /// Events whose fragments were sent.
    sent: BTreeSet<u64>,
    /// Number of triggers by which the supervisor's decisions lag behind, and lead at most.
    lag: u64,
    rng: Rng,
}

impl RandomBoard {
    fn new(mut rng: Rng, bits: u8) -> Self {
        let most = u64::MAX >> (64 - bits);
        let first = [0, 1, 65_535 & most, most, rng.next_u64() & most][rng.below(5) as usize];
        let counter = counter(bits, first);
        let lag = 1 + rng.below(counter.period() / 8).min(20_000);
        Self { counter, widener: Widener::new(counter, id(0)), sent: BTreeSet::new(), lag, rng }
    }

    fn decided(&mut self, event: u64) -> u64 {
        (event + self.rng.below(2 * self.lag)).saturating_sub(self.lag)
    }

    /// Sends the fragment of a true event, and checks its place.
    fn send(&mut self, event: u64) {
        let decided = self.decided(event);
        let is_again = !self.sent.insert(event);
        let same = |known: EventId| is_again && known == id(event);
        let widened = self.widener.widen(value_of(self.counter, event), id(decided), same);
        self.widener.invariants();
        let placed = match widened {
            Widened::Next(placed) | Widened::Gap { event: placed, .. } | Widened::Late(placed) => {
                assert!(!is_again, "{widened:?}");
                placed
            }
            Widened::Repeat(placed) => {
                assert!(is_again, "{widened:?}");
                placed
            }
            Widened::Misfit(misfit) => panic!("event {event}, decided {decided}: {misfit:?}, {self:?}"),
        };
        assert_eq!(placed, id(event));
    }

    /// Sends `count` events with faults that the counter can prove. Returns the last event.
    fn run(&mut self, count: u64) -> u64 {
        let mut event = 1;
        let farthest = self.widener.farthest();
        while event < count {
            match self.rng.below(1000) {
                0 => event += self.rng.below(farthest - 16),
                1..10 => event += 1,
                10..30 => {
                    let ahead = event + 1 + self.rng.below(8);
                    self.send(ahead);
                    (event..ahead).rev().for_each(|event| self.send(event));
                    event = ahead + 1;
                    continue;
                }
                30..40 if event > 70 => self.send_again(event),
                _ => {}
            }
            self.send(event);
            event += 1;
        }
        event - 1
    }

    fn send_again(&mut self, event: u64) {
        let old = event - 1 - self.rng.below(60);
        if self.sent.contains(&old) {
            self.send(old);
        }
    }
}

impl core::fmt::Debug for RandomBoard {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?}, lag {}", self.widener, self.lag)
    }
}

#[test]
fn every_fragment_of_a_board_gets_its_true_event() {
    for seed in 0..24 {
        let bits = [8, 16, 24, 32][seed as usize % 4];
        RandomBoard::new(Rng::new(seed), bits).run(100_000);
    }
}

#[test]
fn a_reset_that_the_counter_can_prove_places_nothing() {
    for seed in 0..60 {
        let bits = [16, 24, 32][seed as usize % 3];
        let mut board = RandomBoard::new(Rng::new(seed), bits);
        let last = board.run(2000 + seed * 100);
        let (period, farthest) = (board.counter.most() + 1, board.widener.farthest());
        // The counter goes on with the value of an event that is too far for a gap, or to be late.
        let other = 1 + board.rng.below(period);
        let ahead = board.counter.ahead(value_of(board.counter, other), value_of(board.counter, last + 1));
        let lag = i64::try_from(board.lag).unwrap();
        let provable = ahead < -(LATEST as i64) || ahead > lag + 2 * farthest as i64;
        if !provable {
            continue;
        }
        for step in 0..100_000 {
            let decided = board.decided(last + 1 + step);
            let value = value_of(board.counter, other + step);
            let widened = board.widener.widen(value, id(decided), |_| false);
            assert!(matches!(widened, Widened::Misfit(_)), "seed {seed}, {step}: {widened:?} {board:?}");
        }
    }
}

#[test]
fn arbitrary_values_neither_panic_nor_go_back_before_event_1() {
    let mut rng = Rng::new(4);
    for bits in [8, 16, 33, 63, 64] {
        for step in [1, 3, 1 << (bits - 8)] {
            for joined in [0, 1 << 40, u64::MAX] {
                let counter = TriggerCounter { step, ..counter(bits, 0) };
                let mut widener = Widener::new(counter, id(joined));
                for _ in 0..10_000 {
                    let value = rng.next_u64() >> rng.below(64);
                    let decided = id(rng.next_u64() >> rng.below(64));
                    let is_same = rng.below(3) == 0;
                    let widened = widener.widen(value, decided, |event| {
                        assert_ne!(event, id(0));
                        is_same
                    });
                    if let Widened::Next(event) | Widened::Gap { event, .. } | Widened::Late(event) = widened
                    {
                        assert_ne!(event, id(0));
                    }
                    widener.invariants();
                }
            }
        }
    }
}
