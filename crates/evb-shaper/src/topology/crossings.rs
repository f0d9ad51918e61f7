//! [`Crossings`]: the lanes that cross each queue of a topology.

use core::ops::Range;

use evb_core::{
    index::{BuilderIndex, SourceIndex},
    units::{Bytes, Rate},
};

use super::{Direction, NodeIndex, Queue, Topology};

/// The sources and builders whose lanes cross each [`Queue`] of a [`Topology`].
///
/// Sources and builders are kept in the order in which a walk through the tree meets them, so that
/// those behind a node are neighbours. No function looks at pairs of a source and a builder.
#[derive(Clone, Debug)]
pub struct Crossings<'a> {
    topology: &'a Topology,
    sources: Walk<SourceIndex>,
    builders: Walk<BuilderIndex>,
}

/// The part of an event that crosses a queue on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueLoad {
    /// The queue.
    pub queue: Queue,
    /// Bytes of an event's fragments from the sources whose lanes cross the queue.
    pub fragments: Bytes,
    /// Part of the events that go to builders whose lanes cross the queue.
    pub share: f64,
}

impl QueueLoad {
    /// Returns the mean number of bytes per event that cross the queue.
    pub fn bytes(&self) -> f64 {
        self.fragments.count() as f64 * self.share
    }

    /// Returns the largest number of events per second for which the queue's load does not exceed
    /// `rate`.
    pub fn bound(&self, rate: Rate) -> f64 {
        rate.bytes_per_second() / self.bytes()
    }
}

impl<'a> Crossings<'a> {
    pub(super) fn new(topology: &'a Topology) -> Self {
        let sources = Walk::new(topology, &topology.sources, SourceIndex::new);
        let builders = Walk::new(topology, &topology.builders, BuilderIndex::new);
        Self { topology, sources, builders }
    }

    /// Returns the sources whose lanes cross a queue.
    pub fn sources(&self, queue: Queue) -> impl Iterator<Item = SourceIndex> + '_ {
        self.sources.members(queue.node, queue.direction == Direction::Up)
    }

    /// Returns the builders whose lanes cross a queue.
    pub fn builders(&self, queue: Queue) -> impl Iterator<Item = BuilderIndex> + '_ {
        self.builders.members(queue.node, queue.direction == Direction::Down)
    }

    /// Returns the number of sources whose lanes cross a queue.
    pub fn source_count(&self, queue: Queue) -> usize {
        self.sources.count(queue.node, queue.direction == Direction::Up)
    }

    /// Returns the number of builders whose lanes cross a queue.
    pub fn builder_count(&self, queue: Queue) -> usize {
        self.builders.count(queue.node, queue.direction == Direction::Down)
    }

    /// Returns the number of lanes that cross a queue.
    pub fn lanes(&self, queue: Queue) -> u64 {
        self.source_count(queue) as u64 * self.builder_count(queue) as u64
    }

    /// Returns the queues that lanes cross.
    pub fn queues(&self) -> impl Iterator<Item = Queue> + '_ {
        self.topology.queues().filter(|queue| self.lanes(*queue) > 0)
    }

    /// Returns a key that equal sets of [`Self::sources`] have in common.
    pub(crate) fn sources_key(&self, queue: Queue) -> (usize, usize) {
        let Range { start, end } = self.sources.behind.get(queue.node.0).cloned().unwrap_or_default();
        let count = self.sources.order.len();
        match queue.direction {
            Direction::Up => (start, end),
            // Down go the lanes of all sources but these, which are one range unless both ends are
            // left.
            Direction::Down if start == 0 => (end, count),
            Direction::Down if end == count => (0, start),
            // The others of a part in the middle; the end comes before the start in no other key.
            Direction::Down => (end, start),
        }
    }

    /// Returns true if all lanes of the builders whose lanes cross the queue cross it, so that
    /// their budgets limit the bytes under way in it.
    pub fn is_crossed_by_all_lanes(&self, queue: Queue) -> bool {
        self.lanes(queue) > 0 && self.source_count(queue) == self.topology.source_count()
    }

    /// Returns the load of each queue that lanes cross. `sizes` has the mean size of each source's
    /// fragments, and `weights` says which parts of the events the builders get.
    pub fn loads(&self, sizes: &[Bytes], weights: &[u64]) -> Vec<QueueLoad> {
        let sizes = self.sources.sums(|source| sizes.get(source.get()).map_or(0, |size| size.count()));
        let weights = self.builders.sums(|builder| weights.get(builder.get()).copied().unwrap_or(0));
        let load = |queue: Queue| QueueLoad {
            queue,
            fragments: Bytes::new(sizes.of(&self.sources, queue.node, queue.direction == Direction::Up)),
            share: weights.of(&self.builders, queue.node, queue.direction == Direction::Down) as f64
                / weights.total().max(1) as f64,
        };
        self.queues().map(load).collect()
    }
}

