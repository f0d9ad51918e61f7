//! [`BuilderSet`]: sets of builders, by their positions in the roster.

use crate::{
    index::BuilderIndex,
    set::{IndexSet, Member},
};

/// Marker type for sets of builders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Builders;

impl Member for Builders {
    type Index = BuilderIndex;

    fn at(number: usize) -> BuilderIndex {
        BuilderIndex::new(number)
    }

    fn number(index: BuilderIndex) -> usize {
        index.get()
    }
}

/// Set of builders, by their positions in the roster.
pub(super) type BuilderSet = IndexSet<Builders>;
