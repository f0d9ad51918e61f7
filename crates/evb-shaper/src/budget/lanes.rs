//! [`budgets`]: divides the buffers of a topology among builders and groups of their lanes.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use evb_core::{
    index::{BuilderIndex, LaneIndex},
    set::LaneSet,
    units::Bytes,
};

use super::{BudgetTree, BufferIndex};
use crate::topology::{Crossings, Direction, Queue, Topology};

/// The bytes that may be under way to one builder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuilderBudget {
    /// Buffer bytes that may be under way from all sources together.
    pub port: Bytes,
    /// Limits for the lanes that cross a buffer that the builder's other lanes do not cross. A lane
    /// may belong to several groups. There is no group for a buffer that `port` protects already.
    pub groups: Vec<BudgetGroup>,
}

/// A limit for some of a builder's lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetGroup {
    /// Lanes of the group. The index of a lane is the position of its source among all sources.
    pub lanes: Arc<LaneSet>,
    /// Buffer bytes that may be under way on all lanes of the group together.
    pub limit: Bytes,
}

impl BuilderBudget {
    /// Returns the smallest limit that any lane of the builder has: that of a group, or
    /// [`Self::port`].
    pub fn smallest(&self) -> Bytes {
        self.groups.iter().map(|group| group.limit).fold(self.port, Bytes::min)
    }

    /// Returns the smallest limit for these lanes together: that of a group that has all of them,
    /// or [`Self::port`].
    pub fn on_lanes(&self, lanes: &LaneSet) -> Bytes {
        let groups = self.groups.iter().filter(|group| group.lanes.is_superset(lanes));
        groups.map(|group| group.limit).fold(self.port, Bytes::min)
    }
}

/// Divides the buffers of a topology. `capacity` returns the buffer bytes of a queue that may be
/// used, or `None` if the queue limits nothing.
///
/// The budgets are fixed, so that builders need not communicate: in each queue, the sum of what the
/// builders permit to be under way is at most its capacity. Buffers that all lanes of a builder
/// cross limit its whole budget, max-min fair as in [`BudgetTree`]. A buffer that only some of its
/// lanes cross limits the group of these lanes: its capacity is divided among the builders, and a
/// builder whose whole budget is less than its part leaves the rest to others.
///
/// Each group may use the whole budget of the builder as far as its buffer permits. If a port is
/// fed by two trunks, the sources of one trunk can use all of it while the others are silent, and
/// when all send, each source gets an equal part, however many sources are behind each trunk.
pub fn budgets(topology: &Topology, capacity: impl Fn(Queue) -> Option<Bytes>) -> Vec<BuilderBudget> {
    let crossings = topology.crossings();
    let whole = whole_budgets(topology, &crossings, &capacity);
    let mut groups: Vec<BTreeMap<(usize, usize), BudgetGroup>> = vec![BTreeMap::new(); whole.len()];
    for queue in crossings.queues().filter(|queue| !crossings.is_crossed_by_all_lanes(*queue)) {
        let Some(capacity) = capacity(queue) else { continue };
        let builders: Vec<BuilderIndex> = crossings.builders(queue).collect();
        let Some(limit) = part_of_each(capacity, builders.iter().map(|builder| whole[*builder]).collect())
        else {
            continue;
        };
        let lanes: LaneSet = crossings.sources(queue).map(|source| LaneIndex::new(source.get())).collect();
        let lanes = Arc::new(lanes);
        for builder in builders.into_iter().filter(|builder| whole[*builder] > limit) {
            // Groups of the same lanes are merged.
            let group = groups[builder.get()]
                .entry(crossings.sources_key(queue))
                .or_insert_with(|| BudgetGroup { lanes: Arc::clone(&lanes), limit });
            group.limit = group.limit.min(limit);
        }
    }
    let of_builder = |(port, groups): (Bytes, BTreeMap<_, BudgetGroup>)| BuilderBudget {
        port,
        groups: groups.into_values().collect(),
    };
    whole.into_iter().zip(groups).map(of_builder).collect()
}

/// Returns the largest part of a queue that each builder can have if no builder takes more than its
/// `whole` budget; `None` if all whole budgets fit.
pub fn part_of_each(capacity: Bytes, mut whole: Vec<Bytes>) -> Option<Bytes> {
    whole.sort_unstable();
    let mut rest = capacity;
    for (index, budget) in whole.iter().enumerate() {
        let even = rest / (whole.len() - index) as u64;
        if *budget > even {
            return Some(even);
        }
        rest -= *budget;
    }
    None
}

/// Returns each builder's part of the buffers that all its lanes cross.
fn whole_budgets(
    topology: &Topology,
    crossings: &Crossings<'_>,
    capacity: &impl Fn(Queue) -> Option<Bytes>,
) -> Vec<Bytes> {
    let queue = |node, direction| Queue { node, direction };
    let sources_behind = |node| crossings.source_count(queue(node, Direction::Up));
    let mut tree = BudgetTree::default();
    let name = |node| topology.node(node).map_or("", |node| node.name.as_str());
    // The buffer directly in front of each node, on the way from the sources.
    let mut front: Vec<Option<BufferIndex>> = vec![None; topology.nodes().len()];
    // The last buffer so far on the common way of all sources.
    let mut last_common = None;
    // Nodes that all sources are behind are on one way to the root, the deepest first. All lanes to
    // the builders outside of such a node go up through it.
    for node in topology.indexes().rev().filter(|node| sources_behind(*node) == topology.source_count()) {
        front[node.get()] = last_common;
        if let Some(capacity) = capacity(queue(node, Direction::Up)) {
            last_common = Some(tree.add(name(node), capacity, last_common));
        }
    }
    for node in topology.indexes().filter(|node| sources_behind(*node) < topology.source_count()) {
        let parent = topology.nodes()[node.get()].parent;
        let above = parent.map_or(last_common, |parent| front[parent.get()]);
        let own = capacity(queue(node, Direction::Down)).filter(|_| sources_behind(node) == 0);
        front[node.get()] = own.map_or(above, |own| Some(tree.add(name(node), own, above)));
    }
    // A builder that no buffer protects is behind an endless one.
    let mut endless = None;
    for builder in BuilderIndex::all(topology.builder_count()) {
        let buffer = topology.in_front_of_builder(builder).map_or(last_common, |node| front[node.get()]);
        let behind = buffer.or(endless).unwrap_or_else(|| tree.add("", Bytes::new(u64::MAX), None));
        if buffer.is_none() {
            endless = Some(behind);
        }
        tree.add_builder(behind);
    }
    tree.divide()
}
