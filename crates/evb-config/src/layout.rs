//! [`Layout`]: the places of sources and builders in the tree of switches.

mod members;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use evb_core::{
    id::{BuilderId, SourceId},
    index::{BuilderIndex, SourceIndex},
    units::Rate,
};
use evb_shaper::topology::{Node, NodeIndex, Topology};

use self::members::{Behind, Members, Mistake};
use super::{
    builder::BuilderEntry, network::NetworkConfig, problem, role_lists::natural, section::Notes,
    source::SourceEntry,
};

/// The tree of switches of a configuration, with the links of its sources and builders.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The tree. Its sources are in ascending order of their ids, its builders in the order of the
    /// configuration. Its nodes are the trunks, then the uplinks, then the ports.
    pub topology: Topology,
    /// The trunks in the order of the tree, a parent before its children: positions in
    /// [`NetworkConfig::trunks`].
    pub trunks: Vec<usize>,
    /// Links from sources into the tree, in the order of their first sources.
    pub uplinks: Vec<Link<SourceId, SourceIndex>>,
    /// Ports towards builders, in the natural order of their names.
    pub ports: Vec<Link<BuilderId, BuilderIndex>>,
}

/// The link that one or several sources or builders share.
#[derive(Clone, Debug, PartialEq)]
pub struct Link<Id, Index> {
    /// Name of the link.
    pub name: String,
    /// Ids of the sources or builders.
    pub ids: Vec<Id>,
    /// Positions of the sources or builders in the topology.
    pub indexes: Vec<Index>,
    /// Rate of the link, the lowest that one of its entries states; `None` if it is unknown.
    pub rate: Option<Rate>,
    /// The link as a node of the topology.
    pub node: NodeIndex,
}

/// The part of a configuration that a node of [`Layout::topology`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// The trunk at this position of [`NetworkConfig::trunks`].
    Trunk(usize),
    /// The uplink at this position of [`Layout::uplinks`].
    Uplink(usize),
    /// The port at this position of [`Layout::ports`].
    Port(usize),
}

impl Layout {
    /// Returns the trunk, uplink or port that a node stands for.
    pub fn kind(&self, node: NodeIndex) -> NodeKind {
        let (index, trunks) = (node.get(), self.trunks.len());
        match self.trunks.get(index) {
            Some(trunk) => NodeKind::Trunk(*trunk),
            None if index < trunks + self.uplinks.len() => NodeKind::Uplink(index - trunks),
            None => NodeKind::Port(index - trunks - self.uplinks.len()),
        }
    }

    /// Returns the longest time that data may wait in the full buffers of trunks on the way to each
    /// builder, as far as buffers and rates of the trunks are known.
    pub fn trunk_delays(&self) -> Vec<Duration> {
        let nodes = self.topology.nodes();
        let mut delays: Vec<Duration> = Vec::with_capacity(nodes.len());
        for node in nodes.iter().take(self.trunks.len()) {
            let above = node.parent.map_or(Duration::ZERO, |parent| delays[parent.get()]);
            let own_delay = node.buffer.zip(node.rate).map_or(Duration::ZERO, |(buffer, rate)| buffer / rate);
            delays.push(above.saturating_add(own_delay));
        }
        let delay_in_front = |node: NodeIndex| {
            let trunk = self.topology.node(node).and_then(|node| node.parent);
            trunk.map_or(Duration::ZERO, |trunk| delays[trunk.get()])
        };
        let up = self.uplinks.iter().map(|uplink| delay_in_front(uplink.node)).max().unwrap_or_default();
        let mut longest = vec![Duration::ZERO; self.topology.builder_count()];
        for port in &self.ports {
            let down = delay_in_front(port.node);
            port.indexes.iter().for_each(|builder| longest[*builder] = up.saturating_add(down));
        }
        longest
    }

    /// Lays out sources and builders in a tree. Members of trunks that are wrong are left out.
    pub(super) fn new(network: &NetworkConfig, sources: &[SourceEntry], builders: &[BuilderEntry]) -> Self {
        Self::with_mistakes(network, sources, builders).0
    }

    /// Lays out sources and builders in a tree. Notes an error for each trunk whose members are
    /// wrong, and for each link of sources or builders that is given two rates.
    pub(super) fn checked(
        notes: &Notes,
        network: &NetworkConfig,
        sources: &[SourceEntry],
        builders: &[BuilderEntry],
    ) -> Self {
        let (layout, mistakes) = Self::with_mistakes(network, sources, builders);
        for Mistake { trunk, reason, remedy } in mistakes {
            network.trunks[trunk].refuse(notes, "members", reason, remedy);
        }
        let uplink = |source: &SourceEntry| (source.link_name(), source.id.number(), source.link_rate);
        refuse_links_with_two_rates(notes, "source", sources.iter().map(uplink));
        let port =
            |builder: &BuilderEntry| (builder.port_name().to_owned(), builder.id.number(), builder.link_rate);
        refuse_links_with_two_rates(notes, "builder", builders.iter().map(port));
        layout
    }

