//! The first lines of `evbd check` and `evbd plan`: what the system is, the event rate to expect
//! and what limits it, and the memory.

#[cfg(test)]
mod tests;

use evb_core::{
    quantities::{counted, size},
    units::Bytes,
};

use super::{
    alignment,
    frames::frames,
    hooks::hooks,
    planned::{stages, unfilled_ports},
    tables::significant,
};
use crate::{
    Config, TriggerConfig,
    admission::{Planning, Sums},
};

/// Formats the sums that matter most, in a few lines, and the stages of the time from a grant to
/// its data, if they were measured; then the layouts of the frames of boards, and what is done at
/// the boundaries of a run.
pub fn head(config: &Config, sums: &Sums, planning: &Planning) -> String {
    let mut rows = vec![("system", system(config, sums)), ("rate", rate(planning))];
    rows.extend(unfilled_ports(planning).into_iter().map(|advice| ("", advice)));
    rows.push(("memory", memory(sums)));
    rows.extend(alignment::rows(config));
    if let Some(unchecked) = unchecked(config, sums) {
        rows.push(("unchecked", unchecked));
    }
    let lines: String = rows.iter().map(|(name, text)| format!("{name:<10} {text}\n")).collect();
    lines + &stages(planning) + &frames(config) + &hooks(config)
}

/// Describes the system in a line.
fn system(config: &Config, sums: &Sums) -> String {
    let roles =
        format!("{}, {}", counted(config.sources.len(), "source"), counted(config.builders.len(), "builder"));
    let fragments = counted(sums.event.fragments, "fragment");
    match sums.event.payload {
        Some(payload) => format!("{roles}; events of {fragments}, {} on average", size(payload)),
        None => format!("{roles}; events of {fragments}, whose sizes depend on the inputs of sources"),
    }
}

/// Returns the expected rate with what limits it, and the next limit.
fn rate(planning: &Planning) -> String {
    match planning.bounds.as_slice() {
        [] => {
            "not known before the run, as it follows from the triggers and the sizes of the fragments: nothing needs to be done".to_owned()
        }
        [first, others @ ..] => {
            let next = others.first().map_or_else(String::new, |next| {
                format!("; next limit: {}, {} events/s", next.resource, significant(next.events_per_s))
            });
            format!(
                "{} events/s expected, limited by {}{next}",
                significant(first.events_per_s),
                first.resource
            )
        }
    }
}

/// Returns the largest needs of memory of a builder and of a source.
fn memory(sums: &Sums) -> String {
    let builder = sums.memory.iter().map(|sum| sum.needed).max().unwrap_or(Bytes::ZERO);
    let source = sums.source_memory.iter().map(|(_, needed)| *needed).max().unwrap_or(Bytes::ZERO);
    let limit = sums.memory.iter().filter_map(|sum| sum.limit).min();
    let limit = limit.map_or_else(String::new, |limit| format!(" (it may use {})", size(limit)));
    format!("a builder needs at most {}{limit}, a source {}", size(builder), size(source))
}

/// Returns the admission rules that cannot be applied, because the configuration does not state the
/// network, or because the load depends on triggers and inputs.
fn unchecked(config: &Config, sums: &Sums) -> Option<String> {
    let network = &config.network;
    let unknown = match (sums.event.payload, &config.supervisor.trigger) {
        (None, TriggerConfig::External { .. } | TriggerConfig::Multicast(_)) => "rate and sizes depend",
        (None, _) => "the sizes of the fragments depend",
        (Some(_), TriggerConfig::External { .. } | TriggerConfig::Multicast(_)) => "the rate depends",
        (Some(_), _) => "",
    };
    match (network.link_rate, network.port_buffer) {
        (Some(_), Some(_)) if unknown.is_empty() => None,
        (Some(_), Some(_)) => Some(format!(
            "whether links carry the load: {unknown} on your triggers and readout; `evbd plan` calculates with numbers that you state"
        )),
        (None, _) => {
            Some("whether links carry the load and ports hold it: state `link_rate` and `port_buffer` in [network]".to_owned())
        }
        (Some(_), None) => Some("whether ports hold the load: state `port_buffer` in [network]".to_owned()),
    }
}
