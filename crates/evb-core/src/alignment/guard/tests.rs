//! A healthy clock is never flagged, whichever clocks count time one after the other.

use core::time::Duration;

use super::*;
use crate::{
    alignment::{ClockWrap, GuardedClocks, survey_of},
    id::SourceId,
    rng::Rng,
    units::Frequency,
};

/// Healthy boards that are known to builders for some time only, and triggers in random order.
struct Boards {
    rng: Rng,
    clocks: Vec<DetectorClock>,
    /// Largest delay of a timestamp in nanoseconds, and deviation of the rate in parts per million.
    truth: Vec<(f64, f64)>,
    /// Milliseconds between two triggers.
    interval: f64,
}

impl Boards {
    /// Draws boards, of which each may have a jitter and an accuracy of its own.
    fn new(seed: u64, are_equal: bool) -> Self {
        let mut rng = Rng::new(seed);
        let mut of = |choices: [f64; 4]| choices[rng.below(4) as usize];
        let first = (of([0.0, 10.0, 100.0, 1000.0]), of([0.0, 1.0, 20.0, 100.0]));
        let kinds: Vec<_> = (0..4)
            .map(|_| {
                (
                    of([0.0, 10.0, 100.0, 20_000.0]),
                    of([0.0, 1.0, 20.0, 100.0]),
                    of([40e6, 62.5e6, 125e6, 250e6]),
                )
            })
            .map(
                |(jitter, accuracy, hertz)| {
                    if are_equal { (first.0, first.1, hertz) } else { (jitter, accuracy, hertz) }
                },
            )
            .collect();
        let interval = of([0.05, 0.2, 1.0, 10.0]);
        let truth =
            kinds.iter().map(|(jitter, accuracy, _)| (*jitter, accuracy * (2.0 * rng.uniform() - 1.0)));
        let truth: Vec<_> = truth.collect();
        let clock = |(jitter, accuracy, hertz): &(f64, f64, f64)| {
            // Twice the jitter and the ticks of this clock and of the first one, which is the lead.
            let nanos = 2.0 * (jitter + kinds[0].0 + 1e9 / hertz + 1e9 / kinds[0].2);
            DetectorClock {
                tolerance: Duration::from_nanos(nanos as u64 + 1),
                accuracy: *accuracy,
                ..DetectorClock::new(Frequency::from_hertz(*hertz).unwrap(), ClockWrap::Bits(56))
            }
        };
        let clocks = kinds.iter().map(clock).collect();
        Self { rng, clocks, truth, interval }
    }

    fn guard(&self) -> Guard {
        Guard::with_lead(&self.clocks, ClockIndex::new(0)).without_host_times()
    }

    /// Returns what a clock reads at a time in nanoseconds.
    fn read(&mut self, clock: usize, nanos: f64) -> u64 {
        let (jitter, ppm) = self.truth[clock];
        let nanos = nanos + jitter * self.rng.uniform();
        (nanos * 1e-9 * self.clocks[clock].rate.hertz() * (1.0 + ppm * 1e-6)) as u64 + (1 << 40)
    }

    /// Lets a guard see events. In each part of them, some boards are absent, and some events end
    /// late.
    fn run(&mut self, guard: &mut Guard, events: core::ops::Range<u64>) -> Option<(u64, usize)> {
        let mut present = [true; 4];
        for event in events {
            if event > 20 && self.rng.below(10) == 0 {
                present = core::array::from_fn(|_| self.rng.below(3) > 0);
            }
            let late = if self.rng.below(4) == 0 { self.rng.below(event.min(300)) } else { 0 };
            let nanos =
                (event - late) as f64 * self.interval * 1e6 + 1e6 * self.interval * self.rng.uniform();
            let readings: [_; 4] =
                core::array::from_fn(|clock| present[clock].then(|| self.read(clock, nanos)));
            guard.observe(EventId::new(event), Instant::ZERO, &readings);
            guard.invariants();
            let is_flagged = |clock: &usize| guard.alignment(ClockIndex::new(*clock)) == Alignment::Disagrees;
            if let Some(clock) = (0..4).filter(|clock| present[*clock]).find(is_flagged) {
                return Some((event, clock));
            }
        }
        None
    }
}

/// Returns the runs in which a healthy clock is flagged, by the builder that began or by one that
/// joined.
fn flagged(are_equal: bool) -> Vec<(u64, &'static str, (u64, usize))> {
    let mut flagged = Vec::new();
    for seed in 0..1000 {
        let mut boards = Boards::new(seed, are_equal);
        let mut guard = boards.guard();
        flagged.extend(boards.run(&mut guard, 1..400).map(|at| (seed, "first", at)));
        let all = (1..).map(SourceId::new).zip(boards.clocks.iter().copied()).collect();
        let clocks = GuardedClocks { clocks: all, lead: Some(ClockIndex::new(0)), host_times: false };
        let mut joined = boards.guard();
        joined.resume(&survey_of(&guard.survey().message(), &clocks).unwrap());
        flagged.extend(boards.run(&mut joined, 400..800).map(|at| (seed, "joined", at)));
    }
    flagged
}

#[test]
fn a_clock_is_as_uncertain_as_the_one_that_becomes_the_lead() {
    let flagged = flagged(true);
    assert!(flagged.is_empty(), "{}: {flagged:?}", flagged.len());
}

#[test]
fn a_lead_may_be_less_precise_than_the_one_for_which_clocks_are_declared() {
    let flagged = flagged(false);
    assert!(flagged.is_empty(), "{}: {flagged:?}", flagged.len());
}

/// Lets a board miss a trigger, and returns the first event and clock that are flagged wrongly. The
/// lead ends before that if `lead_ends`.
fn wrongly_flagged(seed: u64, are_equal: bool, slipped: usize, lead_ends: bool) -> Option<(u64, usize)> {
    let mut boards = Boards::new(seed, are_equal);
    let mut guard = boards.guard();
    let widest = boards.clocks.iter().map(|clock| clock.tolerance.as_nanos()).max().unwrap_or(0) as f64;
    let interval = (20.0 * widest).max(1e6 * boards.interval);
    for event in 1..=3000 {
        let is_late = |clock: usize| clock == slipped && event >= 2000;
        let readings: [_; 4] = core::array::from_fn(|clock| {
            let nanos = (event + u64::from(is_late(clock))) as f64 * interval;
            (clock > 0 || event < 1000 || !lead_ends).then(|| boards.read(clock, nanos))
        });
        guard.observe(EventId::new(event), Instant::ZERO, &readings);
        guard.invariants();
        let is_flagged = |clock: usize| guard.alignment(ClockIndex::new(clock)) == Alignment::Disagrees;
        if let Some(clock) = (0..4).find(|clock| is_flagged(*clock) != is_late(*clock)) {
            return Some((event, clock));
        }
    }
    None
}

#[test]
fn a_slip_is_flagged_at_its_first_event_after_the_lead_has_changed() {
    for seed in 0..100 {
        assert_eq!(wrongly_flagged(seed, true, 3, true), None, "{seed}");
    }
}

#[test]
fn a_slip_of_the_lead_accuses_no_clock_that_is_more_precise_than_the_judge() {
    for seed in 0..100 {
        assert_eq!(wrongly_flagged(seed, false, 0, false), None, "{seed}");
    }
}
