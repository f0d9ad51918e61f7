use super::*;
use crate::{naming::file_name, samples::RUN};

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn files_appear_when_all_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let unfinished = Unfinished::create(dir.path().join("out"), RUN).unwrap();
    let name = file_name(RUN, None, 0);
    let file = unfinished.dir().join(&name);
    fs::write(file, "whole").unwrap();
    let error = Unfinished::create(dir.path().join("out"), RUN).unwrap_err();
    assert!(error.to_string().contains("another merge writes there"), "{error}");
    unfinished.finish(RUN).unwrap();
    assert_eq!(names(&dir.path().join("out")), [name]);
    assert!(matches!(Unfinished::create(dir.path().join("out"), RUN), Err(CreateError::Exists { .. })));
}

#[test]
fn what_a_failed_or_killed_merge_left_does_not_prevent_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let left = dir.path().join(NAME);
    fs::create_dir(&left).unwrap();
    fs::write(left.join("run000001_0000.evb"), "half").unwrap();
    let unfinished = Unfinished::create(dir.path().to_owned(), RUN).unwrap();
    assert!(names(unfinished.dir()).is_empty());
    fs::write(unfinished.dir().join("run000001_0000.evb"), "half").unwrap();
    drop(unfinished);
    assert!(names(dir.path()).is_empty());
}

/// A move that fails leaves the same as a process that is killed between two moves.
#[test]
fn a_merge_that_ended_while_it_moved_its_files_is_finished_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let unfinished = Unfinished::create(dir.path().to_owned(), RUN).unwrap();
    let last = file_name(RunNumber::new(9), None, 0);
    let files = [file_name(RUN, None, 0), file_name(RUN, None, 1), last.clone()];
    for name in &files {
        fs::write(unfinished.dir().join(name), "whole").unwrap();
    }
    let in_the_way = dir.path().join(&last);
    fs::create_dir(&in_the_way).unwrap();
    unfinished.finish(RUN).unwrap_err();
    fs::remove_dir(&in_the_way).unwrap();
    let again = Unfinished::create(dir.path().to_owned(), RUN);
    assert!(matches!(again, Err(CreateError::Exists { .. })));
    assert_eq!(names(dir.path()), files);
}