    /// Lays out sources and builders in a tree, and returns the mistakes in the members of trunks.
    fn with_mistakes(
        network: &NetworkConfig,
        sources: &[SourceEntry],
        builders: &[BuilderEntry],
    ) -> (Self, Vec<Mistake>) {
        let mut members = Members::new(network, sources, builders);
        let order = members.order();
        let mut layout =
            Self { topology: Topology::default(), trunks: order, uplinks: Vec::new(), ports: Vec::new() };
        let mut nodes: Vec<Option<NodeIndex>> = vec![None; network.trunks.len()];
        for position in &layout.trunks {
            let trunk = &network.trunks[*position];
            let parent = members.above_trunk[*position].and_then(|above| nodes[above]);
            let (name, rate, buffer) = (trunk.name.clone(), trunk.rate, trunk.buffer);
            nodes[*position] = Some(layout.topology.add(Node { name, rate, buffer, parent }));
        }
        let node_of = |trunk: Option<usize>| nodes[trunk?];
        let uplink_nodes = layout.add_uplinks(network, sources, &mut members, node_of);
        layout.add_ports(network, builders, &mut members, node_of);
        let mut ascending: Vec<usize> = (0..sources.len()).collect();
        ascending.sort_by_key(|position| sources[*position].id);
        for position in ascending {
            let link = uplink_nodes[position];
            let index = layout.topology.add_source(layout.uplinks.get(link).map(|link| link.node));
            layout.uplinks[link].indexes.push(index);
        }
        (layout, members.mistakes)
    }

    /// Adds the uplinks; returns for each source the position of its uplink in [`Self::uplinks`].
    fn add_uplinks(
        &mut self,
        network: &NetworkConfig,
        sources: &[SourceEntry],
        members: &mut Members<'_>,
        node_of: impl Fn(Option<usize>) -> Option<NodeIndex>,
    ) -> Vec<usize> {
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        let mut links = Vec::with_capacity(sources.len());
        for (position, source) in sources.iter().enumerate() {
            let name = source.link_name();
            let link = *known.entry(name.clone()).or_insert_with(|| {
                groups.push((name, Vec::new()));
                groups.len() - 1
            });
            let (_, of_link) = &mut groups[link];
            of_link.push(position);
            links.push(link);
        }
        for (name, positions) in groups {
            let parent = node_of(members.common(Behind::Source, &name, &positions));
            let rates = positions.iter().filter_map(|position| sources[*position].link_rate);
            let rate = rates.min().or(network.link_rate);
            let node = self.topology.add(Node { name: name.clone(), rate, buffer: None, parent });
            let ids = positions.iter().map(|position| sources[*position].id).collect();
            self.uplinks.push(Link { name, ids, indexes: Vec::new(), rate, node });
        }
        links
    }

    /// Adds the ports, and the builders behind them.
    fn add_ports(
        &mut self,
        network: &NetworkConfig,
        builders: &[BuilderEntry],
        members: &mut Members<'_>,
        node_of: impl Fn(Option<usize>) -> Option<NodeIndex>,
    ) {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (position, builder) in builders.iter().enumerate() {
            groups.entry(builder.port_name()).or_default().push(position);
        }
        let mut groups: Vec<(&str, Vec<usize>)> = groups.into_iter().collect();
        groups.sort_by_cached_key(|(name, _)| natural(name));
        let mut ports = vec![None; builders.len()];
        for (name, positions) in groups {
            let parent = node_of(members.common(Behind::Builder, name, &positions));
            let rates = positions.iter().filter_map(|position| builders[*position].link_rate);
            let rate = rates.min().or(network.link_rate);
            let node = Node { name: name.to_owned(), rate, buffer: network.port_buffer, parent };
            let node = self.topology.add(node);
            positions.iter().for_each(|position| ports[*position] = Some(node));
            let indexes = positions.iter().map(|position| BuilderIndex::new(*position)).collect();
            let ids = positions.iter().map(|position| builders[*position].id).collect();
            self.ports.push(Link { name: name.to_owned(), ids, indexes, rate, node });
        }
        for port in ports {
            self.topology.add_builder(port);
        }
    }
}

/// Refuses each rate of a link that differs from the rate that an earlier entry gives the same
/// link. `entries` has the link's name, the id, and the rate of each source or builder of the
/// `section`.
fn refuse_links_with_two_rates(
    notes: &Notes,
    section: &str,
    entries: impl Iterator<Item = (String, u16, Option<Rate>)>,
) {
    let mut firsts: BTreeMap<String, (u16, Rate)> = BTreeMap::new();
    for (link, id, rate) in entries {
        let Some(rate) = rate else { continue };
        let (other, first) = *firsts.entry(link.clone()).or_insert((id, rate));
        if first != rate {
            let key = format!("{section}.link_rate");
            let span = notes.keys.borrow().get(&problem::place_of(&key, id)).cloned();
            let reason = format!(
                "the link `{link}` has two rates: {first} of {section} {other}, and {rate} of {section} {id}"
            );
            let names = if section == "source" { "`bind` or `host`" } else { "`port`" };
            let remedy = format!(
                "give every {section} on this link the same `link_rate`, or another {names} to a {section} that is on another link"
            );
            notes.error(&key, span.unwrap_or(0..0), reason, remedy);
        }
    }
}
