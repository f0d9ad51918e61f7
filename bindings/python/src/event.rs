//! [`Event`] and [`Finding`]: one built event, and one place of damage in a file.

use std::sync::Arc;

use evb::{
    event::{self, Alignment, Cause, MissingSource},
    file::{ReadError, Recovery},
    id::RunId,
};
use pyo3::prelude::*;

use crate::memory::Memory;

/// A built event.
#[pyclass(frozen, module = "evb._evb")]
pub(crate) struct Event(Arc<event::Event>);

/// Source, timestamp, checksum, code of the state of alignment, number of lost packets, and payload
/// of a fragment.
type Fragment = (u16, u64, u64, u8, u32, Memory);

/// Id, run, epoch, builder, times of the trigger in ns (builder's clock and UTC), and run id of an
/// event.
type Head = (u64, u32, u64, u16, u64, u64, String, u64);

/// Ids of sources without a fragment, and the codes of the causes.
type Sources = (Vec<u16>, Vec<u8>);

impl Event {
    pub(crate) fn new(event: event::Event) -> Self {
        Self(Arc::new(event))
    }
}

#[pymethods]
impl Event {
    fn head(&self) -> Head {
        let event = &self.0;
        let (run, epoch, builder) = (event.run.number(), event.epoch.number(), event.builder.number());
        let (triggered, utc) = (event.triggered.as_nanos(), event.utc.as_nanos());
        (event.id.number(), run, epoch, builder, triggered, utc, digits(event.run_id), event.tag)
    }

    fn missing(&self) -> Sources {
        sources(&self.0.missing)
    }

    fn absent(&self) -> Sources {
        sources(&self.0.absent)
    }

    fn fragments(&self) -> Vec<Fragment> {
        let fragment = |part: event::FragmentView<'_>| {
            let payload = Memory::of(part.payload, Arc::clone(&self.0) as _);
            let (checksum, state) = (part.checksum.number(), part.alignment.code());
            (part.source.number(), part.timestamp.ticks(), checksum, state, part.lost_packets, payload)
        };
        self.0.fragments().map(fragment).collect()
    }
}

fn sources(list: &[MissingSource]) -> Sources {
    list.iter().map(|missing| (missing.source.number(), missing.cause.code())).unzip()
}

/// Returns the 32 digits of a run id; no text if the id is not known.
pub(crate) fn digits(id: RunId) -> String {
    if id.is_known() { id.to_string() } else { String::new() }
}

/// The cause with this code in words.
#[pyfunction]
pub(crate) fn cause_text(code: u8) -> String {
    Cause::from_code(code).to_string()
}

/// The state of alignment with this code in words.
#[pyfunction]
pub(crate) fn alignment_text(code: u8) -> String {
    Alignment::from_code(code).to_string()
}

/// One place of damage in a file.
#[pyclass(frozen, get_all, module = "evb._evb")]
pub(crate) struct Finding {
    /// `file`, `header`, `damaged`, `torn_tail`, `too_large` or `wrong_index`.
    kind: &'static str,
    /// Path of the file.
    path: String,
    /// Offset of the damage in the file, in bytes.
    offset: u64,
    /// Number of bytes that cannot be read.
    length: u64,
    /// The event of the damaged record, if its head is intact.
    event: Option<u64>,
    /// The finding as a sentence.
    text: String,
}

impl Finding {
    pub(crate) fn of(error: &ReadError) -> Self {
        let (kind, path, offset, length, event) = match error {
            ReadError::File(error) => ("file", &error.path, 0, 0, None),
            ReadError::Header { path, .. } => ("header", path, 0, 0, None),
            ReadError::Damaged { path, offset, length, event, .. } => {
                ("damaged", path, *offset, length.count(), *event)
            }
            ReadError::TornTail { path, offset, length, event } => {
                ("torn_tail", path, *offset, length.count(), *event)
            }
            ReadError::TooLarge { path, offset, size, event, .. } => {
                ("too_large", path, *offset, size.count(), Some(*event))
            }
            ReadError::WrongIndex { path, offset, event } => ("wrong_index", path, *offset, 0, Some(*event)),
        };
        let (path, event) = (path.display().to_string(), event.map(|event| event.number()));
        Self { kind, path, offset, length, event, text: error.to_string() }
    }

    /// Returns the finding about a damaged header that was recovered.
    pub(crate) fn recovered(path: String, recovery: Recovery) -> Self {
        let text = format!("{path}: {recovery}");
        Self { kind: "header", path, offset: 0, length: 0, event: None, text }
    }
}

#[pymethods]
impl Finding {
    fn __repr__(&self) -> String {
        format!("<Finding {}: {}>", self.kind, self.text)
    }

    fn __str__(&self) -> &str {
        &self.text
    }
}
