//! Draws which sources are expendable, and which are excluded for some time. These draws have a
//! generator of their own, so that they change no other.

use std::collections::BTreeSet;

use evb_core::{id::SourceId, rng::Rng, supervisor::Group};

use super::{Chance, Fault, Planned, Scenario, millis};

/// Lets some sources be expendable in a third of the scenarios, plans exclusions in another third,
/// lets one source be sporadic in a fifth, and requires a least number of sources of a group in a
/// quarter. Scenarios in which a board slips have none of these: a slip is judged by all fragments
/// around it.
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
    exclusions(scenario, chance);
    if scenario.sources > 1 && chance.percent(20) {
        let owes = |id: &SourceId| !scenario.expendable.contains(id);
        let owing: Vec<SourceId> = (1..=scenario.sources).map(SourceId::new).filter(owes).collect();
        if owing.len() > 1 {
            let sporadic = owing[chance.between(0, owing.len() as u64 - 1) as usize];
            scenario.sporadic.insert(sporadic, chance.of(&[millis(0), millis(3), millis(50)]));
        }
    }
    if chance.percent(25) {
        let members = (1..=scenario.sources).filter(|_| chance.percent(70)).map(SourceId::new);
        let sources: BTreeSet<SourceId> = members.collect();
        let at_least = (sources.len() as u64).saturating_sub(chance.between(0, 2)) as u32;
        scenario.groups.push(Group { name: "group".to_owned(), sources, at_least });
    }
}

fn exclusions(scenario: &mut Scenario, chance: &mut Chance) {
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
