//! Reduces a failing scenario to a smaller one in which the same check still fails.

use core::time::Duration;

use super::{Outcome, failure::Check, run, scenario::Scenario};

/// Largest number of scenarios that are tried.
const TRIES: usize = 200;

/// Returns the smallest scenario found in which `check` still fails, and the outcome of simulating
/// it; `None` if no smaller one was found.
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

/// Returns scenarios that are smaller than the given one, those with the largest reduction first.
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
        scenario.weather = super::Conditions::steady(scenario.weather.latency, scenario.weather.bandwidth)
    });
    add(&|scenario| scenario.stop_after = halved(scenario.stop_after));
    for index in 0..scenario.faults.len() {
        add(&|scenario| {
            let planned = &mut scenario.faults[index];
            planned.fault = planned.fault.lasting(halved(planned.fault.length()));
        });
    }
    add(&|scenario| scenario.boards = None);
    add(&|scenario| scenario.is_torn = false);
    add(&|scenario| scenario.run_control = None);
    add(&|scenario| scenario.filter = 0);
    add(&|scenario| scenario.run_length = 1);
    smaller
}

/// Returns half of a duration, in whole milliseconds; a duration below 200 ms is returned
/// unchanged.
fn halved(duration: Duration) -> Duration {
    match duration.as_millis() {
        0..200 => duration,
        millis => Duration::from_millis(millis as u64 / 2),
    }
}
