//! [`Trunk`]: the links between the switches of a network, which form a tree.

use std::collections::{BTreeMap, BTreeSet};

use evb_core::{
    id::Peer,
    units::{Bytes, Rate},
};

/// A link between two switches. The lower switch connects the trunk's members and the trunks below
/// it; the upper switch is the lower switch of the trunk above, or the root switch. Peers that are
/// members of no trunk are connected to the root switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// The name of the trunk in reports.
    pub name: String,
    /// Line rate of each direction.
    pub rate: Rate,
    /// Size of the queue of each direction, in L2 bytes.
    pub buffer: Bytes,
    /// Position of the trunk above in the list of all trunks, where it stands before this one;
    /// `None` if this trunk ends at the root switch.
    pub above: Option<usize>,
    /// The peers that are connected to the lower switch itself.
    pub members: Vec<Peer>,
}

/// The order in which a switch port serves frames that came by different links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Frames leave in the order of their arrival.
    #[default]
    Arrivals,
    /// The incoming trunks take turns (deficit round robin): each may send a full frame per turn.
    /// The hosts of the switch together count as one trunk. Each has an equal part of the port's
    /// buffer.
    Turns,
}

/// Index of a switch: the root switch is the first, and each trunk's lower switch follows.
pub(crate) type SwitchIndex = usize;

/// The root switch.
pub(crate) const ROOT: SwitchIndex = 0;

/// The trunks with the place of each peer.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// For each trunk, the switch at its upper end.
    upper: Vec<SwitchIndex>,
    homes: BTreeMap<Peer, SwitchIndex>,
}

/// The trunks that a frame crosses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path {
    /// Positions of the trunks that it crosses upwards, in this order.
    pub(crate) up: Vec<usize>,
    /// Positions of the trunks that it crosses downwards, in the opposite order.
    pub(crate) down: Vec<usize>,
}

impl Tree {
    /// Returns the tree of the given trunks.
    pub(crate) fn new(trunks: &[Trunk]) -> Self {
        let upper = trunks.iter().map(|trunk| trunk.above.map_or(ROOT, |above| above + 1)).collect();
        let numbered = trunks.iter().enumerate();
        let homes = numbered.flat_map(|(at, trunk)| trunk.members.iter().map(move |peer| (*peer, at + 1)));
        Self { upper, homes: homes.collect() }
    }

    /// Checks that trunks form a tree and that no peer has two places.
    ///
    /// # Errors
    /// Returns a description of the first contradiction.
    pub(crate) fn check(trunks: &[Trunk]) -> Result<(), String> {
        let mut placed = BTreeSet::new();
        for (position, Trunk { name, above, members, .. }) in trunks.iter().enumerate() {
            if above.is_some_and(|above| above >= position) {
                return Err(format!("the trunk above `{name}` is listed after it, and must come before it"));
            }
            if let Some(twice) = members.iter().find(|peer| !placed.insert(**peer)) {
                return Err(format!("trunk `{name}`: {twice} is a member twice"));
            }
        }
        Ok(())
    }

    /// Returns the number of switches.
    pub(crate) fn switches(&self) -> usize {
        1 + self.upper.len()
    }

    /// Returns the switch to which a peer is connected.
    pub(crate) fn home(&self, peer: Peer) -> SwitchIndex {
        self.homes.get(&peer).copied().unwrap_or(ROOT)
    }

    /// Returns the switch at the upper end of a trunk.
    pub(crate) fn upper(&self, trunk: usize) -> SwitchIndex {
        self.upper[trunk]
    }

    /// Returns the way from one switch to another.
    pub(crate) fn path(&self, from: SwitchIndex, to: SwitchIndex) -> Path {
        let (up, down) = (self.chain(from), self.chain(to));
        let common = up.iter().rev().zip(down.iter().rev()).take_while(|(one, other)| one == other).count();
        let cut = |mut chain: Vec<usize>| {
            chain.truncate(chain.len() - common);
            chain
        };
        Path { up: cut(up), down: cut(down) }
    }

    /// Returns the trunks between a switch and the root switch, from below.
    fn chain(&self, from: SwitchIndex) -> Vec<usize> {
        core::iter::successors(from.checked_sub(1), |trunk| self.upper[*trunk].checked_sub(1)).collect()
    }
}

#[cfg(test)]
mod tests;
