//! [`Batch`]: events of a file as columns of numbers.

use std::sync::Arc;

use evb::{event::Alignment, file::EpochRange, id::Epoch};
use pyo3::{exceptions::PyKeyError, prelude::*};

use crate::{
    event::{Finding, digits},
    memory::Memory,
    sys_map::FileMap,
};

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

/// The events that a program wants of the files that it opens.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    /// The epochs of their records; `None` for all.
    pub(crate) epochs: Option<EpochRange>,
    /// True if none of their fragments may disagree.
    pub(crate) aligned: bool,
}

impl Wanted {
    pub(crate) fn has_epoch(self, epoch: Epoch) -> bool {
        self.epochs.is_none_or(|range| range.contains(epoch))
    }

    fn has_row(self, batch: &evb::file::Batch, row: usize) -> bool {
        let disagrees = |code: &u8| *code == Alignment::Disagrees.code();
        let fragments = batch.first_fragments[row] as usize..batch.first_fragments[row + 1] as usize;
        self.has_epoch(Epoch::new(batch.epochs[row]))
            && !(self.aligned && batch.alignments[fragments].iter().any(disagrees))
    }
}

/// Returns the batch with those of its events that are wanted.
pub(crate) fn only(batch: evb::file::Batch, wanted: Wanted) -> evb::file::Batch {
    if (0..batch.len()).all(|row| wanted.has_row(&batch, row)) {
        return batch;
    }
    let mut kept = evb::file::Batch {
        start: batch.start,
        end: batch.end,
        first_missing: vec![0],
        first_absent: vec![0],
        first_fragments: vec![0],
        ..evb::file::Batch::default()
    };
    for row in 0..batch.len() {
        if !wanted.has_row(&batch, row) {
            continue;
        }
        kept.events.push(batch.events[row]);
        kept.epochs.push(batch.epochs[row]);
        kept.builders.push(batch.builders[row]);
        kept.runs.push(batch.runs[row]);
        kept.run_ids.push(batch.run_ids[row]);
        kept.triggered.push(batch.triggered[row]);
        kept.utc.push(batch.utc[row]);
        kept.tags.push(batch.tags[row]);
        kept.records.push(batch.records[row]);
        let rows = |first: &[u64]| first[row] as usize..first[row + 1] as usize;
        let missing = rows(&batch.first_missing);
        kept.missing.extend_from_slice(&batch.missing[missing.clone()]);
        kept.causes.extend_from_slice(&batch.causes[missing]);
        kept.first_missing.push(kept.missing.len() as u64);
        let absent = rows(&batch.first_absent);
        kept.absent.extend_from_slice(&batch.absent[absent.clone()]);
        kept.absent_causes.extend_from_slice(&batch.absent_causes[absent]);
        kept.first_absent.push(kept.absent.len() as u64);
        let fragments = rows(&batch.first_fragments);
        kept.sources.extend_from_slice(&batch.sources[fragments.clone()]);
        kept.timestamps.extend_from_slice(&batch.timestamps[fragments.clone()]);
        kept.checksums.extend_from_slice(&batch.checksums[fragments.clone()]);
        kept.alignments.extend_from_slice(&batch.alignments[fragments.clone()]);
        kept.lost_packets.extend_from_slice(&batch.lost_packets[fragments.clone()]);
        kept.offsets.extend_from_slice(&batch.offsets[fragments.clone()]);
        kept.lengths.extend_from_slice(&batch.lengths[fragments]);
        kept.first_fragments.push(kept.sources.len() as u64);
    }
    kept.findings = batch.findings;
    kept
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

    /// The ids of the events' runs: for each row from which on there is another id, the row and the
    /// id.
    fn run_ids(&self) -> Vec<(usize, String)> {
        let ids = &self.batch.run_ids;
        let is_new = |row: &usize| *row == 0 || ids[*row] != ids[*row - 1];
        (0..ids.len()).filter(is_new).map(|row| (row, digits(ids[row]))).collect()
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
            "utc" => Memory::column(&batch.utc, owner),
            "tags" => Memory::column(&batch.tags, owner),
            "records" => Memory::column(&batch.records, owner),
            "first_missing" => Memory::column(&batch.first_missing, owner),
            "missing" => Memory::column(&batch.missing, owner),
            "causes" => Memory::column(&batch.causes, owner),
            "first_absent" => Memory::column(&batch.first_absent, owner),
            "absent" => Memory::column(&batch.absent, owner),
            "absent_causes" => Memory::column(&batch.absent_causes, owner),
            "first_fragments" => Memory::column(&batch.first_fragments, owner),
            "sources" => Memory::column(&batch.sources, owner),
            "timestamps" => Memory::column(&batch.timestamps, owner),
            "checksums" => Memory::column(&batch.checksums, owner),
            "alignments" => Memory::column(&batch.alignments, owner),
            "lost_packets" => Memory::column(&batch.lost_packets, owner),
            "offsets" => Memory::column(&batch.offsets, owner),
            "lengths" => Memory::column(&batch.lengths, owner),
            _ => return Err(PyKeyError::new_err(name.to_owned())),
        })
    }
}
