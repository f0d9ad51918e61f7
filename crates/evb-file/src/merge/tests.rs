mod crafted;

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{FileExt, symlink},
    path::Path,
    process::Command,
};

use evb_core::{
    event::Event,
    fragment::Checksum,
    id::{BuilderId, Epoch, RunId, RunNumber},
};
use proptest::prelude::*;

use super::{Merge, MergeError, merge};
use crate::{
    CreateError, EventFile, EventFileWriter, FileIdentity, RunsError, Selection, VerifyOptions,
    existing_files,
    samples::{
        BUILDER, EPOCH, RUN, RUN_ID, event_of, identity, in_version_1, incomplete, misaligned, options,
        options_1, together, without_excluded, write,
    },
    verify,
};

fn builder(number: u16) -> BuilderId {
    BuilderId::new(number)
}

fn all() -> Selection {
    Selection::default()
}

fn read(dir: &Path) -> Vec<Event> {
    let files = existing_files(dir, RUN).unwrap();
    let read = |path| EventFile::open(path).unwrap().events().map(|event| event.unwrap()).collect::<Vec<_>>();
    files.into_iter().flat_map(read).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_run_comes_out_in_order_once_and_whole(
        order in Just((1..=60).collect::<Vec<u64>>()).prop_shuffle(),
        builders in 1u16..5,
        rotate_at in 500u64..4000,
        out_rotate_at in 500u64..8000,
        window in 1usize..20,
    ) {
        let dir = tempfile::tempdir().unwrap();
        // The events are almost in the order of their ids, as builders write them: only the order
        // within each window is random.
        let mut roughly: Vec<u64> = (1..=60).collect();
        for chunk in roughly.chunks_mut(window) {
            chunk.sort_by_key(|id| order.iter().position(|other| other == id));
        }
        for number in 1..=builders {
            let mine = roughly.iter().filter(|id| **id % u64::from(builders) + 1 == u64::from(number));
            let mine: Vec<Event> = mine.map(|id| event_of(*id, 30, EPOCH, builder(number))).collect();
            write(&dir.path().join("in"), builder(number), rotate_at, &mine);
        }
        let out = dir.path().join("out");
        let report = merge(&[dir.path().join("in")], &all(), &out, options(out_rotate_at)).unwrap();
        let merged = read(&out);
        prop_assert_eq!(report.written.events, 60);
        prop_assert_eq!((report.duplicates, report.superseded, report.damaged.total), (0, 0, 0));
        let ids: Vec<u64> = merged.iter().map(|event| event.id.number()).collect();
        prop_assert_eq!(ids, (1..=60).collect::<Vec<u64>>());
        for event in merged {
            let by = builder((event.id.number() % u64::from(builders) + 1) as u16);
            prop_assert_eq!(&event, &event_of(event.id.number(), 30, EPOCH, by));
        }
        let verified = verify(&[out], &VerifyOptions::default()).unwrap();
        prop_assert!(verified.is_clean(), "{}", verified);
    }
}

#[test]
fn superseded_and_duplicate_copies_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    let of = |id, epoch, number| event_of(id, 4, Epoch::new(epoch), builder(number));
    write(&input, builder(1), u64::MAX, &[of(2, 3, 1), of(1, 3, 1), of(3, 3, 1)]);
    let later = FileIdentity { epoch: Epoch::new(5), ..identity(builder(2)) };
    let mut writer = EventFileWriter::create(&input, later, options(u64::MAX)).unwrap();
    writer.append(&of(1, 5, 2)).unwrap();
    writer.append(&of(3, 3, 2)).unwrap();
    writer.close().unwrap();
    write(&input, builder(3), u64::MAX, &[of(1, 1, 3)]);
    let report = merge(&[input], &all(), &out, options(u64::MAX)).unwrap();
    assert_eq!((report.superseded, report.duplicates, report.written.events), (2, 1, 3));
    assert_eq!(read(&out), [of(1, 5, 2), of(2, 3, 1), of(3, 3, 1)]);
    let file = EventFile::open(&existing_files(&out, RUN).unwrap()[0]).unwrap();
    assert_eq!((file.header().builder, file.header().epoch), (None, Epoch::new(5)));
    assert_eq!(file.header().sources.len(), 4);
}

