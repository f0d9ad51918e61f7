//! Prints events as text, for people.

#[cfg(test)]
mod tests;

use std::{
    io::{self, Read, Write},
    path::Path,
};

use evb_core::{
    event::{Alignment, Event, MissingSource},
    time::Utc,
    wire::control::plain,
};

use crate::{
    error::ReadError,
    format::{FileHeader, Record},
    index::IndexState,
    reader::EventFile,
    runs::EpochRange,
    stream::EventStream,
    verify::named,
};

/// The level of detail of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Lists each fragment too.
    pub fragments: bool,
    /// The epochs of the records to list; `None` for all.
    pub epochs: Option<EpochRange>,
}

/// Lists an event file as text: its header, one line for each record, and any damage found.
/// Payloads are neither read nor checked: [`crate::verify()`] checks them.
///
/// ```
/// use evb_core::{event::Event, id::*};
/// use evb_file::{
///     dump::{ListOptions, list},
///     *,
/// };
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// # let mut writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// # let mut event = Event::empty(EventId::FIRST, run, epoch, builder);
/// # event.add(SourceId::new(1), Default::default(), "data".into());
/// # writer.append(&event)?;
/// # let path = writer.path();
/// # writer.close()?;
/// let mut text = Vec::new();
/// list(&EventFile::open(path)?, ListOptions { fragments: true, epochs: None }, &mut text)?;
/// let text = String::from_utf8(text)?;
/// assert!(text.lines().last().is_some_and(|line| line.contains("source 1")), "{text}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns any error of `out`, and an error of reading the file as [`io::ErrorKind::Other`].
pub fn list(file: &EventFile, options: ListOptions, out: &mut dyn Write) -> io::Result<()> {
    describe(file, out)?;
    columns(out)?;
    for record in file.records() {
        match record {
            Ok(record) if options.epochs.is_some_and(|epochs| !epochs.contains(record.epoch)) => {}
            Ok(record) => line(&record, options, out)?,
            Err(error @ ReadError::File(_)) => return Err(io::Error::other(error)),
            Err(error) => writeln!(out, "! {error}")?,
        }
    }
    Ok(())
}

/// Lists a stream as [`list`] lists a file, while it comes.
///
/// # Errors
/// Returns any error of `out`, and an error of the stream as [`io::ErrorKind::Other`].
pub fn list_stream<R: Read>(
    stream: &mut EventStream<R>,
    options: ListOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    begin(stream.name(), stream.header(), out)?;
    writeln!(out, "a stream, by {}", text_of(&stream.header().creator))?;
    texts(stream.header(), out)?;
    stream.header().changes.iter().try_for_each(|change| writeln!(out, "{change}"))?;
    columns(out)?;
    for record in stream {
        let record = record.map_err(io::Error::other)?;
        if options.epochs.is_none_or(|epochs| epochs.contains(record.epoch)) {
            line(&record, options, out)?;
            // The next record may be long in coming.
            out.flush()?;
        }
    }
    Ok(())
}

fn columns(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>12} {:>17} {:>14} {:>30} {:>9} {:>12} {:>12}  state",
        "event", "epoch", "trigger s", "utc", "fragments", "payload", "offset"
    )
}

/// Writes the beginning of the first line about a file or a stream.
fn begin(path: &Path, header: &FileHeader, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}: run {}", path.display(), header.run)?;
    if header.run_id.is_known() {
        write!(out, " ({})", header.run_id.short())?;
    }
    if header.begun.is_known() {
        write!(out, ", begun {}", header.begun)?;
    }
    write!(out, ", epoch {}, ", header.epoch)?;
    match header.builder {
        Some(builder) => write!(out, "builder {builder}, "),
        None => write!(out, "merged, "),
    }
}

/// Writes what the header and the index say of a file.
fn describe(file: &EventFile, out: &mut dyn Write) -> io::Result<()> {
    let header = file.header();
    begin(file.path(), header, out)?;
    let index = match file.index_state() {
        IndexState::Present => "with index",
        IndexState::Absent => "without index (not closed; its records are read without one)",
        IndexState::Damaged => {
            "its index is damaged (its records are read without it; `evbd merge` writes a right one)"
        }
    };
    writeln!(out, "file {}, {}, {index}, by {}", header.sequence, file.size(), text_of(&header.creator))?;
    texts(header, out)?;
    for change in file.changes() {
        writeln!(out, "{change}")?;
    }
    match file.recovery() {
        Some(recovery) => writeln!(out, "! {recovery}"),
        None => Ok(()),
    }
}

