//! Makes the golden files of the present version.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use evb_core::{
    event::{Alignment, Cause, Event, MissingSource},
    fragment::{Checksum, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    time::{Instant, Utc},
    units::Bytes,
};
use evb_file::{EventFile, EventFileWriter, FileIdentity, FsyncPolicy, OwingChange, WriterOptions};

const RUN: RunNumber = RunNumber::new(7);
const RUN_ID: RunId = RunId::new(0x5eed_cafe_0123_4567_89ab_cdef_0000_0001);
const BEGUN: u64 = 1_763_000_000_000_000_000;

/// Makes the files of one folder.
pub(super) fn folder(name: &str, dir: &Path) -> Result<()> {
    match name {
        "alignment" => alignment(dir),
        "changes" => changes(dir),
        "clean" => clean(dir),
        "damaged" => damaged(dir),
        "recovered" => recovered(dir),
        "refused" => refused(dir),
        "sections" => sections(dir),
        "two-runs" => two_runs(dir),
        _ => bail!("there is no folder {name}"),
    }
}

/// Two builders: all states of alignment, a superseded copy that is misaligned, and a state of a
/// later version of evb.
fn alignment(dir: &Path) -> Result<()> {
    use Alignment::{Agrees, Disagrees, Unchecked, Unknown};
    let states = [
        (1, 1, [Unchecked, Unchecked, Unchecked]),
        (2, 1, [Agrees, Disagrees, Unknown]),
        (3, 1, [Disagrees, Disagrees, Unchecked]),
        (4, 1, [Agrees, Agrees, Disagrees]),
        (4, 2, [Agrees, Agrees, Agrees]),
    ];
    let events: Vec<Event> = states.map(|(id, epoch, states)| judged(event(id, 1, epoch), states)).into();
    written(dir, 1, &events, 1 << 20)?.close()?;

    let path = one(dir, 2, &judged(event(5, 2, 1), [Agrees, Disagrees, Agrees]))?;
    let record = EventFile::open(&path)?.records().next().context("no record")??;
    let (start, head) = (record.offset as usize, record.head_length.count() as usize);
    let mut bytes = fs::read(&path)?;
    bytes[start + 74] = 99;
    seal(&mut bytes, start, head);
    Ok(fs::write(path, bytes)?)
}

/// Returns the event of three sources with states of alignment.
fn judged(mut event: Event, states: [Alignment; 3]) -> Event {
    for (id, state) in (1..).zip(states) {
        event.set_alignment(SourceId::new(id), state);
    }
    event
}

/// Two builders while sources are excluded and included. The second one was killed, and knows only
/// what was planned then.
fn changes(dir: &Path) -> Result<()> {
    let change = |source, from, why, seconds: u64| {
        let change = OwingChange::exclude(SourceId::new(source), EventId::new(from), why);
        OwingChange { utc: Utc::from_nanos(BEGUN + seconds * 1_000_000_000), ..change }
    };
    let included = |from, seconds| OwingChange { excluded: false, ..change(2, from, "", seconds) };
    let before_the_start = OwingChange { utc: Utc::UNKNOWN, ..change(2, 1, "broken", 0) };
    let begun = |builder, changes: &[OwingChange]| {
        let identity = FileIdentity { changes: changes.to_vec(), ..identity(builder) };
        EventFileWriter::create(dir, identity, WriterOptions::default())
    };
    let mut second = begun(2, &[before_the_start.clone(), included(9, 1)])?;
    second.append(&without(event(2, 2, 1), 2))?;
    second.commit()?;
    drop(second);

    let mut first = begun(1, std::slice::from_ref(&before_the_start))?;
    first.append(&without(event(1, 1, 1), 2))?;
    first.append(&event(3, 1, 1))?;
    first.append(&without(event(4, 1, 1), 3))?;
    first.note_changes(&[before_the_start, included(3, 2), change(3, 4, "no \"power\", ν", 3)])?;
    first.close()?;
    Ok(())
}

/// Returns the event without the fragment of an excluded source.
fn without(event: Event, source: u16) -> Event {
    let mut without = Event::empty(event.id, event.run, event.epoch, event.builder);
    (without.run_id, without.triggered, without.utc) = (event.run_id, event.triggered, event.utc);
    for part in event.fragments().filter(|part| part.source.number() != source) {
        without.add(part.source, part.timestamp, part.payload.to_vec().into());
    }
    without.absent.push(MissingSource::new(SourceId::new(source), Cause::Excluded));
    without
}

/// Two builders: complete events, two rotations, an absent source, and copies of older epochs.
fn clean(dir: &Path) -> Result<()> {
    let mut without = event(4, 1, 1);
    without.absent.push(MissingSource::new(SourceId::new(4), Cause::Excluded));
    let mut first: Vec<Event> = [2, 1, 3, 5].map(|id| event(id, 1, 1)).into();
    first.push(without);
    first.extend([7, 8, 9].map(|id| event(id, 1, 1)));
    written(dir, 1, &first, 1200)?.close()?;
    let second = [event(5, 2, 2), event(6, 2, 1), event(6, 2, 2), event(10, 2, 2)];
    written(dir, 2, &second, 1 << 20)?.close()?;
    Ok(())
}

