use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use evb_core::{
    event::{Cause, Event, MissingSource},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
};
use proptest::prelude::*;

use super::{
    EventsOfSource, Gap, RunReport, VerifyError, VerifyOptions, VerifyReport, verify, verify_watched,
};
use crate::{
    EventFile, EventFileWriter, FileIdentity, Selection, WithoutSource,
    format::{encode_head, record_size},
    samples::{
        BUILDER, EPOCH, event, event_of, identity, incomplete, misaligned, options, together,
        without_excluded, write,
    },
};

const OTHER: BuilderId = BuilderId::new(2);

fn report(dir: &Path) -> VerifyReport {
    verify(&[dir.to_owned()], &VerifyOptions::default()).unwrap()
}

fn of_run(report: &VerifyReport) -> &RunReport {
    assert_eq!(report.runs.len(), 1, "{report}");
    &report.runs[0]
}

fn events(ids: impl IntoIterator<Item = u64>, builder: BuilderId) -> Vec<Event> {
    ids.into_iter().map(|id| event_of(id, id as usize * 10, EPOCH, builder)).collect()
}

/// Writes files of two builders that hold the events 1 to 40, the odd ones in one builder's files
/// and the even ones in the other's.
fn clean_run(dir: &Path) -> Vec<PathBuf> {
    let mut files = write(dir, BUILDER, 2000, &events((1..=40).step_by(2), BUILDER));
    files.extend(write(dir, OTHER, u64::MAX, &events((2..=40).step_by(2), OTHER)));
    files
}

fn flip(path: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
}

#[test]
fn a_clean_run_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    let files = clean_run(dir.path());
    assert!(files.len() > 3);
    let report = report(dir.path());
    let run = of_run(&report);
    assert!(report.is_clean(), "{report}");
    assert_eq!((run.events, run.complete, run.records, run.absent), (40, 40, 40, 0));
    assert_eq!(run.highest, EventId::new(40));
    assert_eq!(run.files.len(), files.len());
    assert_eq!(run.payload.count(), (1..=40).map(|id| id * 20).sum::<u64>());
    let twice = verify(&[dir.path().to_owned(), files[0].clone()], &VerifyOptions::default()).unwrap();
    assert!(twice.is_clean(), "a file named twice counts once: {twice}");
}

#[test]
fn an_onlooker_sees_every_record_pass() {
    let dir = tempfile::tempdir().unwrap();
    let files = clean_run(dir.path());
    let (mut seen, mut calls) = (0, 0);
    let watch = |bytes: evb_core::units::Bytes| {
        seen += bytes.count();
        calls += 1;
    };
    let watched = verify_watched(&[dir.path().to_owned()], &VerifyOptions::default(), watch).unwrap();
    assert_eq!(watched, report(dir.path()));
    let all: u64 = files.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert_eq!(calls, 40);
    assert!(seen < all && seen > all / 2, "{seen} of {all}");
}

#[test]
fn gaps_are_told_and_count_only_against_an_expectation() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), BUILDER, u64::MAX, &events([3, 4, 6, 9], BUILDER));
    let gaps = [(1, 2), (5, 5), (7, 8)]
        .map(|(first, last)| Gap { first: EventId::new(first), last: EventId::new(last) });
    let found = report(dir.path());
    assert!(found.is_clean(), "{found}");
    assert_eq!((of_run(&found).absent, of_run(&found).gaps.first.as_slice()), (5, gaps.as_slice()));
    for (expected, clean) in [(4, true), (9, false), (3, false)] {
        let options = VerifyOptions { expected: Some(expected), ..VerifyOptions::default() };
        let report = verify(&[dir.path().to_owned()], &options).unwrap();
        assert_eq!(report.is_clean(), clean, "{report}");
    }
}

#[test]
fn incomplete_events_are_named_with_their_missing_sources() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), BUILDER, u64::MAX, &[event(1, 1), incomplete(2), event(3, 1)]);
    let report = report(dir.path());
    let run = of_run(&report);
    assert!(!report.is_clean());
    assert_eq!((run.events, run.complete, run.incomplete.total), (3, 2, 1));
    assert_eq!(run.incomplete.first[0].event, EventId::new(2));
    assert_eq!(run.incomplete.first[0].missing, [MissingSource::new(SourceId::new(3), Cause::Down)]);
    assert!(report.to_string().contains("incomplete: event 2, missing: source 3 (down)"), "{report}");
}

