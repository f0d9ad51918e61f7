use std::path::Path;

use evb_core::{
    id::{BuilderId, Epoch, RunId},
    rng::Rng,
};

use super::{RunChoice, Runs, RunsError, Selection};
use crate::{
    CreateError, EventFileWriter, FileIdentity, VerifyOptions, WriterOptions, files_at, merge,
    samples::{event_of, identity, in_version_1, options, options_1, together},
    verify,
};

/// Writes one file, whose header and records have these epochs.
fn file(dir: &Path, options: WriterOptions, builder: u16, id: RunId, epoch: u64, records: &[u64]) {
    let builder = BuilderId::new(builder);
    let identity = FileIdentity { run_id: id, epoch: Epoch::new(epoch), ..identity(builder) };
    let write = |dir: &Path| {
        let mut writer = EventFileWriter::create(dir, identity.clone(), options)?;
        for (number, epoch) in records.iter().enumerate() {
            let mut event = event_of(number as u64 + 1, 5, Epoch::new(*epoch), builder);
            event.run_id = id;
            writer.append(&event).unwrap();
        }
        writer.close().unwrap();
        Ok::<(), CreateError>(())
    };
    // A directory with another run of this number gets the file from elsewhere.
    if write(dir).is_err() {
        together(dir, |dir| write(dir).unwrap());
    }
}

fn old(dir: &Path, builder: u16, epoch: u64, records: &[u64]) {
    file(dir, options_1(u64::MAX), builder, RunId::UNKNOWN, epoch, records);
}

/// Returns the number of files of each run.
fn sizes(dir: &Path, selection: &Selection) -> Vec<usize> {
    Runs::of(files_at(dir).unwrap(), selection).found.iter().map(|run| run.files.len()).collect()
}

fn chosen(dir: &Path, run: &str) -> Result<Option<super::FoundRun>, RunsError> {
    let selection = Selection { run: Some(run.parse().unwrap()), ..Selection::default() };
    Runs::of(files_at(dir).unwrap(), &selection).one(&selection)
}

#[test]
fn runs_under_one_number_are_told_apart_by_their_ids() {
    let dir = tempfile::tempdir().unwrap();
    let ids = [0x1234_5678 << 96, 0x1234_ffff << 96].map(RunId::new);
    for (builder, id) in [(1, ids[0]), (2, ids[1]), (3, ids[0])] {
        file(dir.path(), options(u64::MAX), builder, id, 3, &[3]);
    }
    assert_eq!(sizes(dir.path(), &Selection::default()), [2, 1]);
    assert_eq!(chosen(dir.path(), "12345").unwrap().unwrap().files.len(), 2);
    assert_eq!(chosen(dir.path(), &ids[1].to_string()).unwrap().unwrap().run_id, ids[1]);
    for several in ["1234", "1"] {
        let refused = chosen(dir.path(), several).unwrap_err().to_string();
        assert!(refused.contains("run 1 (12345678,") && refused.contains("run 1 (1234ffff,"), "{refused}");
    }
    let Err(RunsError::NoSuchRun { runs, .. }) = chosen(dir.path(), "9999") else { panic!("no such run") };
    assert_eq!(runs.len(), 2);
}

#[test]
fn old_files_of_one_run_have_one_epoch_in_their_headers() {
    let dir = tempfile::tempdir().unwrap();
    // Builder 2 was started again after a takeover, and took events over from builder 1.
    old(dir.path(), 1, 100, &[100, 100, 101]);
    old(dir.path(), 2, 100, &[500, 501]);
    old(dir.path(), 2, 100, &[501]);
    assert_eq!(sizes(dir.path(), &Selection::default()), [3]);
}

#[test]
fn old_files_with_an_epoch_in_common_are_of_one_run() {
    let dir = tempfile::tempdir().unwrap();
    old(dir.path(), 1, 100, &[100, 200]);
    old(dir.path(), 2, 200, &[200, 300]);
    old(dir.path(), 3, 250, &[300]);
    old(dir.path(), 4, 900, &[900]);
    assert_eq!(sizes(dir.path(), &Selection::default()), [3, 1]);
    // The file that links the others comes last.
    old(dir.path(), 5, 950, &[900, 100]);
    assert_eq!(sizes(dir.path(), &Selection::default()), [5]);
}

#[test]
fn old_files_without_an_epoch_in_common_are_joined_on_demand() {
    let dir = tempfile::tempdir().unwrap();
    old(dir.path(), 1, 100, &[100, 101]);
    old(dir.path(), 2, 200, &[200]);
    let refused = Runs::of(files_at(dir.path()).unwrap(), &Selection::default()).one(&Selection::default());
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("run 1 (id unknown, epoch 100, 1 file)") && text.contains("--same-run"), "{text}");
    let same = Selection { same_run: true, ..Selection::default() };
    let epochs = Selection { epochs: "100..199".parse().ok(), ..Selection::default() };
    for selection in [same, epochs] {
        assert_eq!(sizes(dir.path(), &selection), [2]);
    }
    // A run with a known id never joins.
    file(dir.path(), options(u64::MAX), 3, RunId::new(7 << 96), 100, &[100]);
    assert_eq!(sizes(dir.path(), &Selection { same_run: true, ..Selection::default() }), [2, 1]);
}

