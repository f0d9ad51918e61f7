//! `evbd verify`, `dump` and `merge`, tested as a user runs them.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use evb_core::{
    event::{Alignment, Event},
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    time::{Instant, Utc},
};
use evb_file::{EventFile, EventFileWriter, FileIdentity, WriterOptions, files_at, format::FormatVersion};

const RUN: RunNumber = RunNumber::new(5);
const SOURCE: SourceId = SourceId::new(1);

fn evbd(dir: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
    let Output { status, stdout, stderr } =
        command.current_dir(dir).args(arguments).output().expect("evbd starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

/// Writes the event files of two builders with ten events.
fn record(dir: &Path) {
    for number in 1..=2 {
        let (epoch, builder) = (Epoch::new(1), BuilderId::new(number));
        let identity =
            FileIdentity { run: RUN, epoch, builder, sources: vec![SOURCE], ..FileIdentity::default() };
        let options = WriterOptions::default();
        let mut writer = EventFileWriter::create(dir.join("in"), identity, options).expect("files");
        for id in (u64::from(number)..=10).step_by(2) {
            let mut event = Event::empty(EventId::new(id), RUN, epoch, builder);
            event.add(SOURCE, Timestamp::new(id), format!("payload of {id}").into());
            writer.append(&event).expect("written");
        }
        writer.close().expect("closed");
    }
}

#[test]
fn a_clean_run_is_verified_listed_and_merged() {
    let dir = tempfile::tempdir().expect("a directory");
    record(dir.path());
    let (code, out, _) = evbd(dir.path(), &["verify", "in", "--events", "10"]);
    assert_eq!((code, out.lines().last()), (Some(0), Some("clean")), "{out}");
    let (code, out, _) = evbd(dir.path(), &["verify", "in", "--events", "11", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &report["clean"], &report["runs"][0]["events"]), (Some(1), &false.into(), &10.into()));

    let (code, out, _) = evbd(dir.path(), &["dump", "in"]);
    assert_eq!((code, out.lines().filter(|line| line.ends_with("complete")).count()), (Some(0), 10), "{out}");
    let (code, out, _) = evbd(dir.path(), &["dump", "in", "--event", "7", "--hex"]);
    assert!(code == Some(0) && out.contains("|payload of 7|"), "{out}");
    let (code, out, _) = evbd(dir.path(), &["dump", "in", "--event", "70"]);
    assert!(code == Some(1) && out.contains("event 70 is in no file of those given"), "{out}");

    let (code, out, _) = evbd(dir.path(), &["merge", "in", "--out", "merged"]);
    assert_eq!((code, out.as_str()), (Some(0), "10 events merged into 1 file\n"));
    let merged = files_at(&dir.path().join("merged")).expect("files");
    let file = EventFile::open(&merged[0]).expect("a file");
    let ids: Vec<u64> = file.events().map(|event| event.expect("intact").id.number()).collect();
    assert_eq!(ids, (1..=10).collect::<Vec<u64>>());
    let (code, _, error) = evbd(dir.path(), &["merge", "in", "--out", "merged"]);
    assert!(code == Some(2) && error.contains("exists"), "{error}");
}

#[test]
fn states_of_alignment_are_shown_and_a_merge_into_format_1_says_that_it_loses_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let (epoch, builder) = (Epoch::new(1), BuilderId::new(1));
    let identity = FileIdentity { run: RUN, epoch, builder, ..FileIdentity::default() };
    let mut writer =
        EventFileWriter::create(dir.path().join("in"), identity, WriterOptions::default()).expect("files");
    for id in 1..=2 {
        let mut event = Event::empty(EventId::new(id), RUN, epoch, builder);
        for code in 0..4 {
            let state = if id == 1 { Alignment::Unchecked } else { Alignment::from_code(code) };
            event.add_judged(SourceId::new(code.into()), Timestamp::new(id), state, "payload".into());
        }
        writer.append(&event).expect("written");
    }
    writer.close().expect("closed");

    let (_, out, _) = evbd(dir.path(), &["dump", "in", "--fragments"]);
    let states: Vec<&str> =
        out.lines().filter_map(|line| Some(line.split_once(", alignment with other sources: ")?.1)).collect();
    assert_eq!(states, ["agrees", "disagrees", "not known (clock not learnt yet, or alone)"], "{out}");
    let (code, out, err) = evbd(dir.path(), &["verify", "in"]);
    assert!(code == Some(0) && out.contains("  misaligned "), "{out}");
    assert!(err.contains("misaligned events: "), "{err}");
    let lost = "format 1 has no states of alignment and no numbers of lost packets: those of 1 event are left out; merge without `--format 1` to keep them";
    let (_, out, _) = evbd(dir.path(), &["merge", "in", "--out", "same"]);
    assert!(!out.contains("alignment"), "{out}");
    let (_, out, _) = evbd(dir.path(), &["merge", "in", "--out", "old", "--format", "1"]);
    assert!(out.lines().any(|line| line == lost), "{out}");
    let (_, out, _) = evbd(dir.path(), &["merge", "old", "--out", "again", "--format", "1"]);
    assert!(!out.contains("alignment"), "{out}");
}

#[test]
fn damage_is_told_and_never_exits_with_0() {
    let dir = tempfile::tempdir().expect("a directory");
    record(dir.path());
    let path = &files_at(&dir.path().join("in")).expect("files")[0];
    let mut bytes = fs::read(path).expect("read");
    let place = bytes.windows(12).position(|text| text == b"payload of 3").expect("event 3 is there");
    bytes[place] ^= 1;
    fs::write(path, bytes).expect("written");
    let (code, out, _) = evbd(dir.path(), &["verify", "in"]);
    assert!(code == Some(1) && out.contains("event 3") && out.ends_with("NOT CLEAN\n"), "{out}");
    let (code, out, _) = evbd(dir.path(), &["merge", "in", "--out", "merged"]);
    assert!(code == Some(1) && out.starts_with("9 events"), "{out}");
    let (code, out, _) = evbd(dir.path(), &["dump", "in", "--event", "3"]);
    assert!(code == Some(1) && out.contains("event 3"), "{out}");
}

#[test]
fn without_files_nothing_is_done() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("empty")).expect("a directory");
    for arguments in [
        &["verify", "empty"][..],
        &["verify", "nowhere"],
        &["dump", "empty"],
        &["merge", "empty", "--out", "merged"],
        &["dump", "empty", "--hex"],
    ] {
        let (code, out, error) = evbd(dir.path(), arguments);
        assert!(code == Some(2) && out.is_empty() && error.contains("error"), "{arguments:?}: {error}");
    }
}