#[test]
fn the_highest_epoch_counts_within_a_file_too() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    let of = |id, epoch| event_of(id, 4, Epoch::new(epoch), BUILDER);
    write(&input, BUILDER, u64::MAX, &[of(1, 3), of(1, 4), of(2, 3), of(1, 5), of(2, 4), of(2, 4), of(3, 3)]);
    let report = merge(&[input], &all(), &out, options(u64::MAX)).unwrap();
    assert_eq!((report.superseded, report.duplicates, report.written.events), (3, 1, 3));
    assert_eq!(read(&out), [of(1, 5), of(2, 4), of(3, 3)]);
}

#[test]
fn a_damaged_copy_gives_way_to_an_intact_one() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    let of = |id, epoch, number| event_of(id, 40, Epoch::new(epoch), builder(number));
    let damaged = write(&input, builder(1), u64::MAX, &[of(1, 5, 1), of(2, 5, 1)]).remove(0);
    write(&input, builder(2), u64::MAX, &[of(1, 4, 2), of(3, 5, 2)]);
    let first = EventFile::open(&damaged).unwrap().records().next().unwrap().unwrap();
    OpenOptions::new().write(true).open(&damaged).unwrap().write_all_at(b"xx", first.end() - 20).unwrap();
    let report = merge(&[input], &all(), &out, options(u64::MAX)).unwrap();
    assert_eq!((report.damaged.total, report.superseded), (1, 0));
    assert_eq!(read(&out), [of(1, 4, 2), of(2, 5, 1), of(3, 5, 2)]);
}

#[test]
fn heads_and_payloads_are_those_of_the_events() {
    let dir = tempfile::tempdir().unwrap();
    let of = |id, size, epoch, number| event_of(id, size, Epoch::new(epoch), builder(number));
    // Larger and smaller than what is read from a file at a time.
    let mine = [of(1, 300_000, 5, 1), of(3, 40, 5, 1), of(4, 0, 5, 1), of(6, 70_000, 5, 1)];
    let damaged = write(dir.path(), builder(1), u64::MAX, &mine).remove(0);
    write(dir.path(), builder(2), u64::MAX, &[of(2, 50, 5, 2), of(3, 50, 4, 2), of(5, 200_000, 5, 2)]);
    let record = EventFile::open(&damaged).unwrap().records().nth(1).unwrap().unwrap();
    OpenOptions::new().write(true).open(&damaged).unwrap().write_all_at(b"xx", record.end() - 20).unwrap();

    let inputs = [dir.path().to_owned()];
    let (mut events, mut records) =
        (Merge::open(&inputs, &all()).unwrap(), Merge::open(&inputs, &all()).unwrap());
    let mut memory = b"before".to_vec();
    while let Some(event) = events.next_event().unwrap() {
        let begin = memory.len();
        let record = records.next_into(&mut memory).unwrap().unwrap();
        assert_eq!((record.event, record.epoch, &record.missing), (event.id, event.epoch, &event.missing));
        let payloads: Vec<u8> = event.fragments().flat_map(|fragment| fragment.payload.to_vec()).collect();
        assert!(memory[begin..] == payloads, "event {}", event.id);
    }
    assert!(records.next_into(&mut memory).unwrap().is_none() && memory.starts_with(b"before"));
    assert_eq!((records.report().damaged.total, events.report()), (1, records.report()));
}

#[test]
fn killed_builders_files_are_merged_up_to_their_torn_tails() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    let mut writer = EventFileWriter::create(&input, identity(BUILDER), options(u64::MAX)).unwrap();
    for id in [3, 1, 2] {
        writer.append(&event_of(id, 40, EPOCH, BUILDER)).unwrap();
    }
    writer.commit().unwrap();
    let path = writer.path();
    drop(writer);
    let length = fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 5).unwrap();
    let report = merge(&[input], &all(), &out, options(u64::MAX)).unwrap();
    assert_eq!(read(&out).iter().map(|event| event.id.number()).collect::<Vec<_>>(), [1, 3]);
    assert!(report.damaged.first[0].contains("torn tail"), "{report:?}");
}

