//! [`Topology`]: the tree of switches and links through which the lanes pass.

mod crossings;
#[cfg(test)]
mod tests;

use evb_core::{
    index::{BuilderIndex, SourceIndex},
    units::{Bytes, Rate},
};

pub use crossings::{Crossings, QueueLoad};

/// A tree of switches. A node is a link between two switches (a trunk), or the link between a
/// switch and a host: the uplink of sources or the port of builders. Sources and builders are
/// behind nodes, or directly at the switch at the root, which carries all its ports at once.
///
/// The lane from a source to a builder goes up through the nodes that only the source is behind,
/// and down through those that only the builder is behind. Links carry both directions at the same
/// time, and each direction has its own [`Queue`] with the node's rate and buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    nodes: Vec<Node>,
    sources: Vec<Option<NodeIndex>>,
    builders: Vec<Option<NodeIndex>>,
}

/// A node of a [`Topology`]: the link between what is behind it and the rest of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of the node.
    pub name: String,
    /// Rate of each direction, in line bytes; `None`: the node limits no rate.
    pub rate: Option<Rate>,
    /// Buffer of each direction, in buffer bytes; `None`: the node limits no bytes under way.
    pub buffer: Option<Bytes>,
    /// Next node towards the root; `None`: the switch at the root.
    pub parent: Option<NodeIndex>,
}

/// The position of a node in [`Topology::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(usize);

impl NodeIndex {
    /// Returns the position as a plain number.
    pub const fn get(self) -> usize {
        self.0
    }
}

/// The direction in which data pass through a node, seen from the switch at the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Towards the root: from the sources behind the node to the builders that are not.
    Up,
    /// Away from the root: from the sources that are not behind the node to the builders that are.
    Down,
}

impl Direction {
    /// Both directions.
    pub const ALL: [Self; 2] = [Self::Up, Self::Down];

    /// Returns the direction as a word for messages and JSON: `up` or `down`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// The queue in which data wait for a node's link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue {
    /// Node whose rate and buffer the queue has.
    pub node: NodeIndex,
    /// Direction of the lanes that pass through the queue.
    pub direction: Direction,
}

impl Topology {
    /// Adds a node. A parent that is not a node of this topology is replaced by the root.
    pub fn add(&mut self, node: Node) -> NodeIndex {
        let parent = self.known(node.parent);
        self.nodes.push(Node { parent, ..node });
        NodeIndex(self.nodes.len() - 1)
    }

    /// Adds a source behind a node, or at the switch at the root. Sources are numbered from zero.
    pub fn add_source(&mut self, behind: Option<NodeIndex>) -> SourceIndex {
        self.sources.push(self.known(behind));
        SourceIndex::new(self.sources.len() - 1)
    }

    /// Adds a builder behind a node, or at the switch at the root. Builders are numbered from zero.
    pub fn add_builder(&mut self, behind: Option<NodeIndex>) -> BuilderIndex {
        self.builders.push(self.known(behind));
        BuilderIndex::new(self.builders.len() - 1)
    }

    fn known(&self, node: Option<NodeIndex>) -> Option<NodeIndex> {
        node.filter(|node| node.0 < self.nodes.len())
    }

    /// Returns all nodes; a parent comes before its children.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the node with this index, if there is one.
    pub fn node(&self, node: NodeIndex) -> Option<&Node> {
        self.nodes.get(node.0)
    }

    /// Returns the indexes of all nodes; a parent comes before its children.
    pub fn indexes(&self) -> impl DoubleEndedIterator<Item = NodeIndex> + use<> {
        (0..self.nodes.len()).map(NodeIndex)
    }

    /// Returns the queues of all nodes in both directions, including those that no lane crosses.
    pub fn queues(&self) -> impl Iterator<Item = Queue> + use<> {
        self.indexes().flat_map(|node| Direction::ALL.map(|direction| Queue { node, direction }))
    }

    /// Returns the number of sources.
    pub fn source_count(&self) -> usize {
        self.sources.len()
    }

    /// Returns the number of builders.
    pub fn builder_count(&self) -> usize {
        self.builders.len()
    }

    /// Returns the node that a source is directly behind; `None`: it is at the switch at the root.
    pub fn in_front_of_source(&self, source: SourceIndex) -> Option<NodeIndex> {
        self.sources.get(source.get()).copied().flatten()
    }

    /// Returns the node that a builder is directly behind; `None`: it is at the switch at the root.
    pub fn in_front_of_builder(&self, builder: BuilderIndex) -> Option<NodeIndex> {
        self.builders.get(builder.get()).copied().flatten()
    }

    /// Returns the queues that the lane from a source to a builder crosses, in the order in which
    /// data pass through them.
    pub fn path(&self, source: SourceIndex, builder: BuilderIndex) -> Vec<Queue> {
        let (mut from, mut to) = (self.in_front_of_source(source), self.in_front_of_builder(builder));
        let (mut up, mut down) = (Vec::new(), Vec::new());
        // A parent has a smaller index than its children, and the root compares below all nodes.
        while from != to {
            if from > to {
                up.extend(from.map(|node| Queue { node, direction: Direction::Up }));
                from = self.above(from);
            } else {
                down.extend(to.map(|node| Queue { node, direction: Direction::Down }));
                to = self.above(to);
            }
        }
        up.extend(down.into_iter().rev());
        up
    }

    fn above(&self, node: Option<NodeIndex>) -> Option<NodeIndex> {
        self.node(node?)?.parent
    }

    /// Computes the lanes that cross each queue, in time linear in the nodes, sources and builders.
    pub fn crossings(&self) -> Crossings<'_> {
        Crossings::new(self)
    }
}
