//! The sums of planning: the bytes that collect in a port's buffer, the part of a link that a
//! budget fills, and the resource that limits the event rate.
//!
//! These sums show how near a configuration is to its limits; the module `rules` refuses
//! configurations that exceed them. The formulas are those of [`evb_shaper::sums`].

use std::time::Duration;

use evb_core::{
    quantities,
    units::{Bytes, Rate},
};
use evb_shaper::{
    ByteMeasure,
    sums::{
        drain_time, full_budget, incast_buffer, largest_window, most_windows, overload_buffer, utilisation,
    },
};

use super::{
    fast_host::{FastHost, fast_host},
    nodes::NodeSum,
    paths::GrantPaths,
    sums::{PortSum, Sums},
};
use crate::{Config, ShapingMode};

/// Time for an event that supervisor, builder and sink spend in addition to the network, on timers,
/// batches and task switches. On a host that is not overloaded, an event takes at most this time.
pub const HANDLING: Duration = Duration::from_millis(1);

/// The expectations for a run of a configuration: the bytes that meet at each switch port, the part
/// of the port's rate that the shaping mode can use, and the event rate that each resource permits.
#[derive(Clone, Debug, PartialEq)]
pub struct Planning {
    /// Times from a grant to its data for which the sums are computed.
    pub paths: GrantPaths,
    /// Sums of each switch port; empty if the link rate is unknown.
    pub ports: Vec<PortPlanning>,
    /// Upper limits of the event rate, the lowest first.
    pub bounds: Vec<Bound>,
}

/// The expectations for one switch port. Bytes are buffer bytes, except for those of [`FastHost`].
#[derive(Clone, Debug, PartialEq)]
pub struct PortPlanning {
    /// Name of the port.
    pub name: String,
    /// (N−1)·ℓ·Δt: the bytes that the port must buffer when all N sources send a mean fragment at
    /// the same time over links of rate ℓ. Δt is the duration of a fragment on its link. `None` if
    /// the mean size of the fragments is unknown.
    pub incast: Option<Bytes>,
    /// (Y−X)·Δt: the bytes that the port must buffer for one event when data arrive at rate Y,
    /// which follows from the configured links and paces, and leave at rate X. Fragments of sources
    /// that share a link arrive one after the other. `None` if the mean size of the fragments is
    /// unknown.
    pub overload: Option<Bytes>,
    /// Sums of a source whose link is faster or slower than the way to the port; `None` if none is.
    pub fast_host: Option<FastHost>,
    /// Time in which the full buffer of the port empties. If the budget exceeds the buffer, the
    /// time from a grant to its data may vary by at most this much without an overflow. `None` if
    /// the size of the buffer is unknown.
    pub buffer_drain: Option<Duration>,
    /// Bytes that may be under way to the port: the budget, or the sum of all windows. `None`: the
    /// bytes under way are not limited.
    pub outstanding: Option<Bytes>,
    /// Longest time from a grant to its data for which the bytes under way keep the link busy;
    /// `None` if they are not limited.
    pub full_up_to: Option<Duration>,
    /// Part of the port's rate C that L bytes under way can use, min(1, L/(C·R)), for each time R
    /// from a grant to its data; 1 if the bytes under way are not limited.
    pub utilisation: Vec<f64>,
    /// Number of bytes under way that would keep the link busy, for each time R from a grant to its
    /// data.
    pub full_budget: Vec<Bytes>,
    /// The largest window of each lane for which the windows of all lanes fit into the buffer;
    /// `None` if this is less than a packet, or if the size of the buffer is unknown.
    pub largest_window: Option<Bytes>,
    /// Number of lanes whose configured windows fit into the buffer together; `None` if its size is
    /// unknown.
    pub most_windows: Option<u64>,
}

/// A resource and the largest event rate that it permits.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Name of the resource, in words.
    pub resource: String,
    /// Largest rate of events in the whole system, per second.
    pub events_per_s: f64,
}

