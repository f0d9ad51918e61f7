//! [`Batch`]: events of a file as columns of numbers.

use std::sync::Arc;

use pyo3::{exceptions::PyKeyError, prelude::*};

use crate::{event::Finding, memory::Memory, sys_map::FileMap};

/// Events of one file as columns of numbers.
#[pyclass(frozen, module = "evb._evb")]
pub(crate) struct Batch {
    batch: Arc<evb::file::Batch>,
    data: Data,
}

/// The bytes of a batch.
pub(crate) enum Data {
    /// A part of the mapped file.
    Mapped(Arc<FileMap>),
    /// Memory of the batch itself.
    Read(Arc<Vec<u8>>),
}

impl Batch {
    pub(crate) fn new(batch: evb::file::Batch, data: Data) -> Self {
        Self { batch: Arc::new(batch), data }
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.batch.len()
    }

    /// The part of the file that the batch comes from: first and last offset.
    fn place(&self) -> (u64, u64) {
        (self.batch.start, self.batch.end)
    }

    /// Damage that was found before, between or after the events.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.batch.findings.iter().map(Finding::of).collect()
    }

    /// The bytes of the batch.
    fn data(&self) -> PyResult<Memory> {
        match &self.data {
            Data::Read(bytes) => Ok(Memory::of(bytes, Arc::clone(bytes) as _)),
            Data::Mapped(map) => {
                let bytes = map.bytes().get(self.batch.start as usize..self.batch.end as usize);
                let bytes = bytes.ok_or_else(|| PyKeyError::new_err("data"))?;
                Ok(Memory::of(bytes, Arc::clone(map) as _))
            }
        }
    }

    /// A column, by the name of its field in the crate evb-file.
    fn column(&self, name: &str) -> PyResult<Memory> {
        let batch = &self.batch;
        let owner = Arc::clone(batch) as _;
        Ok(match name {
            "events" => Memory::column(&batch.events, owner),
            "epochs" => Memory::column(&batch.epochs, owner),
            "builders" => Memory::column(&batch.builders, owner),
            "runs" => Memory::column(&batch.runs, owner),
            "triggered" => Memory::column(&batch.triggered, owner),
            "records" => Memory::column(&batch.records, owner),
            "first_missing" => Memory::column(&batch.first_missing, owner),
            "missing" => Memory::column(&batch.missing, owner),
            "first_fragments" => Memory::column(&batch.first_fragments, owner),
            "sources" => Memory::column(&batch.sources, owner),
            "timestamps" => Memory::column(&batch.timestamps, owner),
            "checksums" => Memory::column(&batch.checksums, owner),
            "offsets" => Memory::column(&batch.offsets, owner),
            "lengths" => Memory::column(&batch.lengths, owner),
            _ => return Err(PyKeyError::new_err(name.to_owned())),
        })
    }
}
