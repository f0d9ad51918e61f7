use std::{fs, io::Write as _, path::PathBuf};

use evb_core::wire::encoding::Encoding as _;
use evb_core::{
    id::{BuilderId, Epoch, RunNumber, SourceId},
    supervisor::{Output, RunPlan, SupervisorCore},
    time::Instant,
    wire::journal::{Entry, What},
};

use super::{HEADER, Journal, JournalConfig, JournalError, JournalFsync, is_at, unfinished_run};

/// A file that is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evb-journal-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        Self(path)
    }

    fn open(&self) -> Result<(Journal, Vec<Entry>), JournalError> {
        let config = JournalConfig { path: self.0.clone(), fsync: JournalFsync::Commit };
        let mut found = Vec::new();
        Ok((Journal::open(config, |entry| found.push(entry))?, found))
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn entry(at_ns: u64) -> Entry {
    Entry { at_ns, what: Some(What::Stopping("x".repeat(at_ns as usize % 40))) }
}

#[test]
fn every_torn_end_is_cut_to_the_last_whole_entry() {
    let scratch = Scratch::new("torn");
    let (mut journal, found) = scratch.open().unwrap();
    assert!(found.is_empty());
    let all: Vec<Entry> = (1..30).map(entry).collect();
    let mut ends = vec![HEADER.len() as u64];
    for entry in &all {
        journal.append(entry);
        journal.commit().unwrap();
        ends.push(journal.length);
    }
    drop(journal);
    let bytes = fs::read(&scratch.0).unwrap();
    for length in 0..=bytes.len() {
        fs::write(&scratch.0, &bytes[..length]).unwrap();
        let (mut journal, found) = scratch.open().unwrap();
        let whole = ends.iter().filter(|end| **end <= length as u64).count().saturating_sub(1);
        assert_eq!(found, all[..whole], "cut at {length}");
        // An entry that is added now follows the last whole entry.
        journal.append(&entry(77));
        journal.commit().unwrap();
        drop(journal);
        let (_, found) = scratch.open().unwrap();
        assert_eq!((found.len(), found.last()), (whole + 1, Some(&entry(77))));
    }
}

#[test]
fn what_is_damaged_is_left_as_it_is() {
    let scratch = Scratch::new("flip");
    let (mut journal, _) = scratch.open().unwrap();
    (1..5).for_each(|at| journal.append(&entry(at)));
    journal.commit().unwrap();
    drop(journal);
    let mut bytes = scratch.bytes();
    let second = HEADER.len() + 8 + entry(1).encoded_len();
    bytes[second + 9] ^= 4;
    fs::write(&scratch.0, &bytes).unwrap();
    for _ in 0..2 {
        let fault = scratch.open().unwrap_err();
        assert!(
            matches!(&fault, JournalError::Damaged { offset, .. } if *offset == second as u64),
            "{fault}"
        );
        let said = fault.to_string();
        let (path, at) = (scratch.0.display().to_string(), format!("at byte {second} "));
        assert!(
            [&path[..], &at[..], "restore", "move it away"].iter().all(|word| said.contains(word)),
            "{said}"
        );
        assert!(matches!(unfinished_run(&scratch.0), Err(JournalError::Damaged { .. })));
        assert_eq!(scratch.bytes(), bytes);
    }
}

#[test]
fn zeros_and_garbage_at_the_end_are_cut_off() {
    let scratch = Scratch::new("garbage");
    let (mut journal, _) = scratch.open().unwrap();
    (1..4).for_each(|at| journal.append(&entry(at)));
    journal.commit().unwrap();
    drop(journal);
    let whole = scratch.bytes();
    for torn in [vec![0; 1 << 20], vec![0xff; 3000], whole[8..30].to_vec()] {
        fs::write(&scratch.0, [&whole[..], &torn].concat()).unwrap();
        assert_eq!(scratch.open().unwrap().1.len(), 3 + usize::from(torn[0] == whole[8]));
        // The first opening has removed the torn bytes from the file.
        assert!(scratch.bytes().len() < whole.len() + 30);
    }
}

/// A write has failed half way, and its bytes could not be cut off.
#[test]
fn what_a_failed_write_left_behind_is_cut_before_the_next_one() {
    let scratch = Scratch::new("untidy");
    let (mut journal, _) = scratch.open().unwrap();
    journal.append(&entry(1));
    journal.commit().unwrap();
    let good = std::mem::replace(&mut journal.file, fs::File::open(&scratch.0).unwrap());
    journal.append(&entry(2));
    journal.commit().unwrap_err();
    let mut torn = fs::OpenOptions::new().append(true).open(&scratch.0).unwrap();
    torn.write_all(&[7; 500]).unwrap();
    journal.file = good;
    journal.append(&entry(3));
    journal.commit().unwrap();
    assert_eq!(scratch.bytes().len() as u64, journal.length);
    drop(journal);
    assert_eq!(scratch.open().unwrap().1, [entry(1), entry(2), entry(3)]);
}

#[test]
fn an_entry_that_nobody_could_read_is_not_written() {
    let scratch = Scratch::new("endless");
    let (mut journal, _) = scratch.open().unwrap();
    journal.append(&entry(1));
    journal.commit().unwrap();
    let endless = Entry { at_ns: 5, what: Some(What::Stopping("x".repeat(16 << 20))) };
    journal.replace(&[entry(1), endless.clone()]).unwrap_err();
    journal.append(&entry(2));
    journal.commit().unwrap();
    journal.append(&endless);
    journal.commit().unwrap_err();
    journal.append(&entry(3));
    journal.commit().unwrap_err();
    drop(journal);
    assert_eq!(scratch.open().unwrap().1, [entry(1), entry(2)]);
}

#[test]
fn a_replacement_that_fails_changes_nothing() {
    let scratch = Scratch::new("long");
    let (mut journal, _) = scratch.open().unwrap();
    let add = |journal: &mut Journal, at| {
        journal.append(&entry(at));
        journal.commit().unwrap();
    };
    (1..4).for_each(|at| add(&mut journal, at));
    let before = journal.length();
    journal.replace(&[entry(1), entry(3)]).unwrap();
    assert!(journal.length() < before && journal.length() == scratch.bytes().len() as u64);
    add(&mut journal, 4);
    let (before, folder) =
        (journal.length(), scratch.0.with_added_extension(format!("{}.part", std::process::id())));
    fs::create_dir(&folder).unwrap();
    journal.replace(&[entry(1)]).unwrap_err();
    fs::remove_dir(&folder).unwrap();
    assert_eq!(journal.length(), before);
    add(&mut journal, 5);
    drop(journal);
    assert_eq!(scratch.open().unwrap().1, [1, 3, 4, 5].map(entry));
}

/// Between opening and locking, the owner may put a new file in the place of the old one.
#[test]
fn a_file_that_has_lost_its_name_is_not_the_journal() {
    let scratch = Scratch::new("replaced");
    let (journal, _) = scratch.open().unwrap();
    assert!(is_at(&journal.file, &scratch.0).unwrap());
    let other = scratch.0.with_added_extension("other");
    fs::write(&other, "another journal").unwrap();
    fs::rename(&other, &scratch.0).unwrap();
    assert!(!is_at(&journal.file, &scratch.0).unwrap());
}

#[test]
fn a_name_that_cannot_be_made_safe_is_tried_again() {
    let scratch = Scratch::new("nameless");
    let (mut journal, _) = scratch.open().unwrap();
    let path = std::mem::replace(&mut journal.path, "/nowhere/journal".into());
    journal.append(&entry(1));
    journal.commit().unwrap_err();
    journal.path = path;
    journal.commit().unwrap();
    drop(journal);
    assert_eq!(scratch.open().unwrap().1, [entry(1)]);
}

#[test]
fn one_supervisor_at_a_time_and_nothing_foreign() {
    let scratch = Scratch::new("taken");
    let first = scratch.open().unwrap();
    assert!(matches!(scratch.open(), Err(JournalError::Taken(_))));
    drop(first);
    fs::write(&scratch.0, "[run]\nnumber = 1\n").unwrap();
    assert!(matches!(scratch.open(), Err(JournalError::Foreign(_))));
    assert_eq!(fs::read_to_string(&scratch.0).unwrap(), "[run]\nnumber = 1\n", "the file is unchanged");
}

#[test]
fn it_tells_whether_its_run_is_over() {
    let scratch = Scratch::new("over");
    assert_eq!(unfinished_run(&scratch.0).unwrap(), None);
    let run = RunNumber::new(12);
    let usual = RunPlan::new(run, Epoch::new(5), vec![SourceId::new(1)], vec![BuilderId::new(1)]);
    let now = Instant::from_nanos(9);
    let mut core = SupervisorCore::new(RunPlan { journal: true, ..usual }, 1, now).unwrap();
    let (mut journal, _) = scratch.open().unwrap();
    while let Some(Output::Journal(entry)) = core.poll(now) {
        journal.append(&entry);
    }
    journal.commit().unwrap();
    assert_eq!(unfinished_run(&scratch.0).unwrap(), Some(run));
    journal.replace(&core.snapshot(now)).unwrap();
    assert_eq!(unfinished_run(&scratch.0).unwrap(), Some(run));
    assert!(matches!(scratch.open(), Err(JournalError::Taken(_))), "the new file is taken as well");
    core.stop("enough", now);
    while let Some(output) = core.poll(now) {
        if let Output::Journal(entry) = output {
            journal.append(&entry);
        }
    }
    journal.commit().unwrap();
    assert_eq!(unfinished_run(&scratch.0).unwrap(), None);
}
