//! The sums of planning: the bytes that meet in a port, the part of a link that a budget fills, and
//! the resource that bounds the rate.
//!
//! They tell how near a configuration is to its limits. Refusing is left to the rules. The formulas
//! are those of [`evb_shaper::sums`].

use std::time::Duration;

use evb_core::units::{Bytes, Rate};
use evb_shaper::{
    ByteMeasure,
    sums::{
        drain_time, full_budget, incast_buffer, largest_window, most_windows, overload_buffer, utilisation,
    },
};

use super::{
    paths::GrantPaths,
    sums::{PortSum, Sums, line_of},
};
use crate::{Config, ShapingMode};

/// Time that a supervisor, its builders and their sinks take for an event besides the network, at
/// most on a host that is not overloaded: timers, batches, turns of tasks.
pub const HANDLING: Duration = Duration::from_millis(1);

/// All sums of planning.
#[derive(Clone, Debug, PartialEq)]
pub struct Planning {
    /// Times from a grant to its data that the sums are for.
    pub paths: GrantPaths,
    /// Sums of each port, where link and sizes are known.
    pub ports: Vec<PortPlanning>,
    /// Bounds of the event rate, the narrowest first.
    pub bounds: Vec<Bound>,
}

/// One port's sums, all in buffer bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct PortPlanning {
    /// Name of the port.
    pub name: String,
    /// (N−1)·ℓ·Δt: bytes that the port must hold when all sources answer at once with a mean
    /// fragment each.
    pub incast: Option<Bytes>,
    /// (Y−X)·Δt: the same for the actual links and paces; sources that share a link come one after
    /// the other.
    pub overload: Option<Bytes>,
    /// Time in which the full buffer empties. With a budget beyond the buffer, the grant path may
    /// vary by as much.
    pub buffer_drain: Option<Duration>,
    /// Bytes that may be under way to it: the budget, or all windows. `None`: they are not limited.
    pub outstanding: Option<Bytes>,
    /// Longest time from a grant to its data for which these bytes fill the link.
    pub full_up_to: Option<Duration>,
    /// min(1, L/(C·R)) for each R of the grant paths.
    pub utilisation: Vec<f64>,
    /// Bytes under way that would fill the link, for each R of the grant paths.
    pub full_budget: Vec<Bytes>,
    /// The largest window of each lane that the buffer can hold; `None`: less than a packet.
    pub largest_window: Option<Bytes>,
    /// Number of lanes with the configured window that the buffer can hold.
    pub most_windows: Option<u64>,
}

/// A resource and the event rate that it allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Name of the resource, in words.
    pub resource: String,
    /// Events per second of the whole system.
    pub events_per_s: f64,
}

/// Computes all sums. The expected rate is that for the longest of the paths.
pub fn planning(config: &Config, sums: &Sums, paths: &GrantPaths) -> Planning {
    let ports = match config.network.link_rate {
        Some(link) => {
            sums.ports.iter().map(|port| port_planning(config, sums, port, link, paths.times())).collect()
        }
        None => Vec::new(),
    };
    let mut bounds = bounds(config, sums, &ports, paths);
    bounds.sort_by(|a, b| a.events_per_s.total_cmp(&b.events_per_s));
    Planning { paths: paths.clone(), ports, bounds }
}

/// Converts a line rate to the rate of the L2 frames in it, for full packets.
fn in_frames(config: &Config, rate: Rate) -> Rate {
    config.cost().rate_in(rate, ByteMeasure::Line, ByteMeasure::Buffer)
}

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
    let of_each = |of: &dyn Fn(Duration) -> f64| times.iter().map(|time| of(*time)).collect();
    PortPlanning {
        name: port.name.clone(),
        incast,
        overload: sums.event.burst.map(|event| {
            let inflow = inflow(config, sums, port, frames);
            overload_buffer(inflow, frames, event / inflow)
        }),
        buffer_drain: buffer.map(|buffer| drain_time(buffer, frames)),
        outstanding,
        full_up_to: outstanding.map(|held| held / frames),
        utilisation: of_each(&|time| outstanding.map_or(1.0, |held| utilisation(held, frames, time))),
        full_budget: times.iter().map(|time| full_budget(frames, *time)).collect(),
        largest_window: buffer.and_then(|buffer| largest_window(buffer, lanes, &cost)),
        most_windows: buffer.map(|buffer| most_windows(buffer, config.shaping.window, &cost)),
    }
}