/// Four builders: incomplete events, a gap and a duplicate; a torn tail; damage to a head, a
/// payload and padding; damage to an index.
fn damaged(dir: &Path) -> Result<()> {
    let mut incomplete = event(2, 1, 1);
    incomplete.missing = [(4, Cause::Down), (5, Cause::Other(99))]
        .map(|(id, cause)| MissingSource::new(SourceId::new(id), cause))
        .into();
    written(dir, 1, &[event(1, 1, 1), incomplete, event(3, 1, 1), event(3, 1, 1)], 1 << 20)?.close()?;

    let mut writer = written(dir, 2, &[event(5, 2, 1), event(8, 2, 1), event(9, 2, 1)], 1 << 20)?;
    writer.commit()?;
    let path = writer.path();
    drop(writer);
    let file = OpenOptions::new().write(true).open(&path)?;
    file.set_len(file.metadata()?.len() - 20)?;

    let events: Vec<Event> = [5, 6, 11, 12, 13].map(|id| event(id, 3, 1)).into();
    let writer = written(dir, 3, &events, 1 << 20)?;
    let path = writer.path();
    writer.close()?;
    let records: Vec<_> = EventFile::open(&path)?.records().collect::<Result<_, _>>()?;
    let file = OpenOptions::new().write(true).open(&path)?;
    file.write_all_at(b"x", records[1].offset + 20)?;
    file.write_all_at(b"x", records[2].offset + records[2].head_length.count())?;
    file.write_all_at(b"x", records[3].offset + records[3].length.count() - 1)?;

    let writer = written(dir, 4, &[event(14, 4, 1), event(15, 4, 1)], 1 << 20)?;
    let path = writer.path();
    writer.close()?;
    let file = OpenOptions::new().write(true).open(&path)?;
    let length = file.metadata()?.len();
    Ok(file.write_all_at(b"x", length - 60)?)
}

/// Three builders: a damaged header with a copy in the closing block, one without a closing block,
/// and one with a damaged closing block.
fn recovered(dir: &Path) -> Result<()> {
    for (builder, is_closed, place) in [(1, true, 0), (2, false, 30), (3, true, 9)] {
        let first = u64::from(10 * builder);
        let events: Vec<Event> = (first..first + 3).map(|id| event(id, builder, 1)).collect();
        let mut writer = written(dir, builder, &events, 1 << 20)?;
        writer.commit()?;
        let path = writer.path();
        if is_closed {
            writer.close()?;
        }
        let file = OpenOptions::new().write(true).open(&path)?;
        file.write_all_at(b"damaged", place)?;
        if builder == 3 {
            file.write_all_at(b"damaged", file.metadata()?.len() - 100)?;
        }
    }
    Ok(())
}

/// Two files that are refused: an unknown required section in the header, and an unknown flag.
fn refused(dir: &Path) -> Result<()> {
    let path = one(dir, 1, &event(1, 1, 1))?;
    change_header(&path, Some((9, 1, b"required")), 0)?;
    let path = one(dir, 2, &event(2, 2, 1))?;
    change_header(&path, None, 0x8000)
}

/// Files with sections that this version of evb does not know: an optional one in a header, and an
/// optional one, a required one and a flag in a record. Tag and lost packets are known.
fn sections(dir: &Path) -> Result<()> {
    let path = one(dir, 1, &event(1, 1, 1))?;
    change_header(&path, Some((9, 0, b"optional")), 0)?;
    change_record(&one(dir, 2, &event(2, 2, 1))?, Some((9, 0, b"optional")), 0)?;
    change_record(&one(dir, 3, &event(3, 3, 1))?, Some((9, 1, b"required")), 0)?;
    change_record(&one(dir, 4, &event(4, 4, 1))?, None, 0x8000)?;
    change_record(&one(dir, 5, &event(5, 5, 1))?, Some((3, 0, &77_u64.to_le_bytes())), 0)?;
    let lost: Vec<u8> = [0_u32, 2, 1].iter().flat_map(|count| count.to_le_bytes()).collect();
    change_record(&one(dir, 6, &event(6, 6, 1))?, Some((4, 0, &lost)), 0)
}

/// Two runs with one number.
fn two_runs(dir: &Path) -> Result<()> {
    one(dir, 1, &event(1, 1, 1))?;
    let identity = FileIdentity { run_id: RunId::new(0xabcd << 112), ..identity(2) };
    let mut other = event(1, 2, 1);
    other.run_id = identity.run_id;
    // A writer refuses a directory with another run of the same number.
    let place = dir.join("other");
    let mut writer = EventFileWriter::create(place, identity, WriterOptions::default())?;
    writer.append(&other)?;
    let path = writer.path();
    writer.close()?;
    Ok(fs::rename(&path, dir.join(path.file_name().context("a file without a name")?))?)
}