#[test]
fn events_without_a_source_are_counted_by_cause() {
    let dir = tempfile::tempdir().unwrap();
    let mut both = incomplete(4);
    both.absent = without_excluded(4).absent;
    // The copy of event 5 that counts is complete and whole.
    let mut superseded = incomplete(5);
    superseded.epoch = Epoch::new(1);
    let events =
        [event(1, 1), incomplete(2), without_excluded(3), both, superseded, event(5, 1), without_excluded(6)];
    write(dir.path(), BUILDER, u64::MAX, &events);
    let report = report(dir.path());
    let run = of_run(&report);
    let of = |id, cause, events| WithoutSource { source: SourceId::new(id), cause, events };
    assert_eq!((run.complete, run.incomplete.total), (4, 2));
    assert_eq!(run.incomplete_without, [of(3, Cause::Down, 2)]);
    assert_eq!(run.complete_without, [of(4, Cause::Excluded, 2)]);
    let text = report.to_string();
    assert!(text.contains("of these 2 without source 4 (excluded)"), "{text}");
    assert!(text.contains("2 without source 3 (down)"), "{text}");
}

#[test]
fn events_with_a_fragment_that_disagrees_are_counted_and_are_no_defect() {
    let dir = tempfile::tempdir().unwrap();
    // The copy of event 4 that counts is aligned.
    let mut superseded = misaligned(4);
    superseded.epoch = Epoch::new(1);
    write(
        dir.path(),
        BUILDER,
        u64::MAX,
        &[misaligned(1), event(2, 1), misaligned(3), superseded, event(4, 1)],
    );
    let report = report(dir.path());
    let run = of_run(&report);
    assert!(report.is_clean(), "{report}");
    assert_eq!((run.complete, run.misaligned), (4, 2));
    assert_eq!(run.misaligned_by, [EventsOfSource { source: SourceId::new(2), events: 2 }]);
    let row = "  misaligned                      2  with a fragment whose timestamp disagrees with the others: 2 of source 2";
    assert!(report.to_string().lines().any(|line| line == row), "{report}");
}

#[test]
fn several_runs_under_one_number_are_a_defect_and_not_superseded() {
    let dir = tempfile::tempdir().unwrap();
    for (builder, id) in [(1_u16, 5_u128), (2, 6)] {
        let (builder, run_id) = (BuilderId::new(builder), RunId::new(id << 96));
        let identity = FileIdentity { run_id, epoch: Epoch::new(id as u64), ..identity(builder) };
        together(dir.path(), |dir| {
            let mut writer = EventFileWriter::create(dir, identity, options(u64::MAX)).unwrap();
            for number in 1..=3 {
                let mut event = event_of(number, 5, Epoch::new(id as u64), builder);
                event.run_id = run_id;
                writer.append(&event).unwrap();
            }
            writer.close().unwrap();
        });
    }
    let both = report(dir.path());
    assert!(!both.is_clean());
    assert!(both.to_string().contains("several runs have the number 1: run 1 (00000005, "), "{both}");
    for run in &both.runs {
        assert_eq!((run.events, run.superseded.total, run.foreign.total), (3, 0, 0));
    }
    let selection = Selection { run: Some("00000006".parse().unwrap()), ..Selection::default() };
    let options = VerifyOptions { selection, expected: Some(3) };
    let one = verify(&[dir.path().to_owned()], &options).unwrap();
    assert!(one.is_clean() && one.runs.len() == 1, "{one}");
}

#[test]
fn a_recovered_header_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), BUILDER, u64::MAX, &events(1..=3, BUILDER)).remove(0);
    let mut bytes = fs::read(&path).unwrap();
    bytes[30] ^= 1;
    fs::write(&path, bytes).unwrap();
    let report = report(dir.path());
    assert!(!report.is_clean() && of_run(&report).damaged.total == 1 && of_run(&report).events == 3);
    let text = report.to_string();
    assert!(text.contains("the header is damaged; recovered from the closing block"), "{text}");
}

#[test]
fn only_records_of_the_selected_epochs_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let copies = [1, 2, 3].map(|epoch| event_of(epoch, 5, Epoch::new(epoch), BUILDER));
    write(dir.path(), BUILDER, u64::MAX, &copies);
    let selection = Selection { epochs: "1..2".parse().ok(), ..Selection::default() };
    let options = VerifyOptions { selection, ..VerifyOptions::default() };
    let report = verify(&[dir.path().to_owned()], &options).unwrap();
    assert_eq!((of_run(&report).events, of_run(&report).other_epochs), (2, 1), "{report}");
}