#[test]
fn a_file_that_ends_in_its_header_costs_the_others_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    let whole = write(&input, BUILDER, u64::MAX, &[event_of(1, 40, EPOCH, BUILDER)]).remove(0);
    let bytes = fs::read(whole).unwrap();
    for length in [0, 5, 30] {
        let torn = input.join("run000001_b01_0001.evb");
        fs::write(&torn, &bytes[..length]).unwrap();
        let out = out.join(length.to_string());
        let report = merge(std::slice::from_ref(&input), &all(), &out, options(u64::MAX)).unwrap();
        assert_eq!((report.written.events, read(&out).len()), (1, 1));
        let [told] = &report.damaged.first[..] else { panic!("{report:?}") };
        assert!(told.contains("run000001_b01_0001.evb") && told.contains("no event"), "{told}");
        let alone = merge(&[torn], &all(), out.join("alone"), options(u64::MAX));
        assert!(matches!(alone, Err(MergeError::Read(_))) && !out.join("alone").exists(), "{alone:?}");
    }
}

/// Makes something that is no event file, at that path.
type Make = fn(&Path);

/// Things that may lie beside event files, with a name like theirs.
const BAD: [(&str, Make); 9] = [
    ("zeros", |path| fs::write(path, [0; 4096]).unwrap()),
    ("a text", |path| fs::write(path, "notes").unwrap()),
    ("nothing", |path| fs::write(path, "").unwrap()),
    ("a folder", |path| fs::create_dir(path).unwrap()),
    ("a link to nothing", |path| symlink("nowhere", path).unwrap()),
    ("a link to itself", |path| symlink(path, path).unwrap()),
    ("a pipe", |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
    ("a device", |path| symlink("/dev/zero", path).unwrap()),
    ("a file of another version", |path| {
        fs::write(path, [b"\x89EVB\r\n\x1a\n".as_slice(), &[99; 500]].concat()).unwrap();
    }),
];

#[test]
fn a_bad_file_costs_only_itself_and_is_named() {
    for (kind, make) in BAD {
        let dir = tempfile::tempdir().unwrap();
        let (input, out) = (dir.path().join("in"), dir.path().join("out"));
        write(&input, BUILDER, u64::MAX, &[event_of(1, 40, EPOCH, BUILDER)]);
        let bad = input.join("run000001_b01_0001.evb");
        make(&bad);
        let report = merge(std::slice::from_ref(&input), &all(), &out, options(u64::MAX)).unwrap();
        assert_eq!((report.written.events, read(&out).len()), (1, 1), "{kind}");
        let [told] = &report.damaged.first[..] else { panic!("{kind}: {report:?}") };
        assert!(told.contains("run000001_b01_0001.evb"), "{kind}: {told}");
        let verified = verify(std::slice::from_ref(&input), &VerifyOptions::default()).unwrap();
        assert_eq!((verified.runs[0].events, verified.unreadable.len()), (1, 1), "{kind}: {verified}");
        assert!(verified.unreadable[0].path.ends_with("run000001_b01_0001.evb"), "{kind}: {verified}");
        assert!(merge(&[bad], &all(), out.join("alone"), options(u64::MAX)).is_err(), "{kind}");
        assert!(!out.join("alone").exists(), "{kind}");
    }
}

/// A file that disappears while it is merged costs its own events only.
#[test]
fn a_file_that_disappears_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    write(&input, BUILDER, u64::MAX, &[1, 4].map(|id| event_of(id, 40, EPOCH, BUILDER)));
    let gone = write(&input, builder(9), u64::MAX, &[2, 3].map(|id| event_of(id, 40, EPOCH, builder(9))));
    let mut merge = Merge::open(&[input], &all()).unwrap();
    fs::remove_file(&gone[0]).unwrap();
    let mut found = Vec::new();
    while let Some(event) = merge.next_event().unwrap() {
        found.push(event.id.number());
    }
    assert_eq!(found, [1, 4]);
    let [told] = &merge.report().damaged.first[..] else { panic!("{:?}", merge.report()) };
    assert!(told.contains("b09_0000.evb"), "{told}");
}

