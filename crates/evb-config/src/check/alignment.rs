//! The timestamps that are compared, the clock that counts time, and what the comparison cannot
//! see.

#[cfg(test)]
mod tests;

use evb_core::{
    alignment::DetectorClock,
    id::{Peer, SourceId},
    quantities::counted,
};
use serde_json::{Value, json};

use crate::{
    Config, OnSlip, TriggerConfig,
    alignment::{YEAR, clocks, made_timestamps, mean_interval, seconds},
    roles_in_words,
};

/// Returns the rows of the page's head; none if no source has a clock.
pub(super) fn rows(config: &Config) -> Vec<(&'static str, String)> {
    let clocks = clocks(config);
    let lead = config.alignment().lead;
    let Some((lead, clock)) = clocks.iter().find(|(id, _)| Some(*id) == lead) else { return Vec::new() };
    if clocks.len() == 1 {
        return vec![(
            "alignment",
            format!("not compared: only source {lead} has a clock, and a comparison needs two"),
        )];
    }
    let mut rows = vec![format!(
        "the timestamps of {} of {} are compared; source {lead} counts time: {}, {}",
        clocks.len(),
        counted(config.sources.len(), "source"),
        clock.rate,
        match clock.wrap_seconds() {
            wrap if wrap >= 100.0 * YEAR => "never wraps".to_owned(),
            wrap => format!("wraps after {}", seconds(wrap)),
        }
    )];
    match config.alignment.on_slip {
        OnSlip::Report => {}
        OnSlip::Pause => rows.push("a source that slips pauses the run".to_owned()),
        OnSlip::Stop => rows.push("a source that slips ends the run".to_owned()),
    }
    rows.extend(unseen(config, &clocks).into_iter().map(|what| format!("it does not show {what}")));
    let names = [&["alignment"][..], &[""; 8]].concat();
    names.into_iter().zip(rows).collect()
}

/// Returns what the comparison cannot see.
fn unseen(config: &Config, clocks: &[(SourceId, DetectorClock)]) -> Vec<String> {
    let mut unseen = Vec::new();
    let made = made_timestamps(config);
    let before = "a slip before the first event";
    match &config.supervisor.trigger {
        _ if made.generated => {}
        TriggerConfig::Periodic { .. } if !made.replayed => unseen.push(format!(
            "{before}, because the triggers are periodic and the offsets of the clocks not known"
        )),
        TriggerConfig::Poisson { .. } if !made.replayed => {}
        _ => unseen.push(format!("{before}, if the triggers are periodic")),
    }
    if clocks.len() == 2 {
        unseen.push("which of the two slipped; a third clock would tell".to_owned());
    }
    if let Some(interval) = mean_interval(config)
        && let Some(tolerance) =
            clocks.iter().map(|(_, clock)| clock.tolerance.as_secs_f64()).reduce(f64::max)
        && tolerance > interval / 4.0
    {
        unseen.push(format!(
            "most slips, because a tolerance of {} is too long for events {} apart: lower it",
            seconds(tolerance),
            seconds(interval)
        ));
    }
    let without: Vec<Peer> = sources_without(config).map(Peer::Source).collect();
    if !without.is_empty() {
        unseen.push(format!("slips of {}, which have no `clock`", roles_in_words(&without)));
    }
    unseen
}

fn sources_without(config: &Config) -> impl Iterator<Item = SourceId> {
    config.sources.iter().filter(|source| source.clock.is_none()).map(|source| source.id)
}

/// Returns the comparison as JSON; `null` if fewer than two sources have a clock.
pub(super) fn json(config: &Config) -> Value {
    let (clocks, rules) = (clocks(config), config.alignment());
    let Some((lead, clock)) = clocks.iter().find(|(id, _)| Some(*id) == rules.lead) else {
        return Value::Null;
    };
    if clocks.len() == 1 {
        return Value::Null;
    }
    json!({
        "compared": clocks.iter().map(|(id, _)| id.number()).collect::<Vec<_>>(),
        "lead": lead.number(),
        "lead_wrap_s": clock.wrap_seconds(),
        "uses_host_times": rules.uses_host_times,
        "on_slip": match rules.on_slip {
            OnSlip::Report => "report",
            OnSlip::Pause => "pause",
            OnSlip::Stop => "stop",
        },
        "unseen": unseen(config, &clocks),
        "without_clock": sources_without(config).map(|id| id.number()).collect::<Vec<_>>(),
    })
}