#[test]
fn duplicates_are_found_across_files() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), BUILDER, u64::MAX, &events([1, 2, 3, 2], BUILDER));
    write(dir.path(), OTHER, u64::MAX, &events([3, 4], OTHER));
    let report = report(dir.path());
    let run = of_run(&report);
    assert!(!report.is_clean());
    assert_eq!((run.events, run.records, run.duplicates.total), (4, 6, 2));
    assert_eq!(run.duplicates.first.iter().map(|copy| copy.event.number()).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn of_two_copies_in_one_epoch_the_one_that_a_merge_takes_counts() {
    for (first, complete) in [(incomplete(1), 0), (event(1, 5), 1)] {
        let dir = tempfile::tempdir().unwrap();
        let mut second = if complete == 0 { event(1, 5) } else { incomplete(1) };
        second.builder = OTHER;
        write(dir.path(), BUILDER, u64::MAX, &[first]);
        write(dir.path(), OTHER, u64::MAX, &[second]);
        let report = report(dir.path());
        let run = of_run(&report);
        assert_eq!((run.events, run.complete, run.duplicates.total), (1, complete, 1), "{report}");
    }
}

#[test]
fn the_highest_epoch_counts_and_others_are_superseded() {
    let dir = tempfile::tempdir().unwrap();
    let mut old = incomplete(1);
    old.epoch = Epoch::new(1);
    let newer = event_of(2, 1, Epoch::new(8), BUILDER);
    write(dir.path(), BUILDER, u64::MAX, &[old, event(2, 1), newer]);
    write(dir.path(), OTHER, u64::MAX, &events([1], OTHER));
    let report = report(dir.path());
    let run = of_run(&report);
    assert!(report.is_clean(), "an incomplete copy that does not count is no defect: {report}");
    assert_eq!((run.events, run.complete, run.superseded.total), (2, 2, 2));
    assert_eq!(run.superseded.first[1].by, Epoch::new(8));
    assert!(run.incomplete.first.is_empty());
}

#[test]
fn crc_errors_are_found_in_heads_payloads_and_indexes() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), BUILDER, u64::MAX, &events(1..=3, BUILDER)).remove(0);
    let original = fs::read(&path).unwrap();
    let second = EventFile::open(&path).unwrap().records().nth(1).unwrap().unwrap();
    let head = second.offset + 16;
    let payload = second.end() - 10;
    let index = original.len() as u64 - 30;
    for (place, left, named) in [(head, 2, None), (payload, 2, Some(EventId::new(2))), (index, 3, None)] {
        fs::write(&path, &original).unwrap();
        flip(&path, place);
        let report = report(dir.path());
        let run = of_run(&report);
        assert!(!report.is_clean(), "byte {place}");
        assert_eq!((run.damaged.total, run.events), (1, left), "byte {place}: {report}");
        assert_eq!(run.damaged.first[0].event, named, "byte {place}: {report}");
    }
}

/// Writes events 1 to 3 to a file and leaves it as a killed writer would, without an index.
fn killed_writer(dir: &Path) -> PathBuf {
    let mut writer = EventFileWriter::create(dir, identity(BUILDER), options(u64::MAX)).unwrap();
    for event in events(1..=3, BUILDER) {
        writer.append(&event).unwrap();
    }
    writer.commit().unwrap();
    writer.path()
}

fn cut(path: &Path, by: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - by).unwrap();
}

#[test]
fn torn_tails_and_missing_indexes_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = killed_writer(dir.path());
    let killed = report(dir.path());
    assert!(killed.is_clean(), "no event is lost: {killed}");
    assert_eq!((of_run(&killed).without_index.total, of_run(&killed).events), (1, 3));

    cut(&path, 1);
    let torn = report(dir.path());
    assert!(!torn.is_clean());
    assert_eq!(
        (of_run(&torn).torn_tails.total, of_run(&torn).events, of_run(&torn).damaged.total),
        (1, 2, 0)
    );
    assert_eq!(of_run(&torn).torn_tails.first[0].event, Some(EventId::new(3)));
}

