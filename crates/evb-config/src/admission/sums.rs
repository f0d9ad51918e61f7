//! The demands of a configuration, port by port and link by link.

use std::{collections::BTreeMap, time::Duration};

use evb_core::{
    id::{BuilderId, SourceId},
    units::{Bytes, Rate},
};
use evb_shaper::{cost::PacketCost, sums::windows_buffer};

use crate::{BuilderEntry, Config, SourceEntry};

/// All sums of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// Demands of one event.
    pub event: EventSum,
    /// Mean events per second that the trigger asks for, if the configuration determines them.
    pub asked: Option<f64>,
    /// Events per second that the links carry, if rate and sizes are known.
    pub carried: Option<f64>,
    /// The switch ports towards builders, by name.
    pub ports: Vec<PortSum>,
    /// The links from sources.
    pub uplinks: Vec<UplinkSum>,
    /// The memory of each builder, by id.
    pub memory: Vec<MemorySum>,
}

/// One event of mean size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSum {
    /// Number of fragments, one from each source.
    pub fragments: u64,
    /// Payload; `None` if a source's sizes are unknown before the run, as are the next two.
    pub payload: Option<Bytes>,
    /// Line bytes on a link, with full packets.
    pub line: Option<Bytes>,
    /// Bytes in a port's buffer when all sources answer at once.
    pub burst: Option<Bytes>,
    /// Payload of the largest event that is accepted.
    pub largest: Bytes,
}

/// A switch port towards one or several builders.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSum {
    /// Name of the port: the configured one, or the builders' host.
    pub name: String,
    /// Builders behind it.
    pub builders: Vec<BuilderId>,
    /// Rate into it at the asked event rate, in line bytes.
    pub load: Option<Rate>,
    /// Load as a part of the link.
    pub utilisation: Option<f64>,
    /// Bytes that its builders together may have under way, in buffer bytes.
    pub budget: Bytes,
    /// Number of full grants that the budget covers.
    pub chunks: u64,
    /// Time that the port takes to send its budget on.
    pub drain: Option<Duration>,
    /// The most bytes that windows let into its buffer.
    pub windows: Bytes,
    /// The most bytes that token buckets let into its buffer at once.
    pub bursts: Bytes,
    /// Rate that the lanes' paces let through, in line bytes.
    pub paced: Option<Rate>,
}

/// The link of one or several sources into the switch.
#[derive(Clone, Debug, PartialEq)]
pub struct UplinkSum {
    /// Local address or host of its sources, or "source 3" if neither is given.
    pub name: String,
    /// Sources that send over it.
    pub sources: Vec<SourceId>,
    /// Rate at the asked event rate, in line bytes.
    pub load: Option<Rate>,
    /// Load as a part of the link.
    pub utilisation: Option<f64>,
    /// Rate that the lanes' paces let through, in line bytes.
    pub paced: Option<Rate>,
}

/// A builder's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySum {
    /// Id of the builder.
    pub builder: BuilderId,
    /// Slots × the most that one can take, plus early datagrams over UDP.
    pub needed: Bytes,
    /// Memory that it may use; `None`: unknown.
    pub limit: Option<Bytes>,
}

/// Percentage of a machine's memory that its builders together may use by default.
const BUILDERS_PERCENT: u64 = 80;

/// Computes the demands of `config`. `machine_memory` is the memory of each builder's machine.
pub fn sums(config: &Config, machine_memory: Option<Bytes>) -> Sums {
    let event = event(config);
    let asked = config.supervisor.trigger.events_per_second();
    let ports = ports(config, &event, asked);
    let uplinks = uplinks(config, asked);
    let carried = carried(config, &event, &ports, &uplinks);
    let memory = memory(config, machine_memory);
    Sums { event, asked, carried, ports, uplinks, memory }
}

fn event(config: &Config) -> EventSum {
    let cost = config.cost();
    let sizes: Option<Vec<Bytes>> = config.sources.iter().map(SourceEntry::mean_in_lane).collect();
    let burst = |size: &Bytes| cost.buffer(*size);
    EventSum {
        fragments: config.sources.len() as u64,
        payload: config.sources.iter().map(|source| source.input.mean_size()).sum(),
        line: sizes.as_ref().map(|sizes| on_line(sizes.iter().copied().sum(), &cost)),
        burst: sizes.as_ref().map(|sizes| sizes.iter().map(burst).sum()),
        largest: config.sources.iter().map(|source| source.max_fragment).sum(),
    }
}

/// Converts lane bytes to line bytes. Small fragments share packets, so that this is the least they
/// can take.
fn on_line(bytes: Bytes, cost: &PacketCost) -> Bytes {
    Bytes::new((bytes.count() as f64 * cost.line_factor()).ceil() as u64)
}

