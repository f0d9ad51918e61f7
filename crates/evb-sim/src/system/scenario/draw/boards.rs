//! Draws the boards of a seed, from a stream of their own, so that no other choice depends on them.

use core::time::Duration;

use evb_core::{
    id::{EventId, SourceId},
    rng::Rng,
};

use super::Chance;
use crate::{
    boards::{Board, Boards, Slip},
    system::scenario::Scenario,
};

/// Returns the boards of a scenario; `None` if timestamps are not compared.
pub(super) fn draw(scenario: &Scenario) -> Option<Boards> {
    let chance = &mut Chance(Rng::new(scenario.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x626F_6172_6473));
    if scenario.sources < 2 || !chance.percent(63) {
        return None;
    }
    let mut clocks: Vec<Option<Board>> = (0..scenario.sources).map(|_| Some(board(chance))).collect();
    let best = chance.0.below(clocks.len() as u64) as usize;
    // A long pause needs a clock that does not wrap in it.
    if let Some(board) = &mut clocks[best] {
        board.bits = board.bits.max(48);
    }
    if clocks.len() > 2 && chance.percent(15) {
        clocks[(best + 1) % usize::from(scenario.sources)] = None;
    }
    let interval = Duration::from_micros(chance.of(&[50, 200, 1000, 1000, 10_000]));
    let spread = if chance.percent(90) { 0.9 } else { 0.0 };
    let jitter = Duration::from_nanos(chance.of(&[0, 10, 100]));
    let slip = if chance.percent(50) { slip(scenario, &clocks, chance) } else { None };
    Some(Boards { clocks, interval, spread, jitter, slip })
}

fn board(chance: &mut Chance) -> Board {
    let bits = chance.of(&[32, 40, 48, 48, 56, 64]);
    let hertz = chance.of(&[40e6, 62.5e6, 100e6, 125e6, 125e6, 250e6]);
    // A clock of 64 bits counts from the time at which its board was switched on.
    let offset = chance.0.next_u64() >> (64 - bits.min(56));
    Board { hertz, ppm: chance.0.uniform().mul_add(190.0, -95.0), bits, offset }
}

fn slip(scenario: &Scenario, clocks: &[Option<Board>], chance: &mut Chance) -> Option<Slip> {
    let run = chance.between(0, u64::from(scenario.runs) - 1) as u32;
    let index = chance.0.below(clocks.len() as u64) as usize;
    let shift = chance.of(&[1, 1, 1, -1, 2, -5, 16]);
    let at = EventId::new(chance.between(20, 200));
    clocks[index]?;
    Some(Slip { run, source: SourceId::new(index as u16 + 1), at, shift })
}
