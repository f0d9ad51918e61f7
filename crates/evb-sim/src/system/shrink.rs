//! Reduction of a failing scenario, as far as the same check still fails.

use core::time::Duration;

use super::{Outcome, failure::Check, run, scenario::Scenario};

/// The most scenarios that are tried.
const TRIES: usize = 200;

/// Returns the smallest scenario that was found in which the same check fails, and what comes of
/// it.
pub fn shrink(scenario: &Scenario, check: Check) -> (Scenario, Option<Outcome>) {
    let (mut best, mut outcome) = (scenario.clone(), None);
    let mut left = TRIES;
    loop {
        let before = best.clone();
        for smaller in candidates(&before) {
            let Some(now_left) = left.checked_sub(1) else { return (best, outcome) };
            left = now_left;
            let tried = run(&smaller, false);
            if tried.failure.as_ref().is_some_and(|failure| failure.check == check) {
                (best, outcome) = (smaller, Some(tried));
                break;
            }
        }
        if best == before {
            return (best, outcome);
        }
    }
}

/// Returns smaller scenarios, the largest steps first.
fn candidates(scenario: &Scenario) -> Vec<Scenario> {
    let mut smaller = Vec::new();
    let mut add = |change: &dyn Fn(&mut Scenario)| {
        let mut changed = scenario.clone();
        change(&mut changed);
        if changed != *scenario {
            smaller.push(changed);
        }
    };
    add(&|scenario| {
        scenario.runs = 1;
        scenario.faults.retain(|planned| planned.run == 0);
    });
    for index in 0..scenario.faults.len() {
        add(&|scenario| {
            scenario.faults.remove(index);
        });
    }
    add(&|scenario| {
        scenario.weather = super::Weather::steady(scenario.weather.latency, scenario.weather.bandwidth)
    });
    add(&|scenario| scenario.stop_after = halved(scenario.stop_after));
    for index in 0..scenario.faults.len() {
        add(&|scenario| {
            let planned = &mut scenario.faults[index];
            planned.fault = planned.fault.lasting(halved(planned.fault.length()));
        });
    }
    add(&|scenario| scenario.filter = 0);
    add(&|scenario| scenario.run_length = 1);
    smaller
}

/// Returns half of a duration, in whole milliseconds; short ones stay.
fn halved(duration: Duration) -> Duration {
    match duration.as_millis() {
        0..200 => duration,
        millis => Duration::from_millis(millis as u64 / 2),
    }
}