/// Computes the expectations for a run of a configuration. The limits of the event rate hold for
/// the longest of the times from a grant to its data in `paths`.
pub fn planning(config: &Config, sums: &Sums, paths: &GrantPaths) -> Planning {
    let port = |port: &PortSum| Some(port_planning(config, sums, port, port.rate?, paths.times()));
    let ports: Option<Vec<PortPlanning>> = sums.ports.iter().map(port).collect();
    let ports = ports.unwrap_or_default();
    let mut bounds = bounds(config, sums, &ports, paths);
    bounds.sort_by(|a, b| a.events_per_s.total_cmp(&b.events_per_s));
    Planning { paths: paths.clone(), ports, bounds }
}

/// Converts a line rate to the rate of the L2 frames on the line, if all packets are full.
fn in_frames(config: &Config, rate: Rate) -> Rate {
    config.cost().rate_in(rate, ByteMeasure::Line, ByteMeasure::Buffer)
}

/// Computes what a port has to bear and how well it is filled, for each of the `times` from a grant
/// to its data.
fn port_planning(
    config: &Config,
    sums: &Sums,
    port: &PortSum,
    link: Rate,
    times: &[Duration],
) -> PortPlanning {
    let cost = config.cost();
    let frames = in_frames(config, link);
    let sources = config.sources.len() as u64;
    let lanes = sources * port.builders.len() as u64;
    let buffer = config.network.port_buffer;
    let incast =
        sums.event.burst.map(|event| incast_buffer(sources, frames, event / sources.max(1) / frames));
    let outstanding = outstanding(config, port);
    let of_each = |value: &dyn Fn(Duration) -> f64| times.iter().map(|time| value(*time)).collect();
    PortPlanning {
        name: port.name.clone(),
        incast,
        overload: sums.event.burst.map(|event| {
            let inflow = inflow(config, sums, port, frames);
            overload_buffer(inflow, frames, event / inflow)
        }),
        fast_host: fast_host(sums, port, times),
        buffer_drain: buffer.map(|buffer| drain_time(buffer, frames)),
        outstanding,
        full_up_to: outstanding.map(|held| held / frames),
        utilisation: of_each(&|time| outstanding.map_or(1.0, |held| utilisation(held, frames, time))),
        full_budget: times.iter().map(|time| full_budget(frames, *time)).collect(),
        largest_window: buffer.and_then(|buffer| largest_window(buffer, lanes, &cost)),
        most_windows: buffer.map(|buffer| most_windows(buffer, config.shaping.window, &cost)),
    }
}

/// Returns Y, the rate at which data can arrive at the port: the rate of all source links together,
/// or that of the lanes' paces if it is lower.
fn inflow(config: &Config, sums: &Sums, port: &PortSum, frames: Rate) -> Rate {
    // Trunks on the way let through no more than their rate.
    let above = |node: &NodeSum| node.parent.and_then(|parent| sums.nodes.get(parent));
    let trunk = port.trunk.and_then(|trunk| sums.nodes.get(trunk));
    let trunks = core::iter::successors(trunk, |node| above(node)).filter_map(|node| node.rate).min();
    let all: Option<Vec<u64>> =
        sums.uplinks.iter().map(|uplink| uplink.rate.map(Rate::bits_per_second)).collect();
    let links = all.map_or(frames * sums.uplinks.len() as u64, |all| {
        in_frames(config, Rate::from_bits_per_second(all.into_iter().fold(0, u64::saturating_add)))
    });
    let links = trunks.map_or(links, |trunk| in_frames(config, trunk).min(links));
    let paced = port.paced.filter(|_| config.is_paced()).map(|paced| in_frames(config, paced));
    paced.map_or(links, |paced| paced.min(links))
}

/// Returns the bytes that the shaping mode permits to be under way to a port.
fn outstanding(config: &Config, port: &PortSum) -> Option<Bytes> {
    match config.shaping.mode {
        ShapingMode::Credit => Some(port.budget),
        ShapingMode::Window => Some(port.windows),
        ShapingMode::TokenBucket | ShapingMode::None => None,
    }
}