#[test]
fn a_file_with_the_first_digits_of_an_id_is_of_the_run_with_that_id() {
    use std::os::unix::fs::FileExt as _;
    let dir = tempfile::tempdir().unwrap();
    let id = RunId::new((0x1234_5678 << 96) + 1);
    file(dir.path(), options(u64::MAX), 1, id, 3, &[3]);
    file(dir.path(), options(u64::MAX), 2, id, 3, &[3]);
    let damaged = files_at(dir.path()).unwrap().remove(1);
    let bytes = std::fs::File::options().write(true).open(&damaged).unwrap();
    bytes.set_len(300).unwrap();
    bytes.write_all_at(&[0xff; 16], 0).unwrap();
    assert_eq!(sizes(dir.path(), &Selection::default()), [2]);
    assert_eq!(chosen(dir.path(), &id.to_string()).unwrap().unwrap().files.len(), 2);
    // Two runs begin with these digits.
    file(dir.path(), options(u64::MAX), 3, RunId::new((0x1234_5678 << 96) + 2), 3, &[3]);
    assert_eq!(sizes(dir.path(), &Selection::default()), [1, 1, 1]);
}

#[test]
fn a_choice_is_a_number_or_the_beginning_of_an_id() {
    for text in ["", "x", "abc", "-1", "5 ", "12345678901", "0123456789abcdef0123456789abcdef0"] {
        let parsed = text.parse::<RunChoice>();
        assert_eq!(parsed.is_ok(), text == "12345678901", "{text}: {parsed:?}");
    }
}

/// Writes a run of version 1 as a system did whose supervisor was replaced and whose builders were
/// killed: all headers have the epoch of the run, and records those of the assignments.
fn old_run_with_takeovers(dir: &Path, run: u64, rng: &mut Rng) -> (u64, u64) {
    let origin = 1_763_000_000_000_000 + run * 60_000_000;
    let (mut epoch, mut event, mut superseded) = (origin, 0, 0);
    let builders = 2 + rng.below(3) as u16;
    let identity_of = |builder| FileIdentity {
        run_id: RunId::UNKNOWN,
        epoch: Epoch::new(origin),
        ..identity(BuilderId::new(builder))
    };
    let create = |builder| EventFileWriter::create(dir, identity_of(builder), options_1(2000)).unwrap();
    let mut writers: Vec<EventFileWriter> = (1..=builders).map(create).collect();
    for _ in 0..2 + rng.below(4) {
        for _ in 0..5 + rng.below(20) {
            event += 1;
            let builder = 1 + rng.below(u64::from(builders)) as u16;
            let copy = event_of(event, 30, Epoch::new(epoch), BuilderId::new(builder));
            writers[usize::from(builder) - 1].append(&in_version_1(&copy)).unwrap();
        }
        // A builder is killed and started again; another one builds its last event once more.
        let killed = 1 + rng.below(u64::from(builders)) as u16;
        epoch += 1;
        let other = killed % builders + 1;
        let again = event_of(event, 30, Epoch::new(epoch), BuilderId::new(other));
        writers[usize::from(other) - 1].append(&in_version_1(&again)).unwrap();
        superseded += 1;
        writers[usize::from(killed) - 1].commit().unwrap();
        writers[usize::from(killed) - 1] = create(killed);
        // Another supervisor takes over, on a host whose clock may be an hour off.
        if rng.below(2) == 0 {
            epoch = (epoch + 1).max(origin + rng.below(3_600_000_000));
        }
    }
    for writer in writers {
        writer.close().unwrap();
    }
    (event, superseded)
}

#[test]
fn old_runs_with_takeovers_need_no_flag() {
    let mut rng = Rng::new(61);
    for run in 0..50 {
        let dir = tempfile::tempdir().unwrap();
        let (events, superseded) = old_run_with_takeovers(dir.path(), run, &mut rng);
        let inputs = [dir.path().to_owned()];
        let report = verify(&inputs, &VerifyOptions::default()).unwrap();
        assert!(report.is_clean(), "run {run}: {report}");
        assert_eq!((report.runs.len(), report.runs[0].events), (1, events), "run {run}");
        let merged =
            merge(&inputs, &Selection::default(), dir.path().join("out"), options(u64::MAX)).unwrap();
        assert_eq!((merged.written.events, merged.superseded), (events, superseded), "run {run}");
    }
    // The files of two of these runs in one place are of two runs, although they have one number.
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    old_run_with_takeovers(&one, 1, &mut rng);
    old_run_with_takeovers(&two, 500, &mut rng);
    let refused = merge(&[one.clone(), two.clone()], &Selection::default(), dir.path(), options(u64::MAX));
    assert!(refused.unwrap_err().to_string().contains("--same-run"));
    let report = verify(&[one, two], &VerifyOptions::default()).unwrap();
    assert!(!report.is_clean() && report.shared_numbers[0].runs.len() == 2, "{report}");
}
