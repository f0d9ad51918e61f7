//! Lists event files completely, in a text that programs in other languages can produce too. If a
//! reader in another language prints the same text for a file, it finds the same events, the same
//! damage and the same index. `cargo xtask eco file-cpp` compares `evb_file.hpp` in this way.
//!
//! ```text
//! cargo run -p evb-file --example listing -- PATH…     files and directories
//! cargo run -p evb-file --example listing -- @NAMES    the paths in the file NAMES, one on a line
//! ```
//!
//! The listing of a **file** has these lines; `…` stands for the lines of items, explained below:
//!
//! ```text
//! file PATH
//! error TEXT                  if the file cannot be opened; then `verify` follows
//! header run=N epoch=N builder=N|all sequence=N created=N size=N index=STATE sources=IDS
//!        creator=HEX [run_id=HEX] [begun=N] [clock=N] [kind=HEX] [comment=HEX]
//!        [source_names=N:HEX,…] [builder_names=N:HEX,…] [recovered=closing-block|records]
//!                             (on the same line; a part in brackets only if it is known)
//! heads                       …  all record heads, in file order
//! events                      …  all events with verified payloads, in file order
//! unchecked                   …  all events with payloads that are not verified, in file order
//! index N                     the number of index entries
//! lookup event=N epoch=N offset=N   for each of the first ten index entries, followed by three
//!                             results: of reading the entry, of finding the event id, and of
//!                             finding the event id in this epoch
//! lookup event=N              … for the event ids 0 and 2⁶⁴ - 1
//! verify                      the report of `evbd verify`, each line after `| `
//! ```
//!
//! A **directory** is listed as its files one by one, and then as a run:
//!
//! ```text
//! run PATH
//! error TEXT                  if the run cannot be merged; then `verify` follows
//! merged                      …  every event once, in the order of ids
//! superseded=N duplicates=N
//! damage TEXT                 for each damage that the merge reports
//! verify
//! ```
//!
//! An **item** is an event with its fragments, a finding, or `none` for an event that does not
//! exist:
//!
//! ```text
//! event id=N epoch=N run=N builder=N triggered=N missing=IDS [run_id=HEX] [utc=N] [causes=N,…]
//!       [absent=N:N,…] offset=N length=N
//! fragment source=N timestamp=N size=N crc=HEX hash=HEX [alignment=N]
//! finding kind=KIND offset=N length=N event=N|- text=TEXT
//! none
//! ```
//!
//! IDS are source ids with commas between them, or `-` for none. The causes are the codes of those
//! of the missing sources, if one is known; an absent source has its code after a colon.
//! `alignment` is the code of the state of alignment; it is left out if that is 0, "not checked".
//! `clock` is 1 if the kernel said that the clock was synchronised, and 2 if not. The HEX of a text
//! is the hexadecimal form of its UTF-8 bytes; `crc` and `hash` have 16 hexadecimal digits. `hash`
//! is the 64-bit FNV-1a hash of the payload as the reader returns it: it does not depend on the
//! reader's CRC; it is `-` among heads. KIND is `file`, `header`, `damaged`, `torn_tail`,
//! `too_large` or `wrong_index`. Events have `offset` and `length` among heads and unchecked events
//! only, because the Rust type `Event` does not know its place in a file. `length` of a finding is
//! the number of bytes that cannot be read, or 0.

use std::{
    error::Error,
    fs::{self, File},
    io::{BufWriter, Write, stdout},
    os::unix::fs::FileExt as _,
    path::Path,
};

use evb_core::{
    event::{Alignment, Cause, Event, FragmentView, MissingSource},
    id::{EventId, RunId, SourceId},
    time::Utc,
};
use evb_file::{
    EventFile, IndexState, MergeError, ReadError, Recovery, Selection, VerifyOptions, WriteError,
    WriterOptions, files_at,
    format::{FileHeader, FragmentEntry, Record},
    merge, verify,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(stdout().lock());
    for argument in std::env::args().skip(1) {
        match argument.strip_prefix('@') {
            None => path(argument.as_ref(), &mut out)?,
            Some(names) => {
                for name in fs::read_to_string(names)?.lines() {
                    path(name.as_ref(), &mut out)?;
                }
            }
        }
    }
    Ok(out.flush()?)
}

pub(crate) fn path(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    if !path.is_dir() {
        return file(path, out);
    }
    for one in files_at(path)? {
        file(&one, out)?;
    }
    writeln!(out, "run {}", path.display())?;
    run(path, out)?;
    verification(path, out)
}