/// Writes a file without a closing block, with one event.
fn one(dir: &Path, builder: u16, event: &Event) -> Result<PathBuf> {
    let mut writer = written(dir, builder, std::slice::from_ref(event), 1 << 20)?;
    writer.commit()?;
    Ok(writer.path())
}

/// A section to add: its type, its flags and its body.
type Added<'a> = Option<(u16, u16, &'a [u8])>;

fn section(out: &mut Vec<u8>, added: Added<'_>) {
    let Some((kind, flags, body)) = added else { return };
    out.extend(kind.to_le_bytes());
    out.extend(flags.to_le_bytes());
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    out.resize(out.len().next_multiple_of(8), 0);
}

/// Adds a section and flags to the header of a file with one record and without a closing block.
fn change_header(path: &Path, added: Added<'_>, flags: u16) -> Result<()> {
    let bytes = fs::read(path)?;
    let record = EventFile::open(path)?.records().next().context("no record")??;
    let length = record.offset as usize;
    let mut out = bytes[..length - 8].to_vec();
    section(&mut out, added);
    let new_length = out.len() as u32 + 8;
    out[10..12].copy_from_slice(&flags.to_le_bytes());
    out[12..16].copy_from_slice(&new_length.to_le_bytes());
    let tag = Checksum::of(&out).number().to_le_bytes();
    out.extend(tag);
    let start = out.len();
    out.extend(&bytes[length..]);
    out[start + 48..start + 56].copy_from_slice(&tag);
    seal(&mut out, start, record.head_length.count() as usize);
    Ok(fs::write(path, out)?)
}

/// Adds a section and flags to the record of a file with one record and without a closing block.
fn change_record(path: &Path, added: Added<'_>, flags: u16) -> Result<()> {
    let bytes = fs::read(path)?;
    let record = EventFile::open(path)?.records().next().context("no record")??;
    let (start, head) = (record.offset as usize, record.head_length.count() as usize);
    let mut out = bytes[..start + head - 8].to_vec();
    section(&mut out, added);
    let new_head = out.len() + 8 - start;
    let length = record.length.count() + (new_head - head) as u64;
    out[start + 4..start + 8].copy_from_slice(&(new_head as u32).to_le_bytes());
    out[start + 8..start + 16].copy_from_slice(&length.to_le_bytes());
    out[start + 66..start + 68].copy_from_slice(&flags.to_le_bytes());
    out.extend([0; 8]);
    out.extend(&bytes[start + head..]);
    seal(&mut out, start, new_head);
    Ok(fs::write(path, out)?)
}

/// Corrects the checksum of the head that begins at `start`.
fn seal(bytes: &mut [u8], start: usize, head: usize) {
    let end = start + head - 8;
    let checksum = Checksum::of(&bytes[start..end]).number();
    bytes[end..end + 8].copy_from_slice(&checksum.to_le_bytes());
}

fn identity(builder: u16) -> FileIdentity {
    FileIdentity {
        run: RUN,
        run_id: RUN_ID,
        epoch: Epoch::new(1),
        builder: BuilderId::new(builder),
        begun: Utc::from_nanos(BEGUN),
        clock_synchronised: Some(true),
        kind: "cosmics".to_owned(),
        comment: "golden files, ν".to_owned(),
        sources: (1..=3).map(SourceId::new).collect(),
        source_names: [(1, "tracker"), (3, "veto")]
            .map(|(id, name)| (SourceId::new(id), name.to_owned()))
            .into(),
        builder_names: [(BuilderId::new(2), "second".to_owned())].into(),
        ..FileIdentity::default()
    }
}

fn written(dir: &Path, builder: u16, events: &[Event], rotate_at: u64) -> Result<EventFileWriter> {
    let options = WriterOptions {
        rotate_at: Bytes::new(rotate_at),
        fsync: FsyncPolicy::None,
        ..WriterOptions::default()
    };
    let mut writer = EventFileWriter::create(dir, identity(builder), options)?;
    for event in events {
        writer.append(event)?;
    }
    Ok(writer)
}

/// Returns an event from three sources with 3, 10 and 17 bytes.
fn event(id: u64, builder: u16, epoch: u64) -> Event {
    let mut event = Event::empty(EventId::new(id), RUN, Epoch::new(epoch), BuilderId::new(builder));
    event.run_id = RUN_ID;
    event.triggered = Instant::from_nanos(id * 1_000_003);
    event.utc = Utc::from_nanos(BEGUN + id * 1_000_000);
    for source in 1..=3 {
        let payload: Vec<u8> = (0..7 * source - 4).map(|byte| (byte * 37 + id * 11 + source) as u8).collect();
        event.add(SourceId::new(source as u16), Timestamp::new(id << 8 | source), payload.into());
    }
    event
}
