//! [`SourceSet`] and [`LaneSet`]: sets of a run's sources, and of a source's lanes.

use crate::index::LaneIndex;
use core::marker::PhantomData;

/// Most sources of one run. `MAX_SOURCES` limits the size of every set of sources.
pub const MAX_SOURCES: usize = 4096;

/// Number of words that a set holds without a memory allocation, enough for 256 indices.
const INLINE: usize = 4;

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
///
/// A set of indices below 256 needs no memory allocation, so that sets cost little in the usual
/// run, which has fewer sources.
#[derive(Clone, Debug, Default)]
pub struct IndexSet<K> {
    low: [u64; INLINE],
    /// Words of the indices from 256 on. The last words may be zero.
    high: Vec<u64>,
    members: PhantomData<K>,
}

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
        debug_assert!(index < Self::LIMIT, "{index} is beyond every set");
        let place = index / 64;
        let word = match place.checked_sub(INLINE) {
            None => &mut self.low[place],
            Some(place) => {
                if place >= self.high.len() {
                    self.high.resize(place + 1, 0);
                }
                &mut self.high[place]
            }
        };
        let bit = 1 << (index % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Removes an index. Returns true if the set contained it.
    pub fn remove(&mut self, index: K::Index) -> bool {
        let index = K::number(index);
        let place = index / 64;
        let word = match place.checked_sub(INLINE) {
            None => Some(&mut self.low[place]),
            Some(place) => self.high.get_mut(place),
        };
        let Some(word) = word else { return false };
        let bit = 1 << (index % 64);
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    /// Removes and returns the lowest index.
    pub fn take_first(&mut self) -> Option<K::Index> {
        let first = self.iter().next()?;
        self.remove(first);
        Some(first)
    }

    /// Returns true if the set contains the index.
    pub fn contains(&self, index: K::Index) -> bool {
        let index = K::number(index);
        self.word(index / 64) & (1 << (index % 64)) != 0
    }

    /// Returns true if the set contains all indices of `other`.
    pub fn is_superset(&self, other: &Self) -> bool {
        self.compare(other, |mine, theirs| theirs & !mine == 0)
    }

    /// Returns true if the set has no index in common with `other`.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.compare(other, |mine, theirs| mine & theirs == 0)
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
        self.low == [0; INLINE] && self.high.iter().all(|word| *word == 0)
    }

    /// Returns the number of indices in the set.
    pub fn len(&self) -> usize {
        self.low.iter().chain(&self.high).map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the indices in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = K::Index> + use<'_, K> {
        let is_empty = self.low == [0; INLINE];
        let low = Indices { words: self.low, at: if is_empty { INLINE } else { 0 } };
        let high =
            self.high.iter().enumerate().flat_map(|(at, word)| Bits(*word).map(move |bit| at * 64 + bit));
        low.chain(high.map(|index| INLINE * 64 + index)).map(K::at)
    }

    fn word(&self, place: usize) -> u64 {
        match place.checked_sub(INLINE) {
            None => self.low[place],
            Some(place) => self.high.get(place).copied().unwrap_or_default(),
        }
    }

    fn compare(&self, other: &Self, holds: impl Fn(u64, u64) -> bool) -> bool {
        self.low.iter().zip(other.low).all(|(mine, theirs)| holds(*mine, theirs))
            && (INLINE..INLINE + self.high.len().max(other.high.len()))
                .all(|place| holds(self.word(place), other.word(place)))
    }

    fn zip(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let mut low = self.low;
        low.iter_mut().zip(other.low).for_each(|(mine, theirs)| *mine = combine(*mine, theirs));
        let places = INLINE..INLINE + self.high.len().max(other.high.len());
        let high = places.map(|place| combine(self.word(place), other.word(place))).collect();
        Self { low, high, members: PhantomData }
    }
}

impl<K: Member> PartialEq for IndexSet<K> {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other, |mine, theirs| mine == theirs)
    }
}

impl<K: Member> Eq for IndexSet<K> {}

/// Iterator over the indices of the inline words of an [`IndexSet`], ascending.
///
/// For each event, the code iterates over several sets, most of which are empty; so iteration over
/// an empty set has to be cheap.
#[derive(Clone, Debug)]
struct Indices {
    words: [u64; INLINE],
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

/// Iterator over the positions of the bits that are set in a word, ascending.
#[derive(Clone, Debug)]
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let lower = self.0.checked_sub(1)?;
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= lower;
        Some(bit)
    }
}

impl<K: Member> FromIterator<K::Index> for IndexSet<K> {
    fn from_iter<I: IntoIterator<Item = K::Index>>(indices: I) -> Self {
        let mut set = Self { low: [0; INLINE], high: Vec::new(), members: PhantomData };
        for index in indices {
            set.insert(index);
        }
        set
    }
}

#[cfg(test)]
mod tests;
