//! Positions in lists as types of their own, so that the compiler finds mix-ups of lanes and slots;
//! and `Per`, a list with one value for each peer.

#[cfg(test)]
mod tests;

use core::{
    fmt,
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// A position in a list.
pub(crate) trait Position: Copy {
    /// Returns the position with that number, counted from 0.
    fn at(number: usize) -> Self;

    /// Returns the number of this position, counted from 0.
    fn get(self) -> usize;
}

macro_rules! position {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// Returns the position with that number, counted from 0.
            pub const fn new(number: usize) -> Self {
                Self(number as $inner)
            }

            /// Returns the first `count` positions.
            pub fn all(count: usize) -> impl DoubleEndedIterator<Item = Self> {
                (0..count).map(Self::new)
            }

            /// Returns the number of this position, counted from 0.
            pub const fn get(self) -> usize {
                self.0 as usize
            }
        }

        impl Position for $name {
            fn at(number: usize) -> Self {
                Self::new(number)
            }

            fn get(self) -> usize {
                self.get()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<T> Index<$name> for Vec<T> {
            type Output = T;

            #[inline]
            fn index(&self, position: $name) -> &T {
                &self[position.get()]
            }
        }

        impl<T> IndexMut<$name> for Vec<T> {
            #[inline]
            fn index_mut(&mut self, position: $name) -> &mut T {
                &mut self[position.get()]
            }
        }

        impl<T> Index<$name> for [T] {
            type Output = T;

            #[inline]
            fn index(&self, position: $name) -> &T {
                &self[position.get()]
            }
        }
    };
}

position! {
    /// A source's position in the roster.
    SourceIndex(u16)
}
position! {
    /// A builder's position in the roster, or in a plan.
    BuilderIndex(u16)
}
position! {
    /// A lane's position in its list: at a builder the position of the lane's source in the roster,
    /// at a source the position of the lane's builder among all builders that the source has met.
    LaneIndex(usize)
}
position! {
    /// A clock's position in the list of the clocks that a guard watches.
    ClockIndex(u16)
}
position! {
    /// A slot's position in the list of its builder's slots.
    SlotIndex(u32)
}

/// One value for each peer of a role, in the order of the roster.
#[derive(Clone, Debug)]
pub(crate) struct Per<K, T>(Vec<T>, PhantomData<K>);

impl<K: Position, T> Per<K, T> {
    /// Adds the value for the next position.
    pub(crate) fn push(&mut self, value: T) {
        self.0.push(value);
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the value at that position; `None` beyond the end of the list.
    pub(crate) fn get(&self, position: K) -> Option<&T> {
        self.0.get(position.get())
    }

    /// Returns all values.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Returns all values for changes in place.
    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// Returns all values as a slice.
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Returns all positions. The caller may change the list during the iteration.
    pub(crate) fn positions(&self) -> impl DoubleEndedIterator<Item = K> + use<K, T> {
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
