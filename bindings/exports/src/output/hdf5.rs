//! HDF5: flat columns of events and fragments, and one array with the bytes of all payloads.
//!
//! A dataset for each fragment would be the obvious layout, but HDF5 takes some 10 µs and some
//! hundred bytes for each dataset.

mod column;

use evb_core::event::MissingSource;
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
    missing: Sources,
    absent: Sources,
    data: Column,
}

/// A column for each property of an event.
struct Events {
    event: Column,
    builder: Column,
    epoch: Column,
    triggered_ns: Column,
    utc_ns: Column,
    first_fragment: Column,
    first_missing: Column,
    first_absent: Column,
}

/// Sources without a fragment, and the causes.
struct Sources {
    source: Column,
    cause: Column,
}

/// A column for each property of a fragment.
struct Fragments {
    event_row: Column,
    source: Column,
    timestamp: Column,
    offset: Column,
    length: Column,
    checksum: Column,
    alignment: Column,
    lost_packets: Column,
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
        for name in ["missing", "absent"] {
            declare(builder.create_dataset(name), Number::U16, "source id", CHUNK);
            let cause = format!("{name}_cause");
            declare(builder.create_dataset(&cause), Number::U8, "code of the cause", CHUNK);
        }
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
            missing: Sources::open(&file, "missing")?,
            absent: Sources::open(&file, "absent")?,
            data: Column::open(&file, "data", Number::U8, data_chunk)?,
            file,
        };
        // Offsets begin with 0, so that rows i and i + 1 enclose what belongs to event i.
        hdf5.events.first_fragment.push(0)?;
        hdf5.events.first_missing.push(0)?;
        hdf5.events.first_absent.push(0)?;
        Ok(hdf5)
    }
}

/// The columns of events, with their units.
const EVENTS: [(&str, Number, &str); 8] = [
    ("event", Number::U64, "event id"),
    ("builder", Number::U16, "builder id"),
    ("epoch", Number::U64, "epoch"),
    ("triggered_ns", Number::U64, "ns on the builder's clock"),
    ("utc_ns", Number::U64, "ns since 1970, UTC; 0 unknown"),
    ("first_fragment", Number::U64, "row in /fragments"),
    ("first_missing", Number::U64, "row in /missing"),
    ("first_absent", Number::U64, "row in /absent"),
];

/// The columns of fragments, with their units.
const FRAGMENTS: [(&str, Number, &str); 8] = [
    ("event_row", Number::U64, "row in /events"),
    ("source", Number::U16, "source id"),
    ("timestamp", Number::U64, "ticks of the detector's clock"),
    ("offset", Number::U64, "byte in /data"),
    ("length", Number::U32, "bytes"),
    ("checksum", Number::U64, "CRC-64/NVME of the payload"),
    ("alignment", Number::U8, "code of the state of alignment"),
    ("lost_packets", Number::U32, "packets lost before the source"),
];

impl Events {
    fn open(file: &File) -> Result<Self, OutputError> {
        let [event, builder, epoch, triggered_ns, utc_ns, first_fragment, first_missing, first_absent] =
            EVENTS.map(|(name, number, _)| Column::open(file, &format!("events/{name}"), number, CHUNK));
        Ok(Self {
            event: event?,
            builder: builder?,
            epoch: epoch?,
            triggered_ns: triggered_ns?,
            utc_ns: utc_ns?,
            first_fragment: first_fragment?,
            first_missing: first_missing?,
            first_absent: first_absent?,
        })
    }
}

impl Sources {
    fn open(file: &File, name: &str) -> Result<Self, OutputError> {
        Ok(Self {
            source: Column::open(file, name, Number::U16, CHUNK)?,
            cause: Column::open(file, &format!("{name}_cause"), Number::U8, CHUNK)?,
        })
    }

    fn push(&mut self, sources: &[MissingSource]) -> Result<(), OutputError> {
        for missing in sources {
            self.source.push(missing.source.number().into())?;
            self.cause.push(missing.cause.code().into())?;
        }
        Ok(())
    }
}

impl Fragments {
    fn open(file: &File) -> Result<Self, OutputError> {
        let [event_row, source, timestamp, offset, length, checksum, alignment, lost_packets] = FRAGMENTS
            .map(|(name, number, _)| Column::open(file, &format!("fragments/{name}"), number, CHUNK));
        Ok(Self {
            event_row: event_row?,
            source: source?,
            timestamp: timestamp?,
            offset: offset?,
            length: length?,
            checksum: checksum?,
            alignment: alignment?,
            lost_packets: lost_packets?,
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
            events.utc_ns.push(record.utc.as_nanos())?;
            for fragment in &record.fragments {
                fragments.event_row.push(row)?;
                fragments.source.push(fragment.source.number().into())?;
                fragments.timestamp.push(fragment.timestamp.ticks())?;
                fragments.offset.push(offset)?;
                fragments.length.push(fragment.length.into())?;
                fragments.checksum.push(fragment.checksum.number())?;
                fragments.alignment.push(fragment.alignment.code().into())?;
                fragments.lost_packets.push(fragment.lost_packets.into())?;
                offset += u64::from(fragment.length);
            }
            self.missing.push(&record.missing)?;
            self.absent.push(&record.absent)?;
            events.first_fragment.push(fragments.source.len())?;
            events.first_missing.push(self.missing.source.len())?;
            events.first_absent.push(self.absent.source.len())?;
        }
        self.data.append(&block.memory)
    }

    fn finish(self: Box<Self>, about: &About, counts: &Counts) -> Result<(), OutputError> {
        let Self { file, events, fragments, missing, absent, data } = *self;
        let Events {
            event,
            builder,
            epoch,
            triggered_ns,
            utc_ns,
            first_fragment,
            first_missing,
            first_absent,
        } = events;
        let Fragments { event_row, source, timestamp, offset, length, checksum, alignment, lost_packets } =
            fragments;
        let columns =
            [event, builder, epoch, triggered_ns, utc_ns, first_fragment, first_missing, first_absent];
        let lists = [missing.source, missing.cause, absent.source, absent.cause];
        let more = [event_row, source, timestamp, offset, length, checksum, alignment, lost_packets, data];
        for column in columns.into_iter().chain(lists).chain(more) {
            column.finish()?;
        }
        let root = file.root();
        root.set_attr("run", AttrValue::U64(about.identity.run.number().into()))?;
        root.set_attr("run_epoch", AttrValue::U64(about.identity.epoch.number()))?;
        root.set_attr("run_begun_ns", AttrValue::U64(about.identity.begun.as_nanos()))?;
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
