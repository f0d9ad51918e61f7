//! [`EventFile`] and [`Batches`]: one event file, and its events in batches.

use std::{
    collections::{BTreeMap, HashSet},
    num::NonZeroUsize,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
};

use evb::{
    file::{self, EpochRange, IndexEntry, IndexState, OwingChange, ReadAhead, Recovery},
    id::{Epoch, EventId},
};
use pyo3::{exceptions::PyIndexError, prelude::*};

use crate::{
    batch::{Batch, Data, Wanted, only},
    errors::unreadable,
    event::{Event, Finding, digits},
    sys_map::FileMap,
};

/// An episode: source, first and last event, kind, shift, misaligned, disputed, and a sentence.
type Episode = (u16, u64, Option<u64>, String, Option<i64>, bool, bool, String);

/// A change: source, excluded, first event, time of the request, and reason.
type Change = (u16, bool, u64, u64, String);

/// An open event file.
#[pyclass(frozen, module = "evb._evb")]
pub(crate) struct EventFile {
    file: Arc<file::EventFile>,
    /// The file in memory, if it was closed by its writer and can be mapped.
    map: Option<Arc<FileMap>>,
    wanted: Wanted,
    /// The entries of all records of the epochs in the order of the file, once they are needed.
    entries: OnceLock<Vec<IndexEntry>>,
    /// Those of them whose events are wanted, if these are fewer.
    wanted_entries: OnceLock<Vec<IndexEntry>>,
}

#[pymethods]
impl EventFile {
    #[new]
    #[pyo3(signature = (path, epochs=None, aligned=false))]
    fn open(py: Python<'_>, path: PathBuf, epochs: Option<(u64, u64)>, aligned: bool) -> PyResult<Self> {
        let file = py.detach(|| file::EventFile::open(path)).map_err(|error| unreadable(&error))?;
        // A file without an index may still be written, and even be truncated by its writer. It is
        // read, because reading a mapped page that no longer exists would kill the process.
        let is_closed = file.index_state() == IndexState::Present;
        let map = if is_closed { FileMap::open(file.path()).ok() } else { None };
        // Another program may have replaced the file between the two calls that open it.
        let map = map.filter(|map| map.bytes().len() as u64 == file.size().count()).map(Arc::new);
        let epochs =
            epochs.map(|(first, last)| EpochRange { first: Epoch::new(first), last: Epoch::new(last) });
        Ok(Self {
            file: Arc::new(file),
            map,
            wanted: Wanted { epochs, aligned },
            entries: OnceLock::new(),
            wanted_entries: OnceLock::new(),
        })
    }

    /// The version of the file's format.
    #[getter]
    fn format(&self) -> u16 {
        self.file.header().version.number()
    }

    #[getter]
    fn run_id(&self) -> String {
        digits(self.file.header().run_id)
    }

    #[getter]
    fn begin_ns(&self) -> u64 {
        self.file.header().begun.as_nanos()
    }

    #[getter]
    fn clock_synchronised(&self) -> Option<bool> {
        self.file.header().clock_synchronised
    }

    #[getter]
    fn kind(&self) -> &str {
        &self.file.header().kind
    }

    #[getter]
    fn comment(&self) -> &str {
        &self.file.header().comment
    }

    #[getter]
    fn source_names(&self) -> BTreeMap<u16, String> {
        let names = &self.file.header().source_names;
        names.iter().map(|(source, name)| (source.number(), name.clone())).collect()
    }

    #[getter]
    fn builder_names(&self) -> BTreeMap<u16, String> {
        let names = &self.file.header().builder_names;
        names.iter().map(|(builder, name)| (builder.number(), name.clone())).collect()
    }

    /// The episodes of sources whose timestamps disagreed.
    fn episodes(&self) -> Vec<Episode> {
        let told = self.file.episodes().into_iter();
        told.map(|one| {
            let (source, since) = (one.source.number(), one.since.number());
            let until = one.until.map(|event| event.number());
            (source, since, until, one.kind, one.shift, one.misaligned, one.disputed, one.text)
        })
        .collect()
    }