/// Replaces the event's record in a file by one with another section before the closing block,
/// whose index is left out.
fn with_section(path: &Path, kind: u16, flags: u16, body: &[u8; 8]) {
    let file = EventFile::open(path).unwrap();
    let record = file.records().next().unwrap().unwrap();
    let bytes = fs::read(path).unwrap();
    let (start, head_end) = (record.offset as usize, (record.offset + record.head_length.count()) as usize);
    let mut out = bytes[..head_end - 8].to_vec();
    out.extend(kind.to_le_bytes());
    out.extend(flags.to_le_bytes());
    out.extend(8_u32.to_le_bytes());
    out.extend(body);
    let (head, length) = ((out.len() + 8 - start) as u32, record.length.count() + 16);
    out[start + 4..start + 8].copy_from_slice(&head.to_le_bytes());
    out[start + 8..start + 16].copy_from_slice(&length.to_le_bytes());
    out.extend(Checksum::of(&out[start..]).number().to_le_bytes());
    out.extend(&bytes[head_end..record.end() as usize]);
    fs::write(path, out).unwrap();
}

#[test]
fn a_copy_keeps_what_this_version_does_not_know() {
    let dir = tempfile::tempdir().unwrap();
    let (input, out) = (dir.path().join("in"), dir.path().join("out"));
    let event = incomplete(1);
    let path = write(&input, BUILDER, u64::MAX, std::slice::from_ref(&event)).remove(0);
    with_section(&path, 77, 0, b"whatever");
    let report = merge(std::slice::from_ref(&input), &all(), &out, options(u64::MAX)).unwrap();
    assert_eq!((report.written.events, report.damaged.total), (1, 0), "{report:?}");
    assert_eq!(read(&out), [event]);
    let merged = existing_files(&out, RUN).unwrap().remove(0);
    assert!(fs::read(&merged).unwrap().windows(8).any(|bytes| bytes == b"whatever"));
    let header = EventFile::open(merged).unwrap().header().clone();
    assert_eq!((header.run_id, header.begun), (RUN_ID, identity(BUILDER).begun));
    assert!(verify(&[out], &VerifyOptions::default()).unwrap().runs[0].damaged.total == 0);

    with_section(&path, 78, 1, b"required");
    let report = merge(&[input], &all(), dir.path().join("other"), options(u64::MAX)).unwrap();
    assert_eq!(report.written.events, 0);
    assert!(
        report.damaged.first[0].contains("its section 78 is required and needs a newer evb"),
        "{report:?}"
    );
}

#[test]
fn both_versions_are_merged_into_both() {
    let dir = tempfile::tempdir().unwrap();
    let events = [event_of(1, 5, EPOCH, BUILDER), incomplete(2), without_excluded(3), misaligned(4)];
    let old: Vec<Event> = events.iter().map(in_version_1).collect();
    for (input, of_input, found) in
        [("one", options_1(u64::MAX), &old[..]), ("two", options(u64::MAX), &events[..])]
    {
        let input = dir.path().join(input);
        let mut writer = EventFileWriter::create(&input, identity(BUILDER), of_input).unwrap();
        events.iter().for_each(|event| writer.append(event).unwrap());
        writer.close().unwrap();
        assert_eq!(read(&input), found);
        for (out, of_output, expected) in
            [("to-1", options_1(u64::MAX), &old[..]), ("to-2", options(u64::MAX), found)]
        {
            let out = input.join(out);
            let report = merge(std::slice::from_ref(&input), &all(), &out, of_output).unwrap();
            assert_eq!(read(&out), expected, "{}", out.display());
            let is_lost = found == events && of_output == options_1(u64::MAX);
            assert_eq!(report.without_states, u64::from(is_lost), "event 4");
            let header = EventFile::open(&existing_files(&out, RUN).unwrap()[0]).unwrap().header().clone();
            assert_eq!(header.version, of_output.format);
            let has_id = found == events && of_output == options(u64::MAX);
            assert_eq!(header.run_id, if has_id { RUN_ID } else { RunId::UNKNOWN });
        }
    }
}

