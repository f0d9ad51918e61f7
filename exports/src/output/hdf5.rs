//! HDF5: flat columns of events and fragments, and one array with the bytes of all payloads.
//!
//! A dataset for each fragment would be the obvious layout, but HDF5 takes some 10 µs and some
//! hundred bytes for each dataset.

mod column;

use hdf5_pure::{
    AttrValue, File, FileAccessProperties, FileBuilder, FileLocking, MemoryStrategy, SyncPolicy,
};

use self::column::{CHUNK, Column, Number, data_chunk, declare};
use super::{About, CREATOR, LAYOUT, Output, OutputError};
use crate::{block::Block, counts::Counts, staged::Staged};

/// An HDF5 file that is being written.
pub(super) struct Hdf5 {
    file: File,
    events: Events,
    fragments: Fragments,
    missing: Column,
    data: Column,
}

/// A column for each property of an event.
struct Events {
    event: Column,
    builder: Column,
    epoch: Column,
    triggered_ns: Column,
    first_fragment: Column,
    first_missing: Column,
}

/// A column for each property of a fragment.
struct Fragments {
    event_row: Column,
    source: Column,
    timestamp: Column,
    offset: Column,
    length: Column,
    checksum: Column,
}

impl Hdf5 {
    /// Writes an empty file with all datasets, and opens them for appending.
    /// About `expected` bytes of payload will follow.
    pub(super) fn begin(staged: &Staged, expected: u64) -> Result<Self, OutputError> {
        let data_chunk = data_chunk(expected);
        let mut builder = FileBuilder::new();
        builder.set_attr("creator", AttrValue::VarLenString(CREATOR.to_owned()));
        builder.set_attr("layout", AttrValue::U64(LAYOUT));
        let mut events = builder.create_group("events");
        for (name, number, unit) in EVENTS {
            declare(events.create_dataset(name), number, unit, CHUNK);
        }
        builder.add_group(events.finish());
        let mut fragments = builder.create_group("fragments");
        for (name, number, unit) in FRAGMENTS {
            declare(fragments.create_dataset(name), number, unit, CHUNK);
        }
        builder.add_group(fragments.finish());
        declare(builder.create_dataset("missing"), Number::U16, "source id", CHUNK);
        declare(builder.create_dataset("data"), Number::U8, "bytes of all payloads", data_chunk);
        staged.begin(&builder.finish()?)?;

        // The lock of the temporary file keeps others away already, and the whole file is synced
        // before it gets its name.
        let access = FileAccessProperties::new()
            .with_locking(FileLocking::Disabled)
            .with_memory_strategy(MemoryStrategy::Bounded)
            .with_sync_policy(SyncPolicy::OnClose);
        let file = File::open_rw_with_options(staged.part(), access)?;
        let mut hdf5 = Self {
            events: Events::open(&file)?,
            fragments: Fragments::open(&file)?,
            missing: Column::open(&file, "missing", Number::U16, CHUNK)?,
            data: Column::open(&file, "data", Number::U8, data_chunk)?,
            file,
        };
        // Offsets begin with 0, so that rows i and i + 1 enclose what belongs to event i.
        hdf5.events.first_fragment.push(0)?;
        hdf5.events.first_missing.push(0)?;
        Ok(hdf5)
    }
}

/// The columns of events, with their units.
const EVENTS: [(&str, Number, &str); 6] = [
    ("event", Number::U64, "event id"),
    ("builder", Number::U16, "builder id"),
    ("epoch", Number::U64, "epoch"),
    ("triggered_ns", Number::U64, "ns on the builder's clock"),
    ("first_fragment", Number::U64, "row in /fragments"),
    ("first_missing", Number::U64, "row in /missing"),
];

/// The columns of fragments, with their units.
const FRAGMENTS: [(&str, Number, &str); 6] = [
    ("event_row", Number::U64, "row in /events"),
    ("source", Number::U16, "source id"),
    ("timestamp", Number::U64, "ticks of the detector's clock"),
    ("offset", Number::U64, "byte in /data"),
    ("length", Number::U32, "bytes"),
    ("checksum", Number::U64, "CRC-64/NVME of the payload"),
];

impl Events {
    fn open(file: &File) -> Result<Self, OutputError> {
        let [event, builder, epoch, triggered_ns, first_fragment, first_missing] =
            EVENTS.map(|(name, number, _)| Column::open(file, &format!("events/{name}"), number, CHUNK));
        Ok(Self {
            event: event?,
            builder: builder?,
            epoch: epoch?,
            triggered_ns: triggered_ns?,
            first_fragment: first_fragment?,
            first_missing: first_missing?,
        })
    }
}

impl Fragments {
    fn open(file: &File) -> Result<Self, OutputError> {
        let [event_row, source, timestamp, offset, length, checksum] = FRAGMENTS
            .map(|(name, number, _)| Column::open(file, &format!("fragments/{name}"), number, CHUNK));
        Ok(Self {
            event_row: event_row?,
            source: source?,
            timestamp: timestamp?,
            offset: offset?,
            length: length?,
            checksum: checksum?,
        })
    }
}

impl Output for Hdf5 {
    fn write(&mut self, block: &mut Block) -> Result<(), OutputError> {
        let (events, fragments) = (&mut self.events, &mut self.fragments);
        let mut offset = self.data.len();
        for record in &block.records {
            let row = events.event.len();
            events.event.push(record.event.number())?;
            events.builder.push(record.builder.number().into())?;
            events.epoch.push(record.epoch.number())?;
            events.triggered_ns.push(record.triggered.as_nanos())?;
            for fragment in &record.fragments {
                fragments.event_row.push(row)?;
                fragments.source.push(fragment.source.number().into())?;
                fragments.timestamp.push(fragment.timestamp.ticks())?;
                fragments.offset.push(offset)?;
                fragments.length.push(fragment.length.into())?;
                fragments.checksum.push(fragment.checksum.number())?;
                offset += u64::from(fragment.length);
            }
            for source in record.missing.iter().map(|missing| missing.source) {
                self.missing.push(source.number().into())?;
            }
            events.first_fragment.push(fragments.source.len())?;
            events.first_missing.push(self.missing.len())?;
        }
        self.data.append(&block.memory)
    }

    fn finish(self: Box<Self>, about: &About, counts: &Counts) -> Result<(), OutputError> {
        let Self { file, events, fragments, missing, data } = *self;
        let Events { event, builder, epoch, triggered_ns, first_fragment, first_missing } = events;
        let Fragments { event_row, source, timestamp, offset, length, checksum } = fragments;
        let columns = [event, builder, epoch, triggered_ns, first_fragment, first_missing];
        let more = [event_row, source, timestamp, offset, length, checksum, missing, data];
        for column in columns.into_iter().chain(more) {
            column.finish()?;
        }
        let root = file.root();
        root.set_attr("run", AttrValue::U64(about.identity.run.number().into()))?;
        root.set_attr("run_epoch", AttrValue::U64(about.identity.epoch.number()))?;
        for (name, count) in counts.named() {
            root.set_attr(name, AttrValue::U64(count))?;
        }
        for (name, text) in &about.texts {
            root.set_attr(name, AttrValue::VarLenString(text.clone()))?;
        }
        file.commit()?;
        Ok(file.close()?)
    }
}