fn file(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "file {}", path.display())?;
    match EventFile::open(path) {
        Err(error) => writeln!(out, "error {error}")?,
        Ok(file) => {
            header(&file, out)?;
            heads(&file, out)?;
            writeln!(out, "events")?;
            for item in file.events() {
                event_or_finding(item, out)?;
            }
            unchecked(&file, out)?;
            lookups(&file, out)?;
        }
    }
    verification(path, out)
}

fn header(file: &EventFile, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let header = file.header();
    let builder = header.builder.map_or_else(|| "all".to_owned(), |builder| builder.to_string());
    let index = match file.index_state() {
        IndexState::Present => "present",
        IndexState::Absent => "absent",
        IndexState::Damaged => "damaged",
    };
    let (creator, known) = (hex(&header.creator), known_of_run(header));
    let recovered = match file.recovery() {
        None => "",
        Some(Recovery::ClosingBlock) => " recovered=closing-block",
        Some(Recovery::Records) => " recovered=records",
    };
    Ok(writeln!(
        out,
        "header run={} epoch={} builder={builder} sequence={} created={} size={} index={index} sources={} creator={creator}{known}{recovered}",
        header.run,
        header.epoch,
        header.sequence,
        header.created_unix_ns,
        file.size().count(),
        ids(header.sources.iter().copied()),
    )?)
}

/// Returns the fields that only some headers have.
fn known_of_run(header: &FileHeader) -> String {
    let mut fields = String::new();
    if header.run_id.is_known() {
        fields += &format!(" run_id={}", header.run_id);
    }
    if header.begun.is_known() {
        fields += &format!(" begun={}", header.begun.as_nanos());
    }
    if let Some(is_synchronised) = header.clock_synchronised {
        fields += if is_synchronised { " clock=1" } else { " clock=2" };
    }
    for (name, text) in [("kind", &header.kind), ("comment", &header.comment)] {
        if !text.is_empty() {
            fields += &format!(" {name}={}", hex(text));
        }
    }
    let sources: Vec<_> =
        header.source_names.iter().map(|(id, name)| format!("{id}:{}", hex(name))).collect();
    let builders: Vec<_> =
        header.builder_names.iter().map(|(id, name)| format!("{id}:{}", hex(name))).collect();
    for (name, list) in [("source_names", sources), ("builder_names", builders)] {
        if !list.is_empty() {
            fields += &format!(" {name}={}", list.join(","));
        }
    }
    fields
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the fields that only some events have.
fn known_of_event(run_id: RunId, utc: Utc, missing: &[MissingSource], absent: &[MissingSource]) -> String {
    let mut fields = String::new();
    if run_id.is_known() {
        fields += &format!(" run_id={run_id}");
    }
    if utc.is_known() {
        fields += &format!(" utc={}", utc.as_nanos());
    }
    if missing.iter().any(|missing| missing.cause != Cause::Unknown) {
        let causes: Vec<_> = missing.iter().map(|missing| missing.cause.code().to_string()).collect();
        fields += &format!(" causes={}", causes.join(","));
    }
    if !absent.is_empty() {
        let absent: Vec<_> =
            absent.iter().map(|absent| format!("{}:{}", absent.source, absent.cause.code())).collect();
        fields += &format!(" absent={}", absent.join(","));
    }
    fields
}

fn heads(file: &EventFile, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "heads")?;
    for record in file.records() {
        match record {
            Ok(record) => {
                head(&record, out)?;
                for part in &record.fragments {
                    fragment(part, None, out)?;
                }
            }
            Err(error) => finding(&error, out)?,
        }
    }
    Ok(())
}

/// Lists events with the payloads as they are in the file, past the reader's checks.
fn unchecked(file: &EventFile, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "unchecked")?;
    let bytes = File::open(file.path())?;
    for record in file.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                finding(&error, out)?;
                continue;
            }
        };
        head(&record, out)?;
        let mut at = record.offset + record.head_length.count();
        for part in &record.fragments {
            let mut payload = vec![0; part.length as usize];
            bytes.read_exact_at(&mut payload, at)?;
            at += u64::from(part.length);
            fragment(part, Some(&payload), out)?;
        }
    }
    Ok(())
}

fn lookups(file: &EventFile, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "index {}", file.index_len()?)?;
    for entry in file.index_entries(0, 10)? {
        let (event, epoch, offset) = (entry.event, entry.epoch, entry.offset);
        writeln!(out, "lookup event={event} epoch={epoch} offset={offset}")?;
        event_or_finding(file.event_at(entry), out)?;
        event_or_none(file.event(event), out)?;
        event_or_none(file.event_in_epoch(event, epoch), out)?;
    }
    for event in [EventId::new(0), EventId::new(u64::MAX)] {
        writeln!(out, "lookup event={event}")?;
        event_or_none(file.event(event), out)?;
    }
    Ok(())
}

