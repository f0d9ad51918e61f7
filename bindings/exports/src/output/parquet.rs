//! Parquet: a row for each fragment, and a row without payload for each missing or absent source.
//!
//! Nested lists would give a row to each event, but readers that hold a nested column in one array
//! limit its payloads to 2 GiB.

use std::{fs::File, mem, sync::Arc};

use ::parquet::{
    basic::Compression,
    data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type},
    file::{
        metadata::{KeyValue, SortingColumn},
        properties::{EnabledStatistics, WriterProperties},
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::{parser::parse_message_type, types::ColumnPath},
};
use bytes::Bytes;

use super::{About, CREATOR, LAYOUT, Output, OutputError};
use crate::{block::Block, counts::Counts, staged::Staged};

/// The columns. Those from `timestamp` to `payload` are null for a missing or absent source, and
/// `source` too if the event has neither a fragment nor such a source, and so are `alignment` and
/// `lost_packets`. Cause and `absent` are null for a fragment.
const SCHEMA: &str = "message fragments {
    required int64 event (INTEGER(64, false));
    required int32 builder (INTEGER(16, false));
    required int64 epoch (INTEGER(64, false));
    required int64 triggered_ns (INTEGER(64, false));
    optional int32 source (INTEGER(16, false));
    optional int64 timestamp (INTEGER(64, false));
    optional int32 length (INTEGER(32, false));
    optional int64 checksum (INTEGER(64, false));
    optional binary payload;
    required int64 utc_ns (INTEGER(64, false));
    optional int32 cause (INTEGER(8, false));
    optional boolean absent;
    optional int32 alignment (INTEGER(8, false));
    optional int32 lost_packets (INTEGER(32, false));
}";

/// Size of a page with payloads, in bytes, at which the next one begins.
const PAGE: usize = 1 << 20;

/// A Parquet file that is being written.
pub(super) struct Parquet {
    writer: SerializedFileWriter<File>,
    rows: Rows,
}

/// The rows of a block as columns. Of a nullable column, only the values are here; its definition
/// levels tell which rows have one.
#[derive(Default)]
struct Rows {
    event: Vec<i64>,
    builder: Vec<i32>,
    epoch: Vec<i64>,
    triggered_ns: Vec<i64>,
    source: Vec<i32>,
    timestamp: Vec<i64>,
    length: Vec<i32>,
    checksum: Vec<i64>,
    utc_ns: Vec<i64>,
    cause: Vec<i32>,
    absent: Vec<bool>,
    alignment: Vec<i32>,
    lost_packets: Vec<i32>,
    has_source: Vec<i16>,
    has_payload: Vec<i16>,
    has_cause: Vec<i16>,
}

impl Parquet {
    /// Writes the first bytes of the file.
    pub(super) fn begin(staged: &Staged) -> Result<Self, OutputError> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let plain = |path: &str| ColumnPath::from(path);
        let properties = WriterProperties::builder()
            .set_created_by(CREATOR.to_owned())
            .set_compression(Compression::UNCOMPRESSED)
            .set_sorting_columns(Some(vec![SortingColumn {
                column_idx: 0,
                descending: false,
                nulls_first: false,
            }]))
            .set_data_page_size_limit(PAGE)
            // The values of these columns differ, so a dictionary would save nothing.
            .set_column_dictionary_enabled(plain("timestamp"), false)
            .set_column_dictionary_enabled(plain("checksum"), false)
            .set_column_dictionary_enabled(plain("payload"), false)
            .set_column_statistics_enabled(plain("checksum"), EnabledStatistics::None)
            .set_column_statistics_enabled(plain("payload"), EnabledStatistics::None)
            .build();
        let writer = SerializedFileWriter::new(staged.again()?, schema, Arc::new(properties))?;
        Ok(Self { writer, rows: Rows::default() })
    }
}

impl Rows {
    /// Takes the rows of a block in place of those of the block before.
    fn fill(&mut self, block: &Block) {
        self.clear();
        for record in &block.records {
            for fragment in &record.fragments {
                self.source.push(fragment.source.number().into());
                self.timestamp.push(fragment.timestamp.ticks().cast_signed());
                self.length.push(fragment.length.cast_signed());
                self.checksum.push(fragment.checksum.number().cast_signed());
                self.alignment.push(fragment.alignment.code().into());
                self.lost_packets.push(fragment.lost_packets.cast_signed());
                self.levels(1, 1, 0);
            }
            for (list, is_absent) in [(&record.missing, false), (&record.absent, true)] {
                for missing in list {
                    self.source.push(missing.source.number().into());
                    self.cause.push(missing.cause.code().into());
                    self.absent.push(is_absent);
                    self.levels(1, 0, 1);
                }
            }
            // An event without any other row still gets one.
            if record.fragments.is_empty() && record.is_whole() {
                self.levels(0, 0, 0);
            }
            let rows = self.has_source.len();
            self.event.resize(rows, record.event.number().cast_signed());
            self.builder.resize(rows, record.builder.number().into());
            self.epoch.resize(rows, record.epoch.number().cast_signed());
            self.triggered_ns.resize(rows, record.triggered.as_nanos().cast_signed());
            self.utc_ns.resize(rows, record.utc.as_nanos().cast_signed());
        }
    }