fn flow(events_per_second: Option<f64>, bytes: Option<Bytes>) -> Option<Rate> {
    let bits = events_per_second? * bytes?.count() as f64 * 8.0;
    Some(Rate::from_bits_per_second(bits.round() as u64))
}

fn utilisation(load: Option<Rate>, link: Option<Rate>) -> Option<f64> {
    Some(load?.bits_per_second() as f64 / link?.bits_per_second() as f64)
}

fn ports(config: &Config, event: &EventSum, asked: Option<f64>) -> Vec<PortSum> {
    let mut groups: BTreeMap<&str, Vec<&BuilderEntry>> = BTreeMap::new();
    for builder in &config.builders {
        groups.entry(builder.port_name()).or_default().push(builder);
    }
    let cost = config.cost();
    let chunk = cost.buffer(config.shaping.chunk);
    let burst = |builder: &&BuilderEntry| config.lane_pace(builder).map_or(Bytes::ZERO, |pace| pace.burst);
    let port = |(name, builders): (&str, Vec<&BuilderEntry>)| {
        let share = builders.len() as f64 / config.builders.len() as f64;
        let lanes = builders.len() as u64 * event.fragments;
        let budget: Bytes = builders.iter().map(|builder| builder.budget).sum();
        let load = flow(asked.map(|asked| asked * share), event.line);
        PortSum {
            name: name.to_owned(),
            builders: builders.iter().map(|builder| builder.id).collect(),
            load,
            utilisation: utilisation(load, config.network.link_rate),
            budget,
            chunks: budget.count() / chunk.count().max(1),
            drain: config.network.link_rate.map(|link| budget / link),
            windows: windows_buffer(lanes, config.shaping.window, &cost),
            bursts: builders.iter().map(burst).sum::<Bytes>() * event.fragments,
            paced: config.paced_line_rate(builders).map(|rate| rate * event.fragments),
        }
    };
    groups.into_iter().map(port).collect()
}

fn uplinks(config: &Config, asked: Option<f64>) -> Vec<UplinkSum> {
    let mut groups: BTreeMap<String, Vec<&SourceEntry>> = BTreeMap::new();
    for source in &config.sources {
        let host = source.bind.as_ref().or(source.host.as_ref());
        let name = host.cloned().unwrap_or_else(|| format!("source {}", source.id));
        groups.entry(name).or_default().push(source);
    }
    let cost = config.cost();
    let uplink = |(name, sources): (String, Vec<&SourceEntry>)| {
        let bytes: Option<Bytes> = sources.iter().map(|source| source.mean_in_lane()).sum();
        let load = flow(asked, bytes.map(|bytes| on_line(bytes, &cost)));
        UplinkSum {
            name,
            sources: sources.iter().map(|source| source.id).collect(),
            load,
            utilisation: utilisation(load, config.network.link_rate),
            paced: config.paced_line_rate(&config.builders).map(|rate| rate * sources.len() as u64),
        }
    };
    let mut uplinks: Vec<UplinkSum> = groups.into_iter().map(uplink).collect();
    uplinks.sort_by(|a, b| a.sources.cmp(&b.sources));
    uplinks
}

/// Returns the line bytes of one event's mean fragments of these sources.
pub(super) fn line_of(config: &Config, sources: &[SourceId]) -> Option<f64> {
    let theirs = config.sources.iter().filter(|source| sources.contains(&source.id));
    let bytes: Option<Bytes> = theirs.map(SourceEntry::mean_in_lane).sum();
    Some(on_line(bytes?, &config.cost()).count() as f64)
}

/// Returns the event rate that the narrowest link carries.
fn carried(config: &Config, event: &EventSum, ports: &[PortSum], uplinks: &[UplinkSum]) -> Option<f64> {
    let link = config.network.link_rate?.bytes_per_second();
    let line = event.line?.count() as f64;
    let port_events =
        ports.iter().map(|port| link / line * config.builders.len() as f64 / port.builders.len() as f64);
    let uplink_events = uplinks.iter().filter_map(|uplink| Some(link / line_of(config, &uplink.sources)?));
    port_events.chain(uplink_events).reduce(f64::min)
}

fn memory(config: &Config, machine: Option<Bytes>) -> Vec<MemorySum> {
    let slots = config.slot_memory() * u64::from(config.slots());
    let on_machine = |builder: &BuilderEntry| {
        config.builders.iter().filter(|other| other.listen.host == builder.listen.host).count() as u64
    };
    let default = |builder: &BuilderEntry| Some(machine? / 100 * BUILDERS_PERCENT / on_machine(builder));
    config
        .builders
        .iter()
        .map(|builder| MemorySum {
            builder: builder.id,
            needed: slots + config.out_of_order_memory(builder),
            limit: builder.memory.or_else(|| default(builder)),
        })
        .collect()
}
