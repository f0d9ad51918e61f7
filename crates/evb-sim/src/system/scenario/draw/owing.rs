//! Draws which sources are expendable, and which are excluded for some time. These draws have a
//! generator of their own, so that they change no other.

use evb_core::{id::SourceId, rng::Rng};

use super::{Chance, Fault, Planned, Scenario, millis};

/// Lets some sources be expendable in a third of the scenarios, and plans exclusions in another
/// third. Scenarios in which a board slips have neither: a slip is judged by all fragments around
/// it.
pub(super) fn draw(scenario: &mut Scenario) {
    if scenario.boards.as_ref().is_some_and(|boards| boards.slip.is_some()) {
        return;
    }
    let chance = &mut Chance(Rng::new(scenario.seed ^ 0x6F77_696E_6721_2121));
    if scenario.sources > 1 && chance.percent(33) {
        let kept = chance.between(1, scenario.sources.into()) as u16;
        let others = (1..=scenario.sources).filter(|id| *id != kept && chance.percent(60));
        scenario.expendable = others.map(SourceId::new).collect();
    }
    if !chance.percent(33) {
        return;
    }
    for run in 0..scenario.runs {
        for _ in 0..chance.between(0, 3) {
            let source = SourceId::new(chance.between(1, scenario.sources.into()) as u16);
            let ahead = chance.of(&[0, 0, 1, 3, 40]);
            let fault = Fault::Exclude { source, ahead, back: chance.duration(10, 6000) };
            let at = millis(chance.between(0, scenario.stop_after.as_millis() as u64 + 1000));
            scenario.faults.push(Planned { at, run, fault });
        }
    }
    scenario.faults.sort_by_key(|planned| (planned.run, planned.at));
}