#[test]
fn what_is_added_to_a_closed_file_is_damage_and_the_file_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), BUILDER, u64::MAX, &events(1..=3, BUILDER)).remove(0);
    let (whole, other) = (fs::read(&path).unwrap(), dir.path().join("other"));
    let other = fs::read(write(&other, OTHER, u64::MAX, &events(4..=5, OTHER)).remove(0)).unwrap();
    for added in [b"\n".as_slice(), &other] {
        fs::write(&path, [&whole, added].concat()).unwrap();
        let report = report(dir.path());
        let run = of_run(&report);
        assert!(!report.is_clean() && run.damaged.first[0].offset > 0, "{report}");
        // If the added bytes end like a closed file, a second entry may be about the index that
        // they name; its place depends on the length of the program's name in the header.
        assert!((1..=2).contains(&run.damaged.total), "{report}");
        assert_eq!((run.events, run.without_index.total), (3, 0), "{report}");
    }
}

#[test]
fn a_torn_record_whose_event_was_built_again_is_no_defect() {
    let dir = tempfile::tempdir().unwrap();
    let path = killed_writer(dir.path());
    cut(&path, 8);
    write(dir.path(), OTHER, u64::MAX, &events([4], OTHER));
    let lost = report(dir.path());
    assert!(!lost.is_clean() && lost.to_string().contains("perhaps of events that are lost"), "{lost}");

    write(dir.path(), OTHER, u64::MAX, &[event_of(3, 30, Epoch::new(8), OTHER)]);
    let again = report(dir.path());
    assert!(again.is_clean(), "{again}");
    assert!(again.to_string().contains("of event 3, of which there is a whole record"), "{again}");
    assert!(of_run(&again).torn_tails.first[0].elsewhere);
}

#[test]
fn a_record_torn_in_its_head_is_no_defect_only_where_all_expected_events_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = killed_writer(dir.path());
    let last = EventFile::open(&path).unwrap().records().last().unwrap().unwrap();
    let all = fs::metadata(&path).unwrap().len();
    for (kept, expected, clean) in
        [(60, None, false), (60, Some(3), false), (60, Some(2), true), (4, Some(2), true)]
    {
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(all).unwrap();
        file.set_len(last.offset + kept).unwrap();
        let options = VerifyOptions { expected, ..VerifyOptions::default() };
        let report = verify(&[dir.path().to_owned()], &options).unwrap();
        assert_eq!(report.is_clean(), clean, "{kept} of its bytes, {expected:?}: {report}");
        assert_eq!(of_run(&report).torn_tails.first[0].event, None, "{report}");
    }
}

#[test]
fn runs_in_one_directory_are_verified_each_for_itself_unless_one_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    clean_run(dir.path());
    let mut second = identity(BUILDER);
    second.run = RunNumber::new(2);
    let mut writer = EventFileWriter::create(dir.path(), second, options(u64::MAX)).unwrap();
    let mut event = event(1, 5);
    event.run = RunNumber::new(2);
    writer.append(&event).unwrap();
    let path = writer.path();
    writer.close().unwrap();
    let both = report(dir.path());
    assert!(both.is_clean(), "{both}");
    assert_eq!(both.runs.iter().map(|run| run.events).collect::<Vec<_>>(), [40, 1]);

    let chosen = |run: &str| {
        let selection = Selection { run: Some(run.parse().unwrap()), ..Selection::default() };
        verify(&[dir.path().to_owned()], &VerifyOptions { selection, expected: None })
    };
    let one = chosen("1").unwrap();
    assert!(one.is_clean() && of_run(&one).events == 40, "{one}");
    let none = chosen("3").unwrap_err().to_string();
    assert!(none.starts_with("none of the files is of run 3, but of run 1 (5eedcafe, begun 2025-"), "{none}");

    fs::rename(&path, dir.path().join("run000003_b01_0000.evb")).unwrap();
    let renamed = report(dir.path());
    assert_eq!(renamed.runs[1].foreign.total, 1, "{renamed}");
}

#[test]
fn records_of_another_builder_than_their_file_are_foreign() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), BUILDER, u64::MAX, &events(1..=1, BUILDER)).remove(0);
    let (mut bytes, tag) = EventFile::open(&path).unwrap().header().encode();
    let strays = [event(1, 0), event_of(2, 0, EPOCH, OTHER)];
    for event in strays {
        let size = record_size(&event, tag.version).unwrap();
        encode_head(&event, size, &tag, &mut bytes);
    }
    fs::write(&path, bytes).unwrap();
    let report = report(dir.path());
    let run = of_run(&report);
    assert!(!report.is_clean());
    assert_eq!((run.events, run.foreign.total, run.foreign.first[0].event), (1, 1, Some(EventId::new(2))));
}