fn event_or_none(
    found: Result<Option<Event>, ReadError>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    match found.transpose() {
        None => Ok(writeln!(out, "none")?),
        Some(item) => event_or_finding(item, out),
    }
}

fn event_or_finding(item: Result<Event, ReadError>, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let event = match item {
        Ok(event) => event,
        Err(error) => return finding(&error, out),
    };
    let Event { id, run, epoch, builder, .. } = event;
    let (nanos, missing) = (event.triggered.as_nanos(), ids(event.missing_sources()));
    let known = known_of_event(event.run_id, event.utc, &event.missing, &event.absent);
    writeln!(
        out,
        "event id={id} epoch={epoch} run={run} builder={builder} triggered={nanos} missing={missing}{known}"
    )?;
    for part in event.fragments() {
        let FragmentView { source, timestamp, checksum, alignment, lost_packets, payload } = part;
        let length = payload.len() as u32;
        let entry = FragmentEntry { source, length, timestamp, checksum, alignment, lost_packets };
        fragment(&entry, Some(payload), out)?;
    }
    Ok(())
}

fn head(record: &Record, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let Record { event, run, epoch, builder, offset, .. } = record;
    let (nanos, missing) =
        (record.triggered.as_nanos(), ids(record.missing.iter().map(|missing| missing.source)));
    let known = known_of_event(record.run_id, record.utc, &record.missing, &record.absent);
    let length = record.length.count();
    Ok(writeln!(
        out,
        "event id={event} epoch={epoch} run={run} builder={builder} triggered={nanos} missing={missing}{known} offset={offset} length={length}"
    )?)
}

fn fragment(
    part: &FragmentEntry,
    payload: Option<&[u8]>,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let hash = payload.map_or_else(|| "-".to_owned(), |payload| format!("{:016x}", fnv_1a(payload)));
    let FragmentEntry { source, length, timestamp, alignment, .. } = part;
    let crc = part.checksum.number();
    let alignment = match alignment {
        Alignment::Unchecked => String::new(),
        state => format!(" alignment={}", state.code()),
    };
    Ok(writeln!(
        out,
        "fragment source={source} timestamp={timestamp} size={length} crc={crc:016x} hash={hash}{alignment}"
    )?)
}

fn finding(error: &ReadError, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let (kind, offset, length, event) = match *error {
        ReadError::File(_) => ("file", 0, 0, None),
        ReadError::Header { .. } => ("header", 0, 0, None),
        ReadError::Damaged { offset, length, event, .. } => ("damaged", offset, length.count(), event),
        ReadError::TornTail { offset, length, event, .. } => ("torn_tail", offset, length.count(), event),
        ReadError::TooLarge { offset, size, event, .. } => ("too_large", offset, size.count(), Some(event)),
        ReadError::WrongIndex { offset, event, .. } => ("wrong_index", offset, 0, Some(event)),
    };
    let event = event.map_or_else(|| "-".to_owned(), |event| event.to_string());
    Ok(writeln!(out, "finding kind={kind} offset={offset} length={length} event={event} text={error}")?)
}

/// Lists the events of all files of a run, as a merge gives them.
fn run(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let report =
        match merge(&[path.to_owned()], &Selection::default(), folder.path(), WriterOptions::default()) {
            Ok(report) => report,
            // The text of the merge's own error names the output, which other readers do not have.
            Err(MergeError::Write(WriteError::Refused { event, why, .. })) => {
                return Ok(writeln!(out, "error event {event}: {why}")?);
            }
            Err(error) => return Ok(writeln!(out, "error {error}")?),
        };
    writeln!(out, "merged")?;
    for merged in files_at(folder.path())? {
        for item in EventFile::open(merged)?.events() {
            event_or_finding(item, out)?;
        }
    }
    writeln!(out, "superseded={} duplicates={}", report.superseded, report.duplicates)?;
    for damage in report.damaged.first {
        writeln!(out, "damage {damage}")?;
    }
    Ok(())
}

fn verification(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    writeln!(out, "verify")?;
    let report = match verify(&[path.to_owned()], &VerifyOptions::default()) {
        Ok(report) => report.to_string(),
        Err(error) => error.to_string(),
    };
    for line in report.lines() {
        writeln!(out, "| {line}")?;
    }
    Ok(())
}

fn ids(sources: impl IntoIterator<Item = SourceId>) -> String {
    let ids: Vec<String> = sources.into_iter().map(|source| source.to_string()).collect();
    if ids.is_empty() { "-".to_owned() } else { ids.join(",") }
}

/// Returns the 64-bit hash FNV-1a (Fowler, Noll, Vo: RFC 9923).
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