/// The clocks of three sources, of which source 3 has a name.
const CLOCKS: &str = r#"
[supervisor]
listen = "127.0.0.1:7000"
trigger = { kind = "poisson", rate = "1 kHz" }
[[source]]
id = 1
input = { kind = "generator", size = "8 B" }
clock = { rate = "100 MHz", bits = 48 }
[[source]]
id = 2
input = { kind = "generator", size = "8 B" }
clock = { rate = "50 MHz", bits = 32 }
[[source]]
id = 3
name = "TPC crate 1"
input = { kind = "generator", size = "8 B" }
clock = { rate = "100 MHz", bits = 40 }
[[source]]
id = 4
input = { kind = "generator", size = "8 B" }
[[builder]]
id = 1
listen = "127.0.0.1:7101"
sink = "null"
[[builder]]
id = 2
listen = "127.0.0.1:7102"
sink = "null"
"#;

/// Writes the files of two builders with 2000 events of four sources, of which source 3 sends the
/// timestamp of the event that `of_third` gives. The files have the given format.
fn record_clocks(dir: &Path, format: FormatVersion, of_third: impl Fn(u64) -> u64) {
    fs::write(dir.join("evb.toml"), CLOCKS).expect("written");
    let sources: Vec<SourceId> = (1..=4).map(SourceId::new).collect();
    let mut nanos = vec![0];
    (0..2100).for_each(|event: u64| nanos.push(nanos[event as usize] + 200_000 + event * 7919 % 1_300_000));
    for number in 1..=2 {
        let (epoch, builder) = (Epoch::new(1), BuilderId::new(number));
        let identity =
            FileIdentity { run: RUN, epoch, builder, sources: sources.clone(), ..FileIdentity::default() };
        let options = WriterOptions { format, ..WriterOptions::default() };
        let mut writer = EventFileWriter::create(dir.join("in"), identity, options).expect("files");
        for id in (u64::from(number)..=2000).step_by(2) {
            let mut event = Event::empty(EventId::new(id), RUN, epoch, builder);
            let now = nanos[id as usize];
            // The clocks of the builders' hosts differ.
            event.triggered = Instant::from_nanos(now + 5_000_000_000 * u64::from(number));
            if format != FormatVersion::One {
                event.utc = Utc::from_nanos(1_763_000_000_000_000_000 + now);
            }
            let third = nanos[of_third(id) as usize];
            for (source, ticks) in sources.iter().zip([now / 10, now / 20 + 99, third / 10 + 5, id]) {
                event.add(*source, Timestamp::new(ticks), "payload".into());
            }
            writer.append(&event).expect("written");
        }
        writer.close().expect("closed");
    }
}

#[test]
fn a_board_that_missed_a_trigger_is_found_in_the_files_of_both_formats() {
    for format in [FormatVersion::One, FormatVersion::Two] {
        let dir = tempfile::tempdir().expect("a directory");
        record_clocks(dir.path(), format, |event| if event < 1201 { event } else { event + 1 });
        let (code, out, err) = evbd(dir.path(), &["verify", "in", "--align", "evb.toml"]);
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(
            out.contains(
                "MISALIGNED; 800 of 2000 events have a fragment whose timestamp disagrees with the others"
            ),
            "{out}"
        );
        let says = "since event 1201: source 3 (TPC crate 1) missed 1 trigger: its fragments belong to 1 event later";
        assert!(out.contains(says), "{out}");
        assert!(out.contains("without a clock, not compared: source 4"), "{out}");
        let (_, out, _) = evbd(dir.path(), &["verify", "in", "--align", "evb.toml", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        let episode = &report["alignment"]["episodes"][0];
        assert_eq!(
            (&episode["source"], &episode["since"], &episode["shift"]),
            (&3.into(), &1201.into(), &1.into())
        );
    }
}

#[test]
fn boards_that_agree_are_aligned_and_without_clocks_there_is_nothing_to_compare() {
    let dir = tempfile::tempdir().expect("a directory");
    record_clocks(dir.path(), FormatVersion::Two, |event| event);
    let (code, out, err) = evbd(dir.path(), &["verify", "in", "--align", "evb.toml"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("no misaligned event was found; 0 of 2000 events"), "{out}");
    fs::write(dir.path().join("bare.toml"), CLOCKS.replace("clock =", "# clock =")).expect("written");
    let (code, _, err) = evbd(dir.path(), &["verify", "in", "--align", "bare.toml"]);
    assert!(
        code == Some(2) && err.contains("gives 0 sources a `clock`, and a comparison needs two"),
        "{err}"
    );
    let (code, _, err) = evbd(dir.path(), &["verify", "in", "--align", "none.toml"]);
    assert!(code == Some(2) && err.contains("cannot read the configuration"), "{err}");
}
