//! The loads that a configuration puts on each switch port, link and memory.

use std::{collections::BTreeMap, time::Duration};

use evb_core::{
    framing::MAX_OPEN_FRAGMENTS,
    id::{BuilderId, SourceId},
    index::{BuilderIndex, SourceIndex},
    source::front_end_memory,
    units::{Bytes, Rate},
};
use evb_shaper::{sums::windows_buffer, topology::NodeIndex};

use super::{
    Machine,
    descriptors::{self, DescriptorSum},
    flow::{flow, on_line, utilisation},
    nodes::{self, NodeSum},
};
use crate::{BoardPlace, BuilderEntry, Config, Input, Layout, Link, MadeOn, ShapingMode, SourceEntry};

/// The needs of a configuration that admission control compares with limits: the loads of links and
/// ports, the bytes under way, and the memory and file descriptors of the roles.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// Sizes of one event.
    pub event: EventSum,
    /// Mean number of events per second that the trigger requests; `None` if the configuration does
    /// not determine it.
    pub asked: Option<f64>,
    /// Largest number of events per second that the links carry; `None` if the link rate or the
    /// sizes are unknown.
    pub carried: Option<f64>,
    /// The switch ports towards builders, in the natural order of their names.
    pub ports: Vec<PortSum>,
    /// The links from sources into the switch.
    pub uplinks: Vec<UplinkSum>,
    /// The trunks and shared buffers, each after the one that it is behind.
    pub nodes: Vec<NodeSum>,
    /// The memory of each builder, in the order of the configuration.
    pub memory: Vec<MemorySum>,
    /// The memory that each source needs at most, in the order of the configuration.
    pub source_memory: Vec<(SourceId, Bytes)>,
    /// The file descriptors that the roles of each host need.
    pub descriptors: Vec<DescriptorSum>,
}

/// The sizes of an event whose fragments have their mean sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSum {
    /// Number of fragments of an event, one from each source.
    pub fragments: u64,
    /// Payload of the event. `payload`, `line` and `burst` are `None` if the size of a source's
    /// fragments is unknown before the run.
    pub payload: Option<Bytes>,
    /// Line bytes that the event takes on a link when its packets are full.
    pub line: Option<Bytes>,
    /// Bytes that the event takes in a port's buffer when all sources send at once.
    pub burst: Option<Bytes>,
    /// Payload of the largest event, all of whose fragments have the size `max_fragment`.
    pub largest: Bytes,
}

/// The load of a switch port towards one or several builders.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSum {
    /// Name of the port: the configured name, or the host of the builders.
    pub name: String,
    /// Ids of the builders behind the port.
    pub builders: Vec<BuilderId>,
    /// Rate of the port's link; `None`: unknown.
    pub rate: Option<Rate>,
    /// Position in [`Sums::nodes`] of the trunk that the port is behind; `None`: the port is at the
    /// switch at the root of the tree.
    pub trunk: Option<usize>,
    /// Data rate into the port at the requested event rate, in line bytes; `None` if this event
    /// rate or the size of an event is unknown.
    pub load: Option<Rate>,
    /// Load of the port as a part of its link rate; `None` if one of the two is unknown.
    pub utilisation: Option<f64>,
    /// Bytes that the port's builders together permit to be under way, in buffer bytes.
    pub budget: Bytes,
    /// Number of grants of full size that the budget covers.
    pub chunks: u64,
    /// Time in which the port sends the bytes of its budget; `None` if its link rate is unknown.
    pub drain: Option<Duration>,
    /// Largest number of bytes in the port's buffer when all lanes use their full windows.
    pub windows: Bytes,
    /// Largest number of bytes that all lanes' token buckets together let into the port's buffer at
    /// once.
    pub bursts: Bytes,
    /// Sum of the paces of all lanes to the port, in line bytes; `None` if a lane has no pace.
    pub paced: Option<Rate>,
}

/// The load of the link of one or several sources into the switch.
#[derive(Clone, Debug, PartialEq)]
pub struct UplinkSum {
    /// Local address or host of the link's sources, or "source 3" if neither is configured.
    pub name: String,
    /// Ids of the sources that send over the link.
    pub sources: Vec<SourceId>,
    /// Rate of the link; `None`: unknown.
    pub rate: Option<Rate>,
    /// Position in [`Sums::nodes`] of the trunk that the link is behind; `None`: the link is at the
    /// switch at the root of the tree.
    pub trunk: Option<usize>,
    /// Line bytes of the mean fragments of one event from these sources; `None` if a mean size is
    /// unknown.
    pub line: Option<Bytes>,
    /// Data rate on the link at the requested event rate, in line bytes; `None` if this event rate
    /// or a mean size is unknown.
    pub load: Option<Rate>,
    /// Load of the link as a part of its rate; `None` if one of the two is unknown.
    pub utilisation: Option<f64>,
    /// Sum of the paces of all lanes on the link, in line bytes; `None` if a lane has no pace.
    pub paced: Option<Rate>,
}

