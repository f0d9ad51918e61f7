//! [`BudgetTree`]: divides the network buffers that builders share into budgets of bytes under way.

use evb_core::{index::BuilderIndex, units::Bytes};

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

    /// Returns the budget of each builder.
    pub fn divide(&self) -> Vec<Bytes> {
        let mut shares: Vec<Option<u64>> = vec![None; self.builders.len()];
        // All budgets rise together until a buffer is full. The budgets of the builders behind a
        // full buffer are final, and the budgets of the other builders continue to rise.
        while let Some((level, full)) = self.next_full(&shares) {
            for (builder, share) in shares.iter_mut().enumerate() {
                if share.is_none() && self.is_behind(BuilderIndex::new(builder), full) {
                    *share = Some(level);
                }
            }
        }
        shares.into_iter().map(|share| Bytes::new(share.unwrap_or(u64::MAX))).collect()
    }

    /// Returns the name, the load and the capacity of each buffer, if every builder uses its whole
    /// budget from `budgets`.
    pub fn loads<'a>(&'a self, budgets: &'a [Bytes]) -> impl Iterator<Item = (&'a str, Bytes, Bytes)> + 'a {
        self.nodes.iter().enumerate().map(move |(index, node)| {
            let behind = budgets
                .iter()
                .enumerate()
                .filter(|(builder, _)| self.is_behind(BuilderIndex::new(*builder), index));
            (node.name.as_str(), behind.map(|(_, budget)| *budget).sum(), node.capacity)
        })
    }

    /// Returns the buffer that is full first when all budgets that are not final rise together, and
    /// the budget at which it is full.
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
