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
    #[inline]
    pub fn insert(&mut self, index: K::Index) -> bool {
        let index = K::number(index);
        let word = match self.low.get_mut(index / 64) {
            Some(word) => word,
            None => self.high_word(index),
        };
        let bit = 1 << (index % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Removes an index. Returns true if the set contained it.
    #[inline]
    pub fn remove(&mut self, index: K::Index) -> bool {
        let was = self.contains(index);
        if was {
            let index = K::number(index);
            let word = match self.low.get_mut(index / 64) {
                Some(word) => word,
                None => self.high_word(index),
            };
            *word &= !(1 << (index % 64));
        }
        was
    }

    /// Returns the word of an index from 256 on.
    #[cold]
    fn high_word(&mut self, index: usize) -> &mut u64 {
        debug_assert!(index < Self::LIMIT, "{index} is beyond every set");
        let place = index / 64 - INLINE;
        if place >= self.high.len() {
            self.high.resize(place + 1, 0);
        }
        &mut self.high[place]
    }

    /// Removes and returns the lowest index.
    pub fn take_first(&mut self) -> Option<K::Index> {
        let first = self.iter().next()?;
        self.remove(first);
        Some(first)
    }

    /// Returns true if the set contains the index.
    #[inline]
    pub fn contains(&self, index: K::Index) -> bool {
        let index = K::number(index);
        self.word(index / 64) & (1 << (index % 64)) != 0
    }

    /// Removes all indices.
    pub fn clear(&mut self) {
        self.low = [0; INLINE];
        self.high.clear();
    }

    /// Adds all indices of `other`.
    pub fn add_all(&mut self, other: &Self) {
        self.low.iter_mut().zip(other.low).for_each(|(mine, theirs)| *mine |= theirs);
        if !other.high.is_empty() {
            self.high.resize(self.high.len().max(other.high.len()), 0);
            self.high.iter_mut().zip(&other.high).for_each(|(mine, theirs)| *mine |= theirs);
        }
    }

    /// Returns true if the set contains all indices of `other`.
    #[inline]
    pub fn is_superset(&self, other: &Self) -> bool {
        other.are_zero(|place, theirs| theirs & !self.word(place))
    }

    /// Returns true if the set has no index in common with `other`.
    #[inline]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.are_zero(|place, mine| mine & other.word(place))
    }

    /// Returns true if each index of the set is in `first` or in `second`.
    #[inline]
    pub fn is_covered_by(&self, first: &Self, second: &Self) -> bool {
        self.are_zero(|place, mine| mine & !(first.word(place) | second.word(place)))
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
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.low == [0; INLINE] && self.high.iter().all(|word| *word == 0)
    }

    /// Returns the number of indices in the set.
    pub fn len(&self) -> usize {
        self.low.iter().chain(&self.high).map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the indices in ascending order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = K::Index> + use<'_, K> {
        Indices::new(self.low, &self.high, &[]).map(K::at)
    }

    /// Returns the indices from `first` on, and then the indices below `first`.
    pub fn iter_from(&self, first: K::Index) -> impl Iterator<Item = K::Index> + use<'_, K> {
        let first = K::number(first);
        let is_below = move |index: &K::Index| K::number(*index) < first;
        self.iter().filter(move |index| !is_below(index)).chain(self.iter().filter(is_below))
    }

    /// Returns the indices that are not in `other`, in ascending order.
    #[inline]
    pub fn iter_without<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = K::Index> + use<'a, K> {
        let low = combine(self.low, other.low, |mine, theirs| mine & !theirs);
        Indices::new(low, &self.high, &other.high).map(K::at)
    }

    #[inline]
    fn word(&self, place: usize) -> u64 {
        match self.low.get(place) {
            Some(word) => *word,
            None => self.high.get(place - INLINE).copied().unwrap_or_default(),
        }
    }

    /// Returns true if `of` is zero for each word and its place.
    #[inline]
    fn are_zero(&self, of: impl Fn(usize, u64) -> u64) -> bool {
        let low = (0..INLINE).fold(0, |rest, place| rest | of(place, self.low[place]));
        low == 0 && self.high.iter().zip(INLINE..).all(|(word, place)| of(place, *word) == 0)
    }

    #[inline]
    fn zip(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let low = combine(self.low, other.low, &join);
        let places = INLINE..INLINE + self.high.len().max(other.high.len());
        let high = places.map(|place| join(self.word(place), other.word(place))).collect();
        Self { low, high, members: PhantomData }
    }
}

#[inline]
fn combine(mut mine: [u64; INLINE], theirs: [u64; INLINE], join: impl Fn(u64, u64) -> u64) -> [u64; INLINE] {
    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = join(*mine, theirs));
    mine
}

impl<K: Member> PartialEq for IndexSet<K> {
    fn eq(&self, other: &Self) -> bool {
        self.is_superset(other) && other.is_superset(self)
    }
}

impl<K: Member> Eq for IndexSet<K> {}

/// Iterator over the indices of an [`IndexSet`], ascending.
///
/// For each event, the code iterates over several sets, most of which are empty; so iteration over
/// an empty set has to be cheap.
#[derive(Clone, Debug)]
struct Indices<'a> {
    low: [u64; INLINE],
    high: &'a [u64],
    /// Bits that are left out of `high`.
    without: &'a [u64],
    /// Bits of the current word that the iterator has not returned.
    word: u64,
    /// Place of the current word.
    place: usize,
}

impl<'a> Indices<'a> {
    #[inline]
    fn new(low: [u64; INLINE], high: &'a [u64], without: &'a [u64]) -> Self {
        let place = if low == [0; INLINE] { INLINE - 1 } else { 0 };
        Self { low, high, without, word: low[place], place }
    }
}

impl Iterator for Indices<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        loop {
            // Subtracting 1 changes the lowest set bit and the zeros below it, so `&` clears this
            // bit.
            if let Some(lower) = self.word.checked_sub(1) {
                let bit = self.word.trailing_zeros() as usize;
                self.word &= lower;
                return Some(self.place * 64 + bit);
            }
            let place = self.place + 1;
            self.word = match self.low.get(place) {
                Some(word) => *word,
                None => {
                    let place = place - INLINE;
                    self.high.get(place)? & !self.without.get(place).unwrap_or(&0)
                }
            };
            self.place = place;
        }
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
