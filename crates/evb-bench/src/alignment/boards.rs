//! The boards of the study: clocks with jitter, whose rates differ and drift.

use std::time::Duration;

use evb_core::{
    alignment::{ClockWrap, DetectorClock},
    index::ClockIndex,
    rng::Rng,
    units::Frequency,
};

/// A board's clock, as it really is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Board {
    /// Nominal rate.
    pub(super) hertz: f64,
    pub(super) bits: u8,
    /// Largest deviation of a timestamp from the trigger, with a triangular distribution; in
    /// nanoseconds.
    pub(super) jitter: f64,
    /// Largest deviation of the rate, in parts per million.
    pub(super) accuracy: f64,
    /// Part of the deviation that swings with a period of ten minutes, in parts per million.
    pub(super) swing: f64,
}

/// The board whose clock counts time.
pub(super) const LEAD: ClockIndex = ClockIndex::new(0);

/// The five boards of the study.
pub(super) fn boards() -> [Board; 5] {
    let board = |hertz, bits, jitter| Board { hertz, bits, jitter, accuracy: 100.0, swing: 3.0 };
    [
        board(125e6, 48, 4.0),
        board(100e6, 32, 4.0),
        board(62.5e6, 40, 8.0),
        board(250e6, 64, 4.0),
        board(40.079e6, 24, 10.0),
    ]
}

/// Returns the clocks as an operator declares them. The tolerance is twice the sum of the jitters
/// and ticks of a board and of the lead.
pub(super) fn declared(boards: &[Board]) -> Vec<DetectorClock> {
    let Some(lead) = boards.first() else { return Vec::new() };
    let spread = |board: &Board| board.jitter + 1e9 / board.hertz;
    let declare = |board: &Board| {
        let rate = Frequency::from_hertz(board.hertz)?;
        let nanos = 2.0 * (spread(board) + spread(lead));
        Some(DetectorClock {
            tolerance: Duration::from_nanos(nanos.round() as u64),
            accuracy: board.accuracy,
            ..DetectorClock::new(rate, ClockWrap::Bits(board.bits))
        })
    };
    boards.iter().filter_map(declare).collect()
}

/// The oscillator of a board.
pub(super) struct Oscillator {
    board: Board,
    ticks: u64,
    fraction: f64,
    /// Constant part of the rate's relative deviation.
    offset: f64,
    phase: f64,
    /// Relative deviation of the rate, computed at `at` seconds.
    deviation: f64,
    at: f64,
}

impl Oscillator {
    /// Returns an oscillator of that board, with a rate that is wrong by `wrong` ppm beyond its
    /// accuracy.
    pub(super) fn new(board: Board, wrong: f64, rng: &mut Rng) -> Self {
        let spread = (2.0 * rng.uniform() - 1.0) * (board.accuracy - board.swing);
        Self {
            board,
            ticks: rng.next_u64() >> 3,
            fraction: 0.0,
            offset: (spread + wrong) * 1e-6,
            phase: rng.uniform() * std::f64::consts::TAU,
            deviation: 0.0,
            at: -1.0,
        }
    }

    /// Lets time pass up to `now` (in seconds), and returns the timestamp of a trigger then.
    pub(super) fn read(&mut self, now: f64, nanos: f64, jitter: f64, rng: &mut Rng) -> u64 {
        if now - self.at > 1e-3 {
            let swing = (now * std::f64::consts::TAU / 600.0 + self.phase).sin();
            self.deviation = self.offset + self.board.swing * 1e-6 * swing;
            self.at = now;
        }
        let per_nano = self.board.hertz * 1e-9;
        let passed = nanos * per_nano * (1.0 + self.deviation) + self.fraction;
        self.ticks = self.ticks.wrapping_add(passed.floor() as u64);
        self.fraction = passed - passed.floor();
        let off = (rng.uniform() + rng.uniform() - 1.0) * jitter * per_nano + self.fraction;
        self.ticks.wrapping_add((off.floor() as i64).cast_unsigned())
    }
}

impl Board {
    /// Returns a reading without the bits that the clock does not have.
    pub(super) fn cut(&self, ticks: u64) -> u64 {
        ticks & u64::MAX >> (64 - self.bits)
    }
}
