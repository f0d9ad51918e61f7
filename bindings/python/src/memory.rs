//! [`Memory`]: bytes that Python reads where they are.

use std::{any::Any, sync::Arc};

use pyo3::prelude::*;

/// Read-only memory that Rust owns. The memory stays where it is, and unchanged, as long as this
/// object lives.
#[pyclass(frozen, module = "evb._evb")]
pub(crate) struct Memory {
    /// Address of the first byte.
    #[pyo3(get)]
    address: usize,
    /// Number of bytes.
    #[pyo3(get)]
    size: usize,
    /// Keeps the memory alive.
    _owner: Arc<dyn Any + Send + Sync>,
}

impl Memory {
    /// Returns the memory of `bytes`, which must belong to `owner`.
    pub(crate) fn of(bytes: &[u8], owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self { address: bytes.as_ptr() as usize, size: bytes.len(), _owner: owner }
    }

    /// Returns the memory of a column of numbers, which must belong to `owner`.
    pub(crate) fn column<N>(numbers: &[N], owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self { address: numbers.as_ptr() as usize, size: size_of_val(numbers), _owner: owner }
    }
}