    /// Tells which nullable columns have a value in the next row.
    fn levels(&mut self, source: i16, payload: i16, cause: i16) {
        self.has_source.push(source);
        self.has_payload.push(payload);
        self.has_cause.push(cause);
    }

    fn clear(&mut self) {
        for column in [
            &mut self.event,
            &mut self.epoch,
            &mut self.triggered_ns,
            &mut self.timestamp,
            &mut self.checksum,
            &mut self.utc_ns,
        ] {
            column.clear();
        }
        for column in [
            &mut self.builder,
            &mut self.source,
            &mut self.length,
            &mut self.cause,
            &mut self.alignment,
            &mut self.lost_packets,
        ] {
            column.clear();
        }
        self.absent.clear();
        for levels in [&mut self.has_source, &mut self.has_payload, &mut self.has_cause] {
            levels.clear();
        }
    }
}

impl Output for Parquet {
    fn write(&mut self, block: &mut Block) -> Result<(), OutputError> {
        if block.records.is_empty() {
            return Ok(());
        }
        let rows = &mut self.rows;
        rows.fill(block);
        let mut group = self.writer.next_row_group()?;
        column::<Int64Type>(&mut group, &rows.event, None)?;
        column::<Int32Type>(&mut group, &rows.builder, None)?;
        column::<Int64Type>(&mut group, &rows.epoch, None)?;
        column::<Int64Type>(&mut group, &rows.triggered_ns, None)?;
        column::<Int32Type>(&mut group, &rows.source, Some(&rows.has_source))?;
        column::<Int64Type>(&mut group, &rows.timestamp, Some(&rows.has_payload))?;
        column::<Int32Type>(&mut group, &rows.length, Some(&rows.has_payload))?;
        column::<Int64Type>(&mut group, &rows.checksum, Some(&rows.has_payload))?;
        let memory = Bytes::from(mem::take(&mut block.memory));
        payloads(&mut group, &memory, rows)?;
        column::<Int64Type>(&mut group, &rows.utc_ns, None)?;
        column::<Int32Type>(&mut group, &rows.cause, Some(&rows.has_cause))?;
        column::<BoolType>(&mut group, &rows.absent, Some(&rows.has_cause))?;
        column::<Int32Type>(&mut group, &rows.alignment, Some(&rows.has_payload))?;
        column::<Int32Type>(&mut group, &rows.lost_packets, Some(&rows.has_payload))?;
        group.close()?;
        // No slice of the memory is left, so this takes the memory back without a copy.
        block.memory = Vec::from(memory);
        Ok(())
    }

    fn finish(mut self: Box<Self>, about: &About, counts: &Counts) -> Result<(), OutputError> {
        let numbers = [
            ("layout", LAYOUT),
            ("run", about.identity.run.number().into()),
            ("run_epoch", about.identity.epoch.number()),
            ("run_begun_ns", about.identity.begun.as_nanos()),
        ];
        let numbers = numbers.into_iter().chain(counts.named());
        let texts = about.texts.iter().map(|(name, text)| (*name, text.clone()));
        for (name, text) in numbers.map(|(name, number)| (name, number.to_string())).chain(texts) {
            self.writer.append_key_value_metadata(KeyValue::new(format!("evb.{name}"), text));
        }
        self.writer.close()?;
        Ok(())
    }
}

/// Writes one column of a row group.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), OutputError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, levels, None)?;
        column.close()?;
    }
    Ok(())
}

/// Writes the column of payloads. The writer looks at the size of a page only after each batch, so
/// batches are small.
fn payloads(
    group: &mut SerializedRowGroupWriter<'_, File>,
    memory: &Bytes,
    rows: &Rows,
) -> Result<(), OutputError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let mut lengths = rows.length.iter().map(|length| length.cast_unsigned() as usize);
    let (mut begin, mut values, mut levels, mut size) = (0, Vec::<ByteArray>::new(), Vec::new(), 0);
    for level in &rows.has_payload {
        levels.push(*level);
        if *level > 0 {
            let length = lengths.next().unwrap_or_default();
            values.push(memory.slice(begin..begin + length).into());
            begin += length;
            size += length;
        }
        if size >= PAGE / 4 {
            column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            values.clear();
            levels.clear();
            size = 0;
        }
    }
    column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
    column.close()?;
    Ok(())
}