/// Returns Y: the rate of the links that lead to the port, or of the lanes' paces if that is less.
fn inflow(config: &Config, sums: &Sums, port: &PortSum, frames: Rate) -> Rate {
    let links = frames * sums.uplinks.len() as u64;
    let paced = port.paced.filter(|_| config.is_paced()).map(|paced| in_frames(config, paced));
    paced.map_or(links, |paced| paced.min(links))
}

/// Returns the bytes that the mode lets be under way.
fn outstanding(config: &Config, port: &PortSum) -> Option<Bytes> {
    match config.shaping.mode {
        ShapingMode::Credit => Some(port.budget),
        ShapingMode::Window => Some(port.windows),
        ShapingMode::TokenBucket | ShapingMode::None => None,
    }
}

fn bounds(config: &Config, sums: &Sums, ports: &[PortPlanning], paths: &GrantPaths) -> Vec<Bound> {
    let mut bounds = Vec::new();
    let mut add = |resource: String, events_per_s: Option<f64>| {
        bounds.extend(events_per_s.map(|events_per_s| Bound { resource, events_per_s }));
    };
    add("the trigger".to_owned(), sums.asked);
    let (Some(link), Some(line)) = (config.network.link_rate, sums.event.line) else { return bounds };
    let builders = config.builders.len() as f64;
    // Events are dealt out evenly, so that the port with the most builders carries the most.
    let events = |rate: Rate, port: &PortSum| {
        rate.bytes_per_second() / line.count() as f64 * builders / port.builders.len() as f64
    };
    let (longest, time) =
        paths.times().iter().copied().enumerate().max_by_key(|(_, time)| *time).unwrap_or_default();
    let narrowest = |of: &dyn Fn(usize, &PortSum) -> Option<f64>| {
        let each = sums.ports.iter().enumerate().filter_map(|(index, port)| Some((of(index, port)?, port)));
        each.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let named = |found: Option<(f64, &PortSum)>, what: &str| {
        found.map(|(events, port)| (format!("{what} {}", port.name), events))
    };
    let candidates = [
        named(narrowest(&|_, port| Some(events(link, port))), "the link to"),
        named(
            narrowest(&|_, port| port.paced.filter(|_| config.is_paced()).map(|paced| events(paced, port))),
            "the paces to",
        ),
        named(
            narrowest(&|index, port| {
                let part = *ports.get(index)?.utilisation.get(longest)?;
                (part < 1.0).then(|| events(link, port) * part)
            }),
            &format!("{} and {time:?} from a grant to its data at", what_is_held(config)),
        ),
        uplink_bound(config, sums, link),
        Some(slots_bound(config, line / link, time)),
    ];
    for (resource, events) in candidates.into_iter().flatten() {
        add(resource, Some(events));
    }
    bounds
}

fn what_is_held(config: &Config) -> &'static str {
    if config.shaping.mode == ShapingMode::Window { "the windows" } else { "the budget" }
}

/// Returns the bound of the narrowest link from sources; each carries a part of every event.
fn uplink_bound(config: &Config, sums: &Sums, link: Rate) -> Option<(String, f64)> {
    let each = sums.uplinks.iter().filter_map(|uplink| Some((line_of(config, &uplink.sources)?, uplink)));
    let (bytes, uplink) = each.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((format!("the link from {}", uplink.name), link.bytes_per_second() / bytes))
}

/// Returns the bound by slots, from Little's law: at most as many events per second as slots, each
/// taken for the time of an event.
fn slots_bound(config: &Config, event: Duration, path: Duration) -> (String, f64) {
    let slots = f64::from(config.slots()) * config.builders.len() as f64;
    let held = event + path * 2 + HANDLING;
    let resource = format!("{} slots per builder, each taken for {:.3?}", config.slots(), held);
    (resource, slots / held.as_secs_f64())
}

#[cfg(test)]
mod tests;