/// Returns the rates of events that each resource permits; the smallest one limits the system.
fn bounds(config: &Config, sums: &Sums, ports: &[PortPlanning], paths: &GrantPaths) -> Vec<Bound> {
    let mut bounds = Vec::new();
    let mut add = |resource: String, events_per_s: Option<f64>| {
        bounds.extend(events_per_s.map(|events_per_s| Bound { resource, events_per_s }));
    };
    add("the trigger".to_owned(), sums.asked);
    let Some(line) = sums.event.line else { return bounds };
    let builders = config.builders.len() as f64;
    // All builders get the same number of events, so that the port with the most builders carries
    // the most data.
    let events = |rate: Rate, port: &PortSum| {
        rate.bytes_per_second() / line.count() as f64 * builders / port.builders.len() as f64
    };
    let (longest, time) =
        paths.times().iter().copied().enumerate().max_by_key(|(_, time)| *time).unwrap_or_default();
    let narrowest = |of: &dyn Fn(usize, &PortSum) -> Option<f64>| {
        let each = sums.ports.iter().enumerate().filter_map(|(index, port)| Some((of(index, port)?, port)));
        each.min_by(|(one, _), (other, _)| one.total_cmp(other))
    };
    let named = |found: Option<(f64, &PortSum)>, what: &str| {
        found.map(|(events, port)| (format!("{what} {}", port.name), events))
    };
    let slowest = sums.ports.iter().filter_map(|port| port.rate).min();
    let candidates = [
        named(narrowest(&|_, port| Some(events(port.rate?, port))), "the link to"),
        named(
            narrowest(&|_, port| port.paced.filter(|_| config.is_paced()).map(|paced| events(paced, port))),
            "the `rate` of the lanes (source to builder) to",
        ),
        named(
            narrowest(&|index, port| {
                let part = *ports.get(index)?.utilisation.get(longest)?;
                (part < 1.0).then_some(events(port.rate?, port) * part)
            }),
            &format!("{} and {time:?} from a builder's request (grant) to its data at", what_is_held(config)),
        ),
        uplink_bound(sums),
        trunk_bound(sums),
        held_in_trunk(config, sums, time),
        slowest.map(|link| slots_bound(config, line / link, time)),
    ];
    for (resource, events) in candidates.into_iter().flatten() {
        add(resource, Some(events));
    }
    bounds
}

fn what_is_held(config: &Config) -> &'static str {
    if config.shaping.mode == ShapingMode::Window { "the windows" } else { "the budget" }
}

/// Returns the event rate that the busiest source link permits; each source sends a fragment of
/// every event.
fn uplink_bound(sums: &Sums) -> Option<(String, f64)> {
    let each = sums.uplinks.iter().filter_map(|uplink| Some((uplink.carried()?, uplink)));
    let (events, uplink) = each.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    Some((format!("the link from {}", uplink.name), events))
}

/// Returns the event rate that the narrowest trunk permits.
fn trunk_bound(sums: &Sums) -> Option<(String, f64)> {
    let each = sums.nodes.iter().filter_map(|node| Some((node.narrowest()?.0, node)));
    let (events, node) = each.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    Some((format!("the {}", node.in_words()), events))
}

/// Returns the event rate that the bytes under way through a trunk permit, if they do not fill it.
fn held_in_trunk(config: &Config, sums: &Sums, time: Duration) -> Option<(String, f64)> {
    if !matches!(config.shaping.mode, ShapingMode::Credit | ShapingMode::Window) {
        return None;
    }
    let each = sums.nodes.iter().flat_map(|node| {
        node.queues.iter().filter_map(move |queue| {
            let held = queue.under_way(config.shaping.mode)?;
            let part = utilisation(held, in_frames(config, node.rate?), time);
            (part < 1.0).then_some((queue.carried? * part, node))
        })
    });
    let (events, node) = each.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    let held = what_is_held(config);
    Some((
        format!("{held} and {time:?} from a builder's request (grant) to its data at {}", node.in_words()),
        events,
    ))
}

/// Returns the event rate that the slots permit, by Little's law: the number of slots divided by
/// the time for which an event occupies a slot.
fn slots_bound(config: &Config, event: Duration, path: Duration) -> (String, f64) {
    let slots = f64::from(config.slots()) * config.builders.len() as f64;
    let held = event + path * 2 + HANDLING;
    let resource = format!(
        "slots = {} (the events that a builder may hold at once, each for {})",
        config.slots(),
        quantities::time(held)
    );
    (resource, slots / held.as_secs_f64())
}

#[cfg(test)]
mod tests;
