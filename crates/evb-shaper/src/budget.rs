//! [`BudgetTree`]: divides the network buffers that builders share into budgets of bytes under way.

mod lanes;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use evb_core::{index::BuilderIndex, units::Bytes};

pub use lanes::{BudgetGroup, BuilderBudget, budgets, part_of_each};

/// Buffers on the way to builders: a switch port, the packet memory of the ASIC behind several
/// ports, the trunk between two switches. Each builder is behind one buffer, which may itself be
/// behind another; bytes under way to a builder may lie in any buffer in front of it.
///
/// [`Self::divide`] gives each builder a fixed budget that it may use independently of the other
/// builders, so that builders need not communicate. The division is max-min fair (progressive
/// filling, Bertsekas & Gallager, *Data Networks*, §6.5.2): no builder's budget can grow without
/// taking from a builder whose budget is no larger.
///
/// ```
/// # use evb_core::units::Bytes;
/// # use evb_shaper::BudgetTree;
/// let mut tree = BudgetTree::default();
/// let asic = tree.add("asic", Bytes::kib(256), None);
/// let ports = ["port 1", "port 2"].map(|name| tree.add(name, Bytes::kib(192), Some(asic)));
/// tree.add_builder(ports[0]);
/// tree.add_builder(ports[0]);
/// tree.add_builder(ports[1]);
/// let third = Bytes::new(256 * 1024 / 3);
/// assert_eq!(tree.divide(), [third; 3]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetTree {
    nodes: Vec<Node>,
    /// The buffer directly in front of each builder, as an index into `nodes`.
    builders: Vec<usize>,
}

/// The position of a buffer in a [`BudgetTree`], as [`BudgetTree::add`] returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BufferIndex(usize);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    name: String,
    capacity: Bytes,
    parent: Option<usize>,
}

impl BudgetTree {
    /// Adds a buffer, of which `capacity` buffer bytes may be used. `above` is the larger buffer
    /// that the new buffer is behind, or `None` if there is no larger one.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        capacity: Bytes,
        above: Option<BufferIndex>,
    ) -> BufferIndex {
        // An index beyond the present buffers belongs to another tree, and is ignored.
        let parent = above.map(|above| above.0).filter(|above| *above < self.nodes.len());
        self.nodes.push(Node { name: name.into(), capacity, parent });
        BufferIndex(self.nodes.len() - 1)
    }

    /// Adds a builder behind a buffer, and returns the builder's index. Builders are numbered from
    /// zero.
    pub fn add_builder(&mut self, behind: BufferIndex) -> BuilderIndex {
        self.builders.push(behind.0);
        BuilderIndex::new(self.builders.len() - 1)
    }

    /// Returns the budget of each builder in buffer bytes, by the builder's index.
    pub fn divide(&self) -> Vec<Bytes> {
        // All budgets rise together until a buffer is full. The budgets of the builders behind a
        // full buffer are final, and the budgets of the other builders continue to rise.
        let mut filling = Filling::new(self);
        while let Some((level, full)) = filling.next_full() {
            filling.close(full, level);
        }
        filling.shares.into_iter().map(|share| Bytes::new(share.unwrap_or(u64::MAX))).collect()
    }

    /// Returns the name, the load and the capacity of each buffer, if every builder uses its whole
    /// budget from `budgets`.
    pub fn loads<'a>(&'a self, budgets: &[Bytes]) -> impl Iterator<Item = (&'a str, Bytes, Bytes)> + 'a {
        let mut loads = vec![Bytes::ZERO; self.nodes.len()];
        for (behind, budget) in self.builders.iter().zip(budgets) {
            loads[*behind] += *budget;
        }
        // A buffer is added after the buffer that it is behind.
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let load = loads[index];
            if let Some(parent) = node.parent {
                loads[parent] += load;
            }
        }
        self.nodes.iter().zip(loads).map(|(node, load)| (node.name.as_str(), load, node.capacity))
    }
}

/// The state of a division: the budgets that are final, and the rest of each buffer.
struct Filling<'t> {
    tree: &'t BudgetTree,
    shares: Vec<Option<u64>>,
    /// Sum of the final budgets behind each buffer.
    taken: Vec<u64>,
    /// Number of builders behind each buffer whose budgets are not final.
    open: Vec<u64>,
    /// Buffers directly behind each buffer.
    children: Vec<Vec<usize>>,
    /// Builders directly behind each buffer.
    members: Vec<Vec<usize>>,
    /// Budgets at which buffers are full, the smallest first. An entry whose budget is no longer
    /// that of its buffer is ignored.
    levels: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'t> Filling<'t> {
    /// Prepares the filling: counts for each node the builders behind it that have no share yet.
    fn new(tree: &'t BudgetTree) -> Self {
        let count = tree.nodes.len();
        let mut filling = Self {
            tree,
            shares: vec![None; tree.builders.len()],
            taken: vec![0; count],
            open: vec![0; count],
            children: vec![Vec::new(); count],
            members: vec![Vec::new(); count],
            levels: BinaryHeap::new(),
        };
        for (builder, behind) in tree.builders.iter().enumerate() {
            filling.members[*behind].push(builder);
            filling.open[*behind] += 1;
        }
        // Children come after their parents, so the counts of children are whole before they are
        // added.
        for (index, node) in tree.nodes.iter().enumerate().rev() {
            if let Some(parent) = node.parent {
                filling.children[parent].push(index);
                filling.open[parent] += filling.open[index];
            }
        }
        (0..count).for_each(|index| filling.note_level(index));
        filling
    }

    /// Returns the budget at which a buffer is full, if any budget behind it still rises.
    fn level(&self, node: usize) -> Option<u64> {
        let rest = self.tree.nodes[node].capacity.count().saturating_sub(self.taken[node]);
        rest.checked_div(self.open[node])
    }

    fn note_level(&mut self, node: usize) {
        if let Some(level) = self.level(node) {
            self.levels.push(Reverse((level, node)));
        }
    }

    /// Returns the buffer that is full first when all budgets that are not final rise together, and
    /// the budget at which it is full.
    fn next_full(&mut self) -> Option<(u64, usize)> {
        loop {
            let Reverse((level, node)) = self.levels.pop()?;
            if self.level(node) == Some(level) {
                return Some((level, node));
            }
        }
    }

    /// Makes the budgets behind a full buffer final.
    fn close(&mut self, full: usize, level: u64) {
        let mut below = vec![full];
        let mut closed = 0;
        while let Some(node) = below.pop() {
            for builder in &self.members[node] {
                if self.shares[*builder].is_none() {
                    self.shares[*builder] = Some(level);
                    closed += 1;
                }
            }
            let is_open = |child: &usize| self.open[*child] > 0;
            below.extend(self.children[node].iter().copied().filter(is_open));
            self.open[node] = 0;
        }
        let mut above = self.tree.nodes[full].parent;
        while let Some(node) = above {
            self.open[node] -= closed;
            self.taken[node] = self.taken[node].saturating_add(level.saturating_mul(closed));
            self.note_level(node);
            above = self.tree.nodes[node].parent;
        }
    }
}

#[cfg(test)]
mod tests;
