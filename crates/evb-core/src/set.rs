//! [`SourceSet`] and [`LaneSet`]: sets of a run's sources, and of a source's lanes.

use crate::index::LaneIndex;
use core::marker::PhantomData;

/// Most sources of one run. `MAX_SOURCES` limits the size of every set of sources.
pub const MAX_SOURCES: usize = 256;

const WORDS: usize = MAX_SOURCES / 64;

/// Marker type for sets of sources, by index in the roster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources;

/// Marker type for sets of lanes, by [`LaneIndex`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lanes;

/// The kind of the members of an [`IndexSet`].
pub trait Member {
    /// Type of an index.
    type Index: Copy;

    /// Returns the index with that number.
    fn at(number: usize) -> Self::Index;

    /// Returns the number of an index.
    fn number(index: Self::Index) -> usize;
}

impl Member for Sources {
    type Index = usize;

    fn at(number: usize) -> usize {
        number
    }

    fn number(index: usize) -> usize {
        index
    }
}

impl Member for Lanes {
    type Index = LaneIndex;

    fn at(number: usize) -> LaneIndex {
        LaneIndex::new(number)
    }

    fn number(index: LaneIndex) -> usize {
        index.get()
    }
}

/// Set of sources, by their index in the roster.
pub type SourceSet = IndexSet<Sources>;

/// Set of a source's lanes to builders, by [`LaneIndex`].
///
/// ```compile_fail
/// use evb_core::set::{LaneSet, SourceSet};
///
/// let sources: SourceSet = LaneSet::first(1);
/// ```
pub type LaneSet = IndexSet<Lanes>;

/// Set of indices below [`IndexSet::LIMIT`]. The type `K` says what the indices refer to, so that
/// the compiler finds mix-ups of different sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSet<K>([u64; WORDS], PhantomData<K>);

impl<K: Member> IndexSet<K> {
    /// Upper limit of all indices, exclusive.
    pub const LIMIT: usize = MAX_SOURCES;

    /// Returns the set of the first `count` indices.
    pub fn first(count: usize) -> Self {
        (0..count.min(Self::LIMIT)).map(K::at).collect()
    }

    /// Adds an index. Returns true if the set did not contain it before.
    pub fn insert(&mut self, index: K::Index) -> bool {
        let index = K::number(index);
        let word = &mut self.0[index / 64];
        let bit = 1 << (index % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Removes an index. Returns true if the set contained it.
    pub fn remove(&mut self, index: K::Index) -> bool {
        let index = K::number(index);
        let word = &mut self.0[index / 64];
        let bit = 1 << (index % 64);
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// Returns true if the set contains the index.
    pub fn contains(&self, index: K::Index) -> bool {
        let index = K::number(index);
        self.0[index / 64] & (1 << (index % 64)) != 0
    }

    /// Returns true if the set contains all indices of `other`.
    pub fn is_superset(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).all(|(mine, theirs)| theirs & !mine == 0)
    }

    /// Returns the indices that are in `self`, in `other`, or in both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// Returns the indices that are in `self` and not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    /// Returns the indices that are in both `self` and `other`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Returns the number of indices in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the indices in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = K::Index> + use<K> {
        Indices { words: self.0, at: if self.is_empty() { WORDS } else { 0 } }.map(K::at)
    }

    fn zip(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let mut words = self.0;
        words.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine = combine(*mine, theirs));
        Self(words, PhantomData)
    }
}

/// Iterator over the indices of an [`IndexSet`], ascending.
///
/// For each event, the code iterates over several sets, most of which are empty; so iteration over
/// an empty set has to be cheap.
#[derive(Clone, Debug)]
struct Indices {
    words: [u64; WORDS],
    /// Index of the current word in `words`.
    at: usize,
}

impl Iterator for Indices {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        loop {
            let word = self.words.get_mut(self.at)?;
            let bit = word.trailing_zeros() as usize;
            if let Some(lower) = word.checked_sub(1) {
                *word &= lower;
                return Some(self.at * 64 + bit);
            }
            self.at += 1;
        }
    }
}

impl<K: Member> FromIterator<K::Index> for IndexSet<K> {
    fn from_iter<I: IntoIterator<Item = K::Index>>(indices: I) -> Self {
        let mut set = Self([0; WORDS], PhantomData);
        for index in indices {
            set.insert(index);
        }
        set
    }
}

#[cfg(test)]
mod tests;
