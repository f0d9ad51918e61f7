//! [`BudgetTree`]: who may have how much under way, where builders share buffers.

use evb_core::{index::BuilderIndex, units::Bytes};

/// Buffers on the way to builders: a switch port, the packet memory of the ASIC behind several
/// ports, the trunk between two switches. A builder is below one of them, which may be below
/// another; bytes under way to a builder may lie in any.
///
/// [`Self::divide`] gives each builder a budget that it may use whatever the others do: static, so
/// that builders need not communicate. The division is max-min fair (progressive filling, Bertsekas
/// & Gallager, *Data Networks*, §6.5.2): no builder can have more without taking from one that has
/// no more than it.
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
    /// The node above each builder.
    builders: Vec<usize>,
}

/// A buffer of a [`BudgetTree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BufferIndex(usize);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    name: String,
    capacity: Bytes,
    parent: Option<usize>,
}

impl BudgetTree {
    /// Adds a buffer of which that much may be used, in buffer bytes; it is below another, or the
    /// last on the way.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        capacity: Bytes,
        above: Option<BufferIndex>,
    ) -> BufferIndex {
        // A parent that is not there yet would be another tree's.
        let parent = above.map(|above| above.0).filter(|above| *above < self.nodes.len());
        self.nodes.push(Node { name: name.into(), capacity, parent });
        BufferIndex(self.nodes.len() - 1)
    }

    /// A builder behind a buffer. Builders are numbered from zero.
    pub fn add_builder(&mut self, behind: BufferIndex) -> BuilderIndex {
        self.builders.push(behind.0);
        BuilderIndex::new(self.builders.len() - 1)
    }

    /// Each builder's budget.
    pub fn divide(&self) -> Vec<Bytes> {
        let mut shares: Vec<Option<u64>> = vec![None; self.builders.len()];
        // All budgets rise together until a buffer is full; those behind it stay, the others rise
        // on.
        while let Some((level, full)) = self.next_full(&shares) {
            for (builder, share) in shares.iter_mut().enumerate() {
                if share.is_none() && self.is_behind(BuilderIndex::new(builder), full) {
                    *share = Some(level);
                }
            }
        }
        shares.into_iter().map(|share| Bytes::new(share.unwrap_or(u64::MAX))).collect()
    }

    /// The buffers, with what they carry when each builder has that budget: name, use, capacity.
    pub fn loads<'a>(&'a self, budgets: &'a [Bytes]) -> impl Iterator<Item = (&'a str, Bytes, Bytes)> + 'a {
        self.nodes.iter().enumerate().map(move |(index, node)| {
            let behind = budgets
                .iter()
                .enumerate()
                .filter(|(builder, _)| self.is_behind(BuilderIndex::new(*builder), index));
            (node.name.as_str(), behind.map(|(_, budget)| *budget).sum(), node.capacity)
        })
    }

    /// The buffer that is full first when all open shares rise, and at which level.
    fn next_full(&self, shares: &[Option<u64>]) -> Option<(u64, usize)> {
        let level = |(index, node): (usize, &Node)| {
            let behind = || {
                shares
                    .iter()
                    .enumerate()
                    .filter(|(builder, _)| self.is_behind(BuilderIndex::new(*builder), index))
            };
            let taken = behind().filter_map(|(_, share)| *share).fold(0, u64::saturating_add);
            let open = behind().filter(|(_, share)| share.is_none()).count() as u64;
            let level = node.capacity.count().saturating_sub(taken).checked_div(open)?;
            Some((level, index))
        };
        self.nodes.iter().enumerate().filter_map(level).min()
    }

    fn is_behind(&self, builder: BuilderIndex, node: usize) -> bool {
        let mut at = self.builders.get(builder.get()).copied();
        while let Some(index) = at {
            if index == node {
                return true;
            }
            at = self.nodes.get(index).and_then(|node| node.parent);
        }
        false
    }
}

#[cfg(test)]
mod tests;