/// The memory that a builder needs, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySum {
    /// Id of the builder.
    pub builder: BuilderId,
    /// Memory that the builder needs at most: slots × the largest memory of a slot, plus datagrams
    /// that arrive ahead of earlier ones over UDP.
    pub needed: Bytes,
    /// Memory that the builder may use; `None`: unknown.
    pub limit: Option<Bytes>,
}

/// Percentage of a machine's memory that all builders on it together may use by default.
const BUILDERS_PERCENT: u64 = 80;

/// Computes the needs of `config`. Every builder's machine is assumed to be like `machine`.
pub fn sums(config: &Config, machine: Machine) -> Sums {
    let event = event(config);
    let asked = config.supervisor.trigger.events_per_second();
    let layout = config.layout();
    let ports = ports(config, &layout, &event, asked);
    let uplinks = uplinks(config, &layout, asked);
    let nodes = nodes::nodes(config, &layout, asked);
    let memory = memory(config, machine.memory);
    let descriptors = descriptors::of_hosts(config, machine.descriptors);
    let source_memory = config.sources.iter().map(|source| (source.id, of_source(config, source))).collect();
    let mut sums =
        Sums { event, asked, carried: None, ports, uplinks, nodes, memory, source_memory, descriptors };
    sums.carried = narrowest(config, &sums).map(|(events, _)| events);
    sums
}

/// Computes the sizes of an event, as far as the sizes of fragments are known.
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

/// Returns the position of the trunk directly above a port or uplink, in the order of the tree.
fn trunk_above(layout: &Layout, node: NodeIndex) -> Option<usize> {
    layout.topology.node(node)?.parent.map(NodeIndex::get)
}

/// Computes the load of each port and what may be under way to it.
fn ports(config: &Config, layout: &Layout, event: &EventSum, asked: Option<f64>) -> Vec<PortSum> {
    let cost = config.cost();
    let chunk = cost.buffer(config.shaping.chunk);
    let burst = |builder: &&BuilderEntry| config.lane_pace(builder).map_or(Bytes::ZERO, |pace| pace.burst);
    let port = |link: &Link<BuilderId, BuilderIndex>| {
        let builders: Vec<&BuilderEntry> =
            link.indexes.iter().map(|index| &config.builders[index.get()]).collect();
        let share = builders.len() as f64 / config.builders.len() as f64;
        let lanes = builders.len() as u64 * event.fragments;
        let budget: Bytes = builders.iter().map(|builder| builder.budget).sum();
        let load = flow(asked.map(|asked| asked * share), event.line);
        PortSum {
            name: link.name.clone(),
            builders: link.ids.clone(),
            rate: link.rate,
            trunk: trunk_above(layout, link.node),
            load,
            utilisation: utilisation(load, link.rate),
            budget,
            chunks: budget.count() / chunk.count().max(1),
            drain: link.rate.map(|rate| budget / rate),
            windows: windows_buffer(lanes, config.shaping.window, &cost),
            bursts: builders.iter().map(burst).sum::<Bytes>() * event.fragments,
            paced: config.paced_line_rate(builders).map(|rate| rate * event.fragments),
        }
    };
    layout.ports.iter().map(port).collect()
}

/// Computes the load of each link from sources.
fn uplinks(config: &Config, layout: &Layout, asked: Option<f64>) -> Vec<UplinkSum> {
    let cost = config.cost();
    let mut sizes: Vec<(SourceId, Option<Bytes>)> =
        config.sources.iter().map(|source| (source.id, source.mean_in_lane())).collect();
    sizes.sort_unstable_by_key(|(id, _)| *id);
    let paced = config.paced_line_rate(&config.builders);
    let uplink = |link: &Link<SourceId, SourceIndex>| {
        let bytes: Option<Bytes> = link.indexes.iter().map(|index| sizes[*index].1).sum();
        let line = bytes.map(|bytes| on_line(bytes, &cost));
        let load = flow(asked, line);
        UplinkSum {
            name: link.name.clone(),
            sources: link.ids.clone(),
            rate: link.rate,
            trunk: trunk_above(layout, link.node),
            line,
            load,
            utilisation: utilisation(load, link.rate),
            paced: paced.map(|rate| rate * link.ids.len() as u64),
        }
    };
    let mut uplinks: Vec<UplinkSum> = layout.uplinks.iter().map(uplink).collect();
    uplinks.sort_by(|a, b| a.sources.cmp(&b.sources));
    uplinks
}

