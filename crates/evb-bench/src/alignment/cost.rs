//! The cost of a guard, in time.

use std::time::Instant as Clock;

use evb_core::{alignment::Guard, id::EventId};
use serde::Serialize;

use super::{
    boards::{Board, LEAD, boards, declared},
    triggers::Pattern,
    world::World,
};

/// Events of a measurement, and its repetitions, of which the fastest counts.
const EVENTS: u64 = 4_000;
const REPEATS: usize = 50;

/// Cost of a guard with that many sources.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Number of sources.
    pub sources: usize,
    /// Nanoseconds per event and source.
    pub nanos: f64,
    /// Largest number of nanoseconds that is accepted.
    pub bar: f64,
}

/// Measures a guard with that many sources, in a run without faults.
pub(super) fn cost(sources: usize) -> Cost {
    let boards: Vec<Board> = boards().iter().copied().cycle().take(sources).collect();
    let clocks = declared(&boards);
    let mut world = World::new(&boards, Pattern::Poisson { mean: 1e4 }, 5, None);
    let mut events = Vec::new();
    for event in 1..=EVENTS {
        world.make();
        let readings: Vec<Option<u64>> =
            (0..sources).map(|board| Some(world.healthy(board, event))).collect();
        events.push((EventId::new(event), world.host(event), readings));
    }
    let mut fastest = f64::INFINITY;
    for _ in 0..REPEATS {
        let mut guard = Guard::with_lead(&clocks, LEAD);
        let (mut flagged, started) = (0, Clock::now());
        for (event, host, readings) in &events {
            flagged += guard.observe(*event, *host, readings).disagree;
        }
        std::hint::black_box(flagged);
        fastest = fastest.min(started.elapsed().as_nanos() as f64);
    }
    let nanos = fastest / (EVENTS as f64 * sources as f64);
    Cost { sources, nanos, bar: if sources < 5 { 15.0 } else { 10.0 } }
}