    /// The changes by which sources were excluded or included, by all these files.
    #[staticmethod]
    fn changes(files: Vec<PyRef<'_, Self>>) -> Vec<Change> {
        let all = OwingChange::joined(files.iter().flat_map(|one| one.file.changes()).collect()).into_iter();
        all.map(|one| (one.source.number(), one.excluded, one.from.number(), one.utc.as_nanos(), one.why))
            .collect()
    }

    /// The part of the file from which a damaged header was recovered.
    #[getter]
    fn recovered(&self) -> Option<&'static str> {
        self.file.recovery().map(|recovery| match recovery {
            Recovery::ClosingBlock => "closing block",
            Recovery::Records => "records",
        })
    }

    /// The finding about a recovered header.
    fn header_finding(&self) -> Option<Finding> {
        let path = self.file.path().display().to_string();
        self.file.recovery().map(|recovery| Finding::recovered(path, recovery))
    }

    #[getter]
    fn run(&self) -> u32 {
        self.file.header().run.number()
    }

    #[getter]
    fn epoch(&self) -> u64 {
        self.file.header().epoch.number()
    }

    #[getter]
    fn builder(&self) -> Option<u16> {
        self.file.header().builder.map(|builder| builder.number())
    }

    #[getter]
    fn sequence(&self) -> u32 {
        self.file.header().sequence
    }

    #[getter]
    fn created_ns(&self) -> u64 {
        self.file.header().created_unix_ns
    }

    #[getter]
    fn sources(&self) -> Vec<u16> {
        self.file.header().sources.iter().map(|source| source.number()).collect()
    }

    #[getter]
    fn creator(&self) -> &str {
        &self.file.header().creator
    }

    #[getter]
    fn size(&self) -> u64 {
        self.file.size().count()
    }

    #[getter]
    fn index(&self) -> &'static str {
        match self.file.index_state() {
            IndexState::Present => "present",
            IndexState::Absent => "absent",
            IndexState::Damaged => "damaged",
        }
    }

    /// The number of records.
    fn records(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| match self.wanted {
            Wanted { epochs: None, aligned: false } => self.file.index_len(),
            _ => self.wanted_entries().map(<[IndexEntry]>::len),
        })
        .map_err(|error| unreadable(&error))
    }

    /// The event at a position in the order of the file.
    fn event_at(&self, py: Python<'_>, position: usize) -> PyResult<Event> {
        let event = py.detach(|| {
            let entry = self.wanted_entries()?.get(position).copied();
            entry.map(|entry| self.file.event_at(entry)).transpose()
        });
        let found = event.map_err(|error| unreadable(&error))?;
        found.map(Event::new).ok_or_else(|| PyIndexError::new_err(position))
    }

    /// The event of an id, of the highest epoch if none is given, aligned or not.
    #[pyo3(signature = (id, epoch=None))]
    fn event(&self, py: Python<'_>, id: u64, epoch: Option<u64>) -> PyResult<Option<Event>> {
        let id = EventId::new(id);
        let event = py.detach(|| match (epoch.map(Epoch::new), self.wanted.epochs) {
            (None, None) => self.file.event(id),
            (None, Some(_)) => {
                let copies = self.entries()?.iter().filter(|entry| entry.event == id);
                let newest = copies.max_by_key(|entry| entry.epoch).copied();
                newest.map(|entry| self.file.event_at(entry)).transpose()
            }
            (Some(epoch), range) if range.is_none_or(|range| range.contains(epoch)) => {
                self.file.event_in_epoch(id, epoch)
            }
            (Some(_), _) => Ok(None),
        });
        Ok(event.map_err(|error| unreadable(&error))?.map(Event::new))
    }

    /// The events in batches of at most `most`.
    fn batches(&self, most: usize) -> Batches {
        let file = Arc::clone(&self.file);
        let reader = match &self.map {
            None => Reader::Read(file::Batches::new(file), most),
            Some(map) => {
                let batches = ReadAhead::new(file, Arc::clone(map), most, threads());
                Reader::Mapped { batches, map: Arc::clone(map), before: (0, 0) }
            }
        };
        Batches { reader: Mutex::new(reader), wanted: self.wanted }
    }

    /// Reads the whole file, and returns all damage.
    fn findings(&self, py: Python<'_>) -> PyResult<Vec<Finding>> {
        /// Number of events between two looks for Ctrl-C.
        const EVENTS: usize = 10_000;
        let batches = self.batches(EVENTS);
        let mut found: Vec<Finding> = self.header_finding().into_iter().collect();
        while let Some(batch) = batches.next(py) {
            found.extend(batch.findings());
            py.check_signals()?;
        }
        Ok(found)
    }
}

