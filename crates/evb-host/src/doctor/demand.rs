//! The demands of a configuration on the host that runs it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use evb_config::{BuilderEntry, Config, OffloadChoice, ShapingMode, SinkEntry, Transport};
use evb_core::{id::Peer as Role, units::Rate};
use evb_shaper::sums::windows_buffer;

use super::facts::Demand;

/// Returns the demands of `config` on a host that hosts the roles `here`.
pub(super) fn demand(config: &Config, here: &[Role]) -> Demand {
    let (network, shaping) = (&config.network, &config.shaping);
    let budgets = config.builders.iter().map(|builder| builder.budget);
    let budget = budgets.min().unwrap_or(shaping.budget);
    let count = config.sources.len().max(1) as u64;
    let under_way = match shaping.mode {
        ShapingMode::Credit => Some(budget),
        ShapingMode::Window => Some(windows_buffer(count, shaping.window, &config.cost())),
        ShapingMode::TokenBucket | ShapingMode::None => None,
    };
    // In the mode credit, a lane can hold this much of a builder's budget when no other lane is
    // active.
    let lane_share = match shaping.mode {
        ShapingMode::Credit => Some((shaping.chunk * 2).max(budget / 4).min(budget)),
        ShapingMode::Window => Some(shaping.window),
        ShapingMode::TokenBucket | ShapingMode::None => None,
    };
    let lane =
        |builder: &BuilderEntry| Some((builder.id, (builder.listen.port, config.lane_frames(builder)?)));
    let sources = config.sources.iter().filter(|source| here.contains(&Role::Source(source.id)));
    let of_boards = sources.filter_map(|source| source.input.receive_buffer()).max();
    let paces = config.builders.iter().filter_map(|builder| config.lane_pace(builder));
    Demand {
        link_rate: network.link_rate,
        port_buffer: network.port_buffer,
        mtu: network.mtu,
        mode: shaping.mode,
        by_datagrams: network.transport == Transport::Udp,
        is_paced: config.is_paced(),
        pace: paces.max_by_key(|pace| pace.rate),
        lanes: config.builders.iter().filter_map(lane).collect(),
        offload: match shaping.offload {
            OffloadChoice::Auto => None,
            OffloadChoice::Only(offload) => Some(offload),
        },
        under_way,
        lane_share,
        send_buffer: network.send_buffer,
        receive_buffer: network.receive_buffer.max(of_boards),
        congestion_control: network.congestion_control.clone(),
        cores: cores(config, here).collect(),
        copies: copies(config, here),
    }
}

/// Returns the rate at which the roles here copy bytes while their links are full; `None` if a
/// link's rate is not configured, or no source or builder is here. A source copies every byte into
/// its socket; a builder copies every byte out of its socket, and once more for
/// each sink into the page cache or a socket. Roles with the same address share a link.
fn copies(config: &Config, here: &[Role]) -> Option<Rate> {
    let link = |own: Option<Rate>| own.or(config.network.link_rate);
    // The flag tells a link into a builder from one out of a source.
    let mut links: BTreeMap<(bool, String), Rate> = BTreeMap::new();
    for source in config.sources.iter().filter(|source| here.contains(&Role::Source(source.id))) {
        links.insert((false, source.link_name()), link(source.link_rate)?);
    }
    for builder in config.builders.iter().filter(|builder| here.contains(&Role::Builder(builder.id))) {
        let times = 1 + builder.sinks.iter().filter(|sink| **sink != SinkEntry::Null).count();
        let rate = link(builder.link_rate)? * times as u64;
        let fastest = links.entry((true, builder.port_name().to_owned())).or_insert(rate);
        *fastest = rate.max(*fastest);
    }
    links.into_values().reduce(|sum, rate| sum + rate)
}

/// Returns the cores to which the configuration binds roles of this host, with the roles.
fn cores<'c>(config: &'c Config, here: &'c [Role]) -> impl Iterator<Item = (usize, Role)> + 'c {
    let sources = config.sources.iter().map(|source| (Role::Source(source.id), source.cpu));
    let builders = config.builders.iter().map(|builder| (Role::Builder(builder.id), builder.cpu));
    sources
        .chain(builders)
        .filter(|(role, _)| here.contains(role))
        .filter_map(|(role, core)| Some((core?, role)))
}
