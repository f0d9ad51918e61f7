//! Formats a table of the stages of a run.

use super::{
    course::{Played, Span},
    stage::Pressure,
};

/// Formats a line for each stage. The columns *sources* and *builders* show the smallest share of
/// its undisturbed rate that a host of this role has kept, without the disturbed host.
pub(super) fn show(played: &[Played]) -> String {
    let mut text = format!(
        "{:<26} {:>5} {:>5} {:>7} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7}  {}\n",
        "stage", "s", "load", "ev/s", "sources", "builders", "victim", "incomp", "dead", "blamed", "on"
    );
    for one in played {
        let calm = calm(played, one);
        let steady = &one.steady;
        // A frozen source causes dead time only until the supervisor declares it lost, which is in
        // the first part of the stage.
        let blame = if one.stage.pressure == Pressure::FrozenSource { &one.first } else { steady };
        let culprits = one.stage.culprits();
        let kept = |role: char| {
            let victim = one.stage.victim().filter(|victim| victim.starts_with(role));
            steady.least_kept(calm, role, victim)
        };
        let victim = one.stage.victim().map_or(f64::NAN, |victim| steady.rate(victim) / calm.rate(victim));
        text += &format!(
            "{:<26} {:>5.0} {:>5} {:>7.1} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7}  {}\n",
            one.stage.name,
            one.first.seconds + steady.seconds,
            percent(one.stage.load),
            steady.built_per_s(),
            percent(kept('s')),
            percent(kept('b')),
            percent(victim),
            steady.events("incomplete") + one.first.events("incomplete"),
            percent(steady.dead_time()),
            percent(if culprits.is_empty() {
                f64::NAN
            } else {
                blame.blamed(culprits) / blame.events("inhibited")
            }),
            if culprits.len() > 1 { "sinks" } else { culprits.first().copied().unwrap_or("") },
        );
    }
    text
}

fn calm<'a>(played: &'a [Played], of: &'a Played) -> &'a Span {
    let is_calm = |one: &&Played| one.stage.pressure == Pressure::Nothing && one.stage.load == of.stage.load;
    &played.iter().find(is_calm).unwrap_or(of).steady
}

fn percent(share: f64) -> String {
    if share.is_nan() { String::new() } else { format!("{:.1}%", share * 100.0) }
}
