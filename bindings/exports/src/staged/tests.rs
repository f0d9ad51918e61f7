use std::fs;

use super::{Staged, StagedError};

#[test]
fn the_final_name_exists_only_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.h5");
    let staged = Staged::create(&path, false).unwrap();
    staged.begin(b"all").unwrap();
    assert!(!path.exists() && staged.part().exists());
    assert_eq!(staged.finish().unwrap(), 3);
    assert_eq!(fs::read(&path).unwrap(), b"all");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn an_output_that_is_given_up_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let staged = Staged::create(&dir.path().join("run.h5"), false).unwrap();
    staged.begin(b"half").unwrap();
    assert!(staged.part().exists());
    drop(staged);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn existing_files_are_replaced_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.h5");
    fs::write(&path, "old").unwrap();
    assert!(matches!(Staged::create(&path, false), Err(StagedError::Exists(_))));
    let staged = Staged::create(&path, true).unwrap();
    staged.begin(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old", "it stays until the new one is whole");
    staged.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert!(matches!(Staged::create(dir.path(), true), Err(StagedError::NoFile(_))));
}

#[test]
fn a_name_that_is_taken_in_the_meantime_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.h5");
    let staged = Staged::create(&path, false).unwrap();
    staged.begin(b"mine").unwrap();
    fs::write(&path, "theirs").unwrap();
    let Err(StagedError::Overtaken { part, .. }) = staged.finish() else { panic!("it replaced the file") };
    assert_eq!((fs::read(&path).unwrap(), fs::read(part).unwrap()), (b"theirs".to_vec(), b"mine".to_vec()));
}

#[test]
fn a_killed_export_leaves_a_part_that_the_next_one_replaces() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.h5");
    fs::write(dir.path().join("run.h5.part"), "of a killed process").unwrap();
    let staged = Staged::create(&path, false).unwrap();
    assert!(matches!(Staged::create(&path, false), Err(StagedError::Busy(_))), "two at the same time");
    staged.begin(b"new").unwrap();
    staged.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}