impl EventFile {
    fn entries(&self) -> Result<&[IndexEntry], file::ReadError> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let mut entries = self.file.index_entries(0, self.file.index_len()?)?;
        entries.retain(|entry| self.wanted.has_epoch(entry.epoch));
        entries.sort_by_key(|entry| entry.offset);
        Ok(self.entries.get_or_init(|| entries))
    }

    /// Returns the entries of the events that are wanted. A record whose head is damaged counts: it
    /// may be such an event.
    fn wanted_entries(&self) -> Result<&[IndexEntry], file::ReadError> {
        let all = self.entries()?;
        if !self.wanted.aligned {
            return Ok(all);
        }
        if let Some(entries) = self.wanted_entries.get() {
            return Ok(entries);
        }
        let mut misaligned = HashSet::new();
        for record in self.file.records() {
            match record {
                Ok(record) if !record.is_aligned() => drop(misaligned.insert(record.offset)),
                Err(error @ file::ReadError::File(_)) => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        let entries = all.iter().filter(|entry| !misaligned.contains(&entry.offset)).copied().collect();
        Ok(self.wanted_entries.get_or_init(|| entries))
    }
}

/// Returns the number of threads that read batches. Four threads read from memory about as fast
/// as any number of them, so the program's other threads keep the other cores.
fn threads() -> NonZeroUsize {
    const MOST: NonZeroUsize = NonZeroUsize::new(4).unwrap();
    thread::available_parallelism().map_or(NonZeroUsize::MIN, |cores| cores.min(MOST))
}

/// A reader of one file in batches.
#[pyclass(frozen, module = "evb._evb")]
pub(crate) struct Batches {
    reader: Mutex<Reader>,
    wanted: Wanted,
}

enum Reader {
    /// Reads into memory of its own.
    Read(file::Batches<Arc<file::EventFile>>, usize),
    Mapped {
        batches: ReadAhead<Arc<file::EventFile>, Arc<FileMap>>,
        map: Arc<FileMap>,
        /// First and last offset of the batch before.
        before: (u64, u64),
    },
}

#[pymethods]
impl Batches {
    /// The next events; `None` after the last event.
    fn next(&self, py: Python<'_>) -> Option<Batch> {
        py.detach(|| self.reader.lock().unwrap_or_else(PoisonError::into_inner).next(self.wanted))
    }
}

impl Reader {
    fn next(&mut self, wanted: Wanted) -> Option<Batch> {
        let chosen = |batch| match wanted {
            Wanted { epochs: None, aligned: false } => batch,
            _ => only(batch, wanted),
        };
        match self {
            Self::Read(batches, most) => {
                let mut memory = Vec::new();
                let batch = batches.read_next(&mut memory, *most)?;
                Some(Batch::new(chosen(batch), Data::Read(Arc::new(memory))))
            }
            Self::Mapped { batches, map, before } => {
                map.release(before.0, before.1);
                let batch = batches.next()?;
                *before = (batch.start, batch.end);
                Some(Batch::new(chosen(batch), Data::Mapped(Arc::clone(map))))
            }
        }
    }
}
