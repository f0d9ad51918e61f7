//! [`Event`] and [`Finding`]: one built event, and one place of damage in a file.

use std::sync::Arc;

use evb::{event, file::ReadError};
use pyo3::prelude::*;

use crate::memory::Memory;

/// A built event.
#[pyclass(frozen, module = "evb._evb")]
pub(crate) struct Event(Arc<event::Event>);

/// Source, timestamp, checksum and payload of a fragment.
type Fragment = (u16, u64, u64, Memory);

/// Id, run, epoch, builder, time of the trigger in ns, and missing sources of an event.
type Head = (u64, u32, u64, u16, u64, Vec<u16>);

impl Event {
    pub(crate) fn new(event: event::Event) -> Self {
        Self(Arc::new(event))
    }
}

#[pymethods]
impl Event {
    fn head(&self) -> Head {
        let event = &self.0;
        let missing = event.missing_sources().map(|source| source.number()).collect();
        let (run, epoch) = (event.run.number(), event.epoch.number());
        (event.id.number(), run, epoch, event.builder.number(), event.triggered.as_nanos(), missing)
    }

    fn fragments(&self) -> Vec<Fragment> {
        let fragment = |part: event::FragmentView<'_>| {
            let payload = Memory::of(part.payload, Arc::clone(&self.0) as _);
            (part.source.number(), part.timestamp.ticks(), part.checksum.number(), payload)
        };
        self.0.fragments().map(fragment).collect()
    }
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
