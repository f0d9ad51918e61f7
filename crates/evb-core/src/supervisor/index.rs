//! Positions in the roster as types: [`SourceIndex`], [`BuilderIndex`], and [`Per`], a list with one value for each.

#[cfg(test)]
mod tests;

use core::{
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// A position in a list of peers.
pub(super) trait Position: Copy {
    /// Returns the position of that number, from 0.
    fn at(number: usize) -> Self;

    /// Returns its number, from 0.
    fn get(self) -> usize;
}

macro_rules! position {
    ($name:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) struct $name(u16);

        impl Position for $name {
            fn at(number: usize) -> Self {
                Self(number as u16)
            }

            fn get(self) -> usize {
                self.0.into()
            }
        }
    };
}

position!(SourceIndex, "A source's position in the roster.");
position!(BuilderIndex, "A builder's position in the roster.");

/// One value for each peer of a kind, in the order of the roster.
#[derive(Clone, Debug)]
pub(super) struct Per<K, T>(Vec<T>, PhantomData<K>);

impl<K: Position, T> Per<K, T> {
    pub(super) fn push(&mut self, value: T) {
        self.0.push(value);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, position: K) -> Option<&T> {
        self.0.get(position.get())
    }

    pub(super) fn iter(&self) -> core::slice::Iter<'_, T> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    pub(super) fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Returns all positions; the list may change while they are gone through.
    pub(super) fn positions(&self) -> impl DoubleEndedIterator<Item = K> + use<K, T> {
        (0..self.0.len()).map(K::at)
    }
}

impl<K, T> FromIterator<T> for Per<K, T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect(), PhantomData)
    }
}

impl<K: Position, T> Index<K> for Per<K, T> {
    type Output = T;

    fn index(&self, position: K) -> &T {
        &self.0[position.get()]
    }
}

impl<K: Position, T> IndexMut<K> for Per<K, T> {
    fn index_mut(&mut self, position: K) -> &mut T {
        &mut self.0[position.get()]
    }
}