/// Writes the sources of a file or a stream, the operator's remarks, and the names.
fn texts(header: &FileHeader, out: &mut dyn Write) -> io::Result<()> {
    let sources: Vec<String> = header.sources.iter().map(ToString::to_string).collect();
    writeln!(out, "sources: {}", sources.join(" "))?;
    for (what, text) in [("kind", &header.kind), ("comment", &header.comment)] {
        if !text.is_empty() {
            writeln!(out, "{what}: {}", text_of(text))?;
        }
    }
    for (id, name) in &header.source_names {
        writeln!(out, "source {id}: {}", text_of(name))?;
    }
    for (id, name) in &header.builder_names {
        writeln!(out, "builder {id}: {}", text_of(name))?;
    }
    Ok(())
}

/// Returns a text of a file for people: at most 500 characters, and no control characters, which
/// could forge a line or command a terminal.
fn text_of(text: &str) -> String {
    plain(text, 500)
}

/// Writes a line about a record, and one about each fragment if that is asked.
fn line(record: &Record, options: ListOptions, out: &mut dyn Write) -> io::Result<()> {
    let seconds = record.triggered.as_nanos() as f64 / 1e9;
    write!(
        out,
        "{:>12} {:>17} {seconds:>14.6} {:>30} {:>9} {:>12} {:>12}  ",
        record.event.number(),
        record.epoch.number(),
        utc(record.utc),
        record.fragments.len(),
        record.payload_size().count(),
        record.offset,
    )?;
    writeln!(out, "{}{}", state(&record.missing, &record.absent), tag(record.tag))?;
    if options.fragments {
        for fragment in &record.fragments {
            writeln!(
                out,
                "{:>20} {:<6} {:>10} B  timestamp {:<20} crc {:016x}{}",
                "source",
                fragment.source.number(),
                fragment.length,
                fragment.timestamp.ticks(),
                fragment.checksum.number(),
                remarks(fragment.alignment, fragment.lost_packets),
            )?;
        }
    }
    Ok(())
}

/// Returns a time, or a dash if it is unknown.
fn utc(utc: Utc) -> String {
    if utc.is_known() { utc.to_string() } else { "-".to_owned() }
}

/// Returns the state of alignment of a fragment, unless it was not checked, and the number of its
/// lost packets, if it lost any.
fn remarks(state: Alignment, lost_packets: u32) -> String {
    let mut text = String::new();
    if state != Alignment::Unchecked {
        text += &format!(", alignment with other sources: {state}");
    }
    if state == Alignment::Unknown {
        text += " (clock not learnt yet, or alone)";
    }
    if lost_packets > 0 {
        text += &format!(", lost packets: {lost_packets}");
    }
    text
}

/// Returns the tag of an event, if it has one.
fn tag(tag: u64) -> String {
    if tag == 0 { String::new() } else { format!(", tag {tag}") }
}

/// Says whether an event is complete, and names the sources that did not contribute.
fn state(missing: &[MissingSource], absent: &[MissingSource]) -> String {
    let mut state = match missing {
        [] => "complete".to_owned(),
        missing => format!("INCOMPLETE, {}", named(missing)),
    };
    for (place, source) in absent.iter().enumerate() {
        state += if place == 0 { " without " } else { ", " };
        state += &source.to_string();
    }
    state
}

/// Writes a text description of one event and its fragments, without the payloads.
///
/// # Errors
/// Returns any error of `out`.
pub fn summary(event: &Event, out: &mut dyn Write) -> io::Result<()> {
    show(event, false, out)
}

/// Writes a text description of one event with a dump of its payloads, in hexadecimal and as text,
/// 16 bytes on a line.
///
/// # Errors
/// Returns any error of `out`.
pub fn hex(event: &Event, out: &mut dyn Write) -> io::Result<()> {
    show(event, true, out)
}

/// Writes an event with its fragments, and with `payloads` the bytes of each as a hex dump.
fn show(event: &Event, payloads: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "event {}, run {}, epoch {}, builder {}, triggered {}{}, {}{}",
        event.id,
        event.run,
        event.epoch,
        event.builder,
        event.triggered,
        if event.utc.is_known() { format!(", {}", event.utc) } else { String::new() },
        event.payload_size(),
        tag(event.tag)
    )?;
    if !event.is_whole() {
        writeln!(out, "{}", state(&event.missing, &event.absent))?;
    }
    for fragment in event.fragments() {
        let (length, crc) = (fragment.payload.len(), fragment.checksum.number());
        let (timestamp, state) = (fragment.timestamp, remarks(fragment.alignment, fragment.lost_packets));
        writeln!(
            out,
            "source {}, {length} B, timestamp {timestamp}, crc {crc:016x}{state}",
            fragment.source
        )?;
        let payload = if payloads { fragment.payload } else { &[] };
        for (place, bytes) in payload.chunks(16).enumerate() {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x} ")).collect();
            let text: String = bytes.iter().map(|byte| shown(*byte)).collect();
            writeln!(out, "  {:08x}  {hex:<48} |{text}|", place * 16)?;
        }
    }
    Ok(())
}

fn shown(byte: u8) -> char {
    if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }
}