/// Returns the link or trunk that carries the fewest events per second, in words, and their number;
/// of several, a trunk.
pub(crate) fn narrowest(config: &Config, sums: &Sums) -> Option<(f64, String)> {
    let nodes =
        sums.nodes.iter().filter_map(|node| Some((node.narrowest()?.0, format!("the {}", node.in_words()))));
    let ports = sums
        .ports
        .iter()
        .filter_map(|port| Some((port.carried(config, sums)?, format!("the link to {}", port.name))));
    let uplinks = sums
        .uplinks
        .iter()
        .filter_map(|uplink| Some((uplink.carried()?, format!("the link from {}", uplink.name))));
    nodes.chain(ports).chain(uplinks).reduce(|least, next| {
        let ((fewest, _), (events, _)) = (&least, &next);
        if events < fewest { next } else { least }
    })
}

impl PortSum {
    /// Returns the largest number of events per second for which the port's rate suffices; `None`
    /// if this rate or the size of an event is unknown.
    pub fn carried(&self, config: &Config, sums: &Sums) -> Option<f64> {
        let events = self.rate?.bytes_per_second() / sums.event.line?.count() as f64;
        Some(events * config.builders.len() as f64 / self.builders.len() as f64)
    }

    /// Returns the bytes that the shaping mode permits to be under way to the port; `None` if it
    /// limits nothing.
    pub fn under_way(&self, mode: ShapingMode) -> Option<Bytes> {
        match mode {
            ShapingMode::Credit => Some(self.budget),
            ShapingMode::Window => Some(self.windows),
            ShapingMode::TokenBucket => Some(self.bursts),
            ShapingMode::None => None,
        }
    }
}

impl UplinkSum {
    /// Returns the largest number of events per second for which the link's rate suffices; `None`
    /// if this rate or a mean size is unknown.
    pub fn carried(&self) -> Option<f64> {
        Some(self.rate?.bytes_per_second() / self.line?.count() as f64)
    }
}

/// Computes the memory that each builder needs, and its limit. Without a configured limit, the
/// builders of a host share a part of its memory.
fn memory(config: &Config, machine: Option<Bytes>) -> Vec<MemorySum> {
    let slots = config.slot_memory() * u64::from(config.slots());
    let mut on_machine: BTreeMap<&str, u64> = BTreeMap::new();
    for builder in &config.builders {
        *on_machine.entry(&builder.listen.host).or_default() += 1;
    }
    let default = |builder: &BuilderEntry| {
        let count = on_machine.get(builder.listen.host.as_str()).copied().unwrap_or(1);
        Some(machine? / 100 * BUILDERS_PERCENT / count)
    };
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

/// Returns the memory that a source needs at most: its fragments of all outstanding events, and if
/// fragments arrive before they are decided on, its backlog and the memory for its front ends.
fn of_source(config: &Config, source: &SourceEntry) -> Bytes {
    let outstanding = u64::from(config.slots()) * config.builders.len() as u64;
    let before = match &source.input {
        Input::Generator { on: MadeOn::Decision, .. } | Input::Replay { on: MadeOn::Decision, .. } => {
            Bytes::ZERO
        }
        Input::Generator { .. } | Input::Replay { .. } => source.backlog,
        Input::Tcp { front_ends, .. } | Input::Unix { front_ends, .. } => {
            source.backlog + front_end_memory(source.max_fragment, *front_ends)
        }
        Input::Board { place: BoardPlace::Udp(_), .. } => {
            source.backlog + source.max_fragment * MAX_OPEN_FRAGMENTS as u64
        }
        Input::Board { .. } => source.backlog + front_end_memory(source.max_fragment, 1),
        Input::Capture { .. } => {
            let open = source.max_fragment * MAX_OPEN_FRAGMENTS as u64;
            source.backlog + front_end_memory(source.max_fragment, 1) + open
        }
    };
    source.max_fragment * outstanding + before
}