#[test]
fn an_index_that_names_other_records_is_found() {
    // The index of one of the run's two files lists fewer records than the file has; its checksum
    // is right.
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), BUILDER, u64::MAX, &events(1..=3, BUILDER)).remove(0);
    let file = EventFile::open(&path).unwrap();
    let mut entries = file.index_entries(0, 2).unwrap();
    let end = file.records().last().unwrap().unwrap().end();
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(end as usize);
    file.block()
        .write::<()>(&mut entries, end, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
    fs::write(&path, bytes).unwrap();
    let report = report(dir.path());
    assert_eq!((of_run(&report).damaged.total, of_run(&report).events), (1, 3), "{report}");
}

#[test]
fn files_that_cannot_be_read_are_named_and_no_file_at_all_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let empty = verify(&[dir.path().to_owned()], &VerifyOptions::default());
    assert!(matches!(empty, Err(VerifyError::NoFiles { .. })));
    assert!(matches!(
        verify(&[dir.path().join("absent")], &VerifyOptions::default()),
        Err(VerifyError::File(_))
    ));
    clean_run(dir.path());
    fs::write(dir.path().join("run000001_b03_0000.evb"), b"no event file").unwrap();
    let report = report(dir.path());
    assert!(!report.is_clean());
    assert!(report.to_string().contains("run000001_b03_0000.evb: it is not an event file"), "{report}");
}

#[cfg(feature = "serde")]
#[test]
fn a_report_is_json_with_plain_numbers() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), BUILDER, u64::MAX, &[event(1, 1), incomplete(2), misaligned(3)]);
    let json = serde_json::to_value(report(dir.path())).unwrap();
    let run = &json["runs"][0];
    assert_eq!(run["run"], 1);
    assert_eq!(run["incomplete"]["total"], 1);
    assert_eq!(run["incomplete"]["first"][0]["missing"][0]["source"], 3);
    assert_eq!(run["incomplete"]["first"][0]["missing"][0]["cause"], "down");
    assert_eq!(run["incomplete_without"][0]["events"], 1);
    assert_eq!((&run["misaligned"], &run["misaligned_by"][0]["source"]), (&1.into(), &2.into()));
    assert_eq!(
        (&run["run_id"], &run["begun"]),
        (&RUN_ID.to_string().into(), &1_763_000_000_000_000_000_u64.into())
    );
    assert_eq!(
        (&run["files"][0]["format"], &run["files"][0]["recovered"]),
        (&2.into(), &serde_json::Value::Null)
    );
    assert_eq!(run["files"][0]["index"], "present");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Compares the report with counts that the test computes independently.
    #[test]
    fn counts_are_right_for_any_mix(copies in prop::collection::vec((1u64..20, 0u64..3, any::<bool>()), 1..40)) {
        use std::collections::BTreeMap;
        let dir = tempfile::tempdir().unwrap();
        let (mut written, mut model) = (Vec::new(), BTreeMap::<u64, BTreeMap<u64, Vec<bool>>>::new());
        for (id, epoch, complete) in &copies {
            let mut event = event_of(*id, 3, Epoch::new(*epoch), BUILDER);
            if !complete {
                event.missing = vec![MissingSource::new(SourceId::new(4), Cause::Unknown)];
            }
            written.push(event);
            model.entry(*id).or_default().entry(*epoch).or_default().push(*complete);
        }
        write(dir.path(), BUILDER, 1000, &written);
        let report = report(dir.path());
        let run = of_run(&report);
        let counted = |epochs: &BTreeMap<u64, Vec<bool>>| epochs.values().last().unwrap()[0];
        let complete = model.values().filter(|epochs| counted(epochs)).count() as u64;
        let duplicates: usize = model.values().flat_map(|epochs| epochs.values()).map(|copies| copies.len() - 1).sum();
        let superseded: usize = model.values().map(|epochs| epochs.len() - 1).sum();
        prop_assert_eq!(run.events, model.len() as u64);
        prop_assert_eq!(run.complete, complete);
        prop_assert_eq!(run.incomplete.total, run.events - complete);
        prop_assert_eq!(run.incomplete.first.len() as u64, run.incomplete.total);
        prop_assert_eq!(run.duplicates.total, duplicates as u64);
        prop_assert_eq!(run.superseded.total, superseded as u64);
        let highest = *model.keys().last().unwrap();
        prop_assert_eq!(run.absent, highest - model.len() as u64);
        prop_assert_eq!(report.is_clean(), duplicates == 0 && complete == run.events);
    }
}
