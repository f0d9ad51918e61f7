//! Healthy systems: no flag may be raised.

use evb_core::{
    alignment::{DetectorClock, Guard},
    id::EventId,
};
use serde::Serialize;

use super::{
    boards::{Board, LEAD},
    trial::Share,
    triggers::Pattern,
    world::World,
};

/// Result of healthy events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Healthy {
    /// Pattern of the triggers.
    pub pattern: String,
    /// Number of events.
    pub events: u64,
    /// Number of fragments that were flagged.
    pub flagged: u64,
    /// Number of clocks that were suspected.
    pub suspected: u64,
    /// Largest deviation of a timestamp, as a part of its limit.
    pub largest: f64,
}

impl Healthy {
    /// Returns the result of no event of that pattern.
    pub(super) fn of(pattern: &str) -> Self {
        Self { pattern: pattern.to_owned(), ..Self::default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.flagged += other.flagged;
        self.suspected += other.suspected;
        self.largest = self.largest.max(other.largest);
    }
}

/// A healthy run.
pub(super) struct HealthyRun<'a> {
    pub(super) boards: &'a [Board],
    pub(super) clocks: &'a [DetectorClock],
    pub(super) pattern: Pattern,
    pub(super) share: Share,
    pub(super) events: u64,
    /// Share of the events that lack a fragment.
    pub(super) missing: f64,
    pub(super) seed: u64,
}

impl HealthyRun<'_> {
    pub(super) fn run(&self) -> Healthy {
        let mut world = World::new(self.boards, self.pattern, self.seed, None);
        let mut guards: Vec<Guard> =
            (0..self.share.builders).map(|_| Guard::with_lead(self.clocks, LEAD)).collect();
        let mut result = Healthy { events: self.events, ..Healthy::default() };
        let mut readings = vec![None; self.boards.len()];
        for event in 1..=self.events {
            world.make();
            for (board, reading) in readings.iter_mut().enumerate() {
                *reading = Some(world.healthy(board, event));
            }
            if self.missing > 0.0 && world.rng.uniform() < self.missing {
                let board = world.rng.below(self.boards.len() as u64) as usize;
                readings[board] = None;
            }
            let guard = &mut guards[self.share.builder_of(event)];
            let seen = guard.observe(EventId::new(event), world.host(event), &readings);
            result.flagged += u64::from(seen.disagree);
            if seen.doubts > 0 {
                while let Some(doubt) = guard.next_doubt() {
                    result.suspected += u64::from(doubt.suspect);
                }
            }
            if seen.calm || seen.disagree > 0 {
                result.largest = result.largest.max(guard.largest_deviation());
            }
        }
        result
    }
}