/// Sources or builders in the order of a walk through the tree.
#[derive(Clone, Debug)]
struct Walk<I> {
    order: Vec<I>,
    /// Positions in `order` of those behind each node.
    behind: Vec<Range<usize>>,
}

impl<I: Copy> Walk<I> {
    /// Orders the members so that those behind each node are neighbours. `places` has the node
    /// above each member, and `index` makes a member's index of its position.
    fn new(topology: &Topology, places: &[Option<NodeIndex>], index: impl Fn(usize) -> I) -> Self {
        let count = topology.nodes.len();
        let mut own = vec![0_usize; count];
        let mut at_root = 0;
        for place in places {
            *place.map_or(&mut at_root, |node| &mut own[node.0]) += 1;
        }
        // Members directly behind a node, and all members behind it.
        let mut all = own.clone();
        // Children come after their parents, so their numbers are whole before they are added.
        for node in topology.indexes().rev() {
            if let Some(parent) = topology.nodes[node.0].parent {
                all[parent.0] += all[node.0];
            }
        }
        // The members directly behind a node come first, then those behind each of its children.
        let (mut behind, mut next_own) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut free, mut free_at_root) = (vec![0; count], at_root);
        for (node, known) in topology.nodes.iter().enumerate() {
            let free_above = node_or(&mut free, node_parent(known.parent), &mut free_at_root);
            let start = *free_above;
            *free_above += all[node];
            behind.push(start..start + all[node]);
            next_own.push(start);
            free[node] = start + own[node];
        }
        let mut order: Vec<Option<I>> = vec![None; places.len()];
        let mut next_at_root = 0;
        for (member, place) in places.iter().enumerate() {
            let next = node_or(&mut next_own, node_parent(*place), &mut next_at_root);
            order[*next] = Some(index(member));
            *next += 1;
        }
        Self { order: order.into_iter().flatten().collect(), behind }
    }

    /// Returns the members behind a node, or all others.
    fn members(&self, node: NodeIndex, is_behind: bool) -> impl Iterator<Item = I> + '_ {
        let Range { start, end } = self.behind.get(node.0).cloned().unwrap_or_default();
        let (first, second) = if is_behind { (start..end, 0..0) } else { (0..start, end..self.order.len()) };
        self.order[first].iter().chain(&self.order[second]).copied()
    }

    fn count(&self, node: NodeIndex, is_behind: bool) -> usize {
        let behind = self.behind.get(node.0).map_or(0, ExactSizeIterator::len);
        if is_behind { behind } else { self.order.len() - behind }
    }

    /// Returns the running sums of a value over the members in order, so that a difference of two
    /// is the sum behind a node.
    fn sums(&self, value: impl Fn(I) -> u64) -> Sums {
        let mut sum = 0_u64;
        let sums = self.order.iter().map(|member| {
            sum = sum.saturating_add(value(*member));
            sum
        });
        Sums(core::iter::once(0).chain(sums).collect())
    }
}

/// Returns the node's element of a list, or that of the root.
fn node_or<'l>(list: &'l mut [usize], node: Option<usize>, root: &'l mut usize) -> &'l mut usize {
    match node {
        Some(node) => &mut list[node],
        None => root,
    }
}

fn node_parent(node: Option<NodeIndex>) -> Option<usize> {
    node.map(NodeIndex::get)
}

/// Sums of the values of the first members of a [`Walk`]: none, one, two and so on.
struct Sums(Vec<u64>);

impl Sums {
    fn total(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }

    fn of<I>(&self, walk: &Walk<I>, node: NodeIndex, is_behind: bool) -> u64 {
        let Range { start, end } = walk.behind.get(node.0).cloned().unwrap_or_default();
        let behind = self.0[end] - self.0[start];
        if is_behind { behind } else { self.total() - behind }
    }
}