#[test]
fn of_two_runs_under_one_number_each_can_be_merged() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    for (builder_id, id) in [(1_u16, 5_u128), (2, 6)] {
        let (by, run_id) = (builder(builder_id), RunId::new(id << 96));
        let identity = FileIdentity { run_id, epoch: Epoch::new(id as u64), ..identity(by) };
        together(&input, |dir| {
            let mut writer = EventFileWriter::create(dir, identity, options(u64::MAX)).unwrap();
            let mut event = event_of(1, 5, Epoch::new(id as u64), by);
            event.run_id = run_id;
            writer.append(&event).unwrap();
            writer.close().unwrap();
        });
    }
    let inputs = std::slice::from_ref(&input);
    let refused = merge(inputs, &all(), dir.path().join("out"), options(u64::MAX)).unwrap_err();
    assert!(refused.to_string().contains("choose one with `--run`"), "{refused}");
    for id in ["00000005", "00000006"] {
        let selection = Selection { run: Some(id.parse().unwrap()), ..all() };
        let out = dir.path().join(id);
        let report = merge(inputs, &selection, &out, options(u64::MAX)).unwrap();
        assert_eq!((report.written.events, report.superseded), (1, 0));
        assert_eq!(read(&out)[0].run_id.short().to_string(), id);
    }
}

#[test]
fn only_the_selected_epochs_of_old_files_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    for (number, epoch) in [(1, 100), (2, 200)] {
        let identity = FileIdentity { epoch: Epoch::new(epoch), ..identity(builder(number)) };
        together(&input, |dir| {
            let mut writer = EventFileWriter::create(dir, identity, options_1(u64::MAX)).unwrap();
            writer.append(&event_of(1, 5, Epoch::new(epoch), builder(number))).unwrap();
            writer.close().unwrap();
        });
    }
    for (range, of) in [("100..199", 1), ("200..", 2)] {
        let (out, epochs) = (dir.path().join(range), range.parse().ok());
        let selection = Selection { epochs, ..all() };
        let report = merge(std::slice::from_ref(&input), &selection, &out, options(u64::MAX)).unwrap();
        assert_eq!((report.other_epochs, report.superseded), (1, 0));
        assert_eq!(read(&out)[0].builder, builder(of));
    }
    let same = Selection { same_run: true, ..all() };
    let report = merge(&[input], &same, dir.path().join("same"), options(u64::MAX)).unwrap();
    assert_eq!((report.written.events, report.superseded), (1, 1));
}

#[test]
fn mixed_runs_and_used_directories_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    write(&input, BUILDER, u64::MAX, &[event_of(1, 4, EPOCH, BUILDER)]);
    let refused = merge(std::slice::from_ref(&input), &all(), &input, options(u64::MAX));
    assert!(matches!(refused, Err(MergeError::Create(CreateError::Exists { .. }))), "{refused:?}");
    let mut other = identity(BUILDER);
    other.run = RunNumber::new(2);
    EventFileWriter::create(&input, other, options(u64::MAX)).unwrap().close().unwrap();
    let refused = merge(&[input], &all(), dir.path().join("out"), options(u64::MAX));
    assert!(matches!(refused, Err(MergeError::Runs(RunsError::Several { .. }))), "{refused:?}");
    assert!(!dir.path().join("out").exists(), "nothing is begun before the inputs are known to be good");
}

#[test]
fn a_file_recovered_from_its_records_is_merged_with_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("in");
    write(&from, builder(1), u64::MAX, &[event_of(1, 5, EPOCH, builder(1))]);
    let lost = write(&from, builder(2), u64::MAX, &[event_of(2, 5, EPOCH, builder(2))]).remove(0);
    let file = OpenOptions::new().write(true).open(&lost).unwrap();
    // The header and its copy are gone, so only the first digits of the run id are known.
    let record = EventFile::open(&lost).unwrap().records().next().unwrap().unwrap();
    file.set_len(record.end()).unwrap();
    file.write_all_at(&vec![0; record.offset as usize], 0).unwrap();
    let to = dir.path().join("out");
    let report = merge(&[from], &all(), &to, options(u64::MAX)).unwrap();
    assert_eq!((report.written.events, report.damaged.total), (2, 1));
    assert!(read(&to).iter().all(|event| event.run_id == RUN_ID));
}
