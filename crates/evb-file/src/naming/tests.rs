use std::{fs, path::Path};

use evb_core::id::{BuilderId, RunNumber};
use proptest::prelude::*;

use super::{existing_files, file_name, files_at, highest_run, parse_file_name};

#[test]
fn names_are_as_documented() {
    let run = RunNumber::new(1);
    assert_eq!(file_name(run, Some(BuilderId::new(1)), 0), "run000001_b01_0000.evb");
    assert_eq!(file_name(run, None, 12), "run000001_all_0012.evb");
    for other in
        ["run1_b1.evb", "run1_b1_0.evb.tmp", "run1_c1_0.evb", "run_b1_0.evb", "run1_b1_0_0.evb", "1_b1_0.evb"]
    {
        assert_eq!(parse_file_name(other), None, "{other}");
    }
}

#[test]
fn files_of_a_directory_are_found_by_run_and_by_kind() {
    let dir = tempfile::tempdir().unwrap();
    for name in
        ["run000009_b02_0000.evb", "run000009_b01_0000.evb", "run000010_all_0000.evb", "notes.txt", "x.evb"]
    {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let names = |paths: Vec<std::path::PathBuf>| -> Vec<String> {
        paths.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    let of_nine = existing_files(dir.path(), RunNumber::new(9)).unwrap();
    assert_eq!(names(of_nine), ["run000009_b01_0000.evb", "run000009_b02_0000.evb"]);
    assert_eq!(highest_run(dir.path()).unwrap(), Some(RunNumber::new(10)));
    assert_eq!(files_at(dir.path()).unwrap().len(), 4);
    assert_eq!(files_at(&dir.path().join("notes.txt")).unwrap().len(), 1);
    let error = files_at(Path::new("/no/such/place")).unwrap_err().to_string();
    assert!(error.contains("/no/such/place") && error.contains("os error 2"), "{error}");
}

/// Names in the order of their files, which is not that of their letters.
#[test]
fn numbers_in_names_count_by_their_values() {
    let ordered = [
        "1.evb",
        "a.evb",
        "run000001_all_0000.evb",
        "run000001_b02_9999.evb",
        "run000001_b02_10000.evb",
        "run000001_b02_010001.evb",
        "run000001_b99_0000.evb",
        "run000001_b100_0000.evb",
        "run999999_b01_0000.evb",
        "run1000000_b01_0000.evb",
        "run4294967295_b01_0000.evb",
        "run99999999999999999999999_b01_0000.evb",
        "z1.evb",
    ];
    let dir = tempfile::tempdir().unwrap();
    for name in ordered.iter().rev() {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let found = files_at(dir.path()).unwrap();
    let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ordered);
}

proptest! {
    #[test]
    fn names_read_back(run in any::<u32>(), builder in any::<Option<u16>>(), sequence in any::<u32>()) {
        let (run, builder) = (RunNumber::new(run), builder.map(BuilderId::new));
        prop_assert_eq!(parse_file_name(&file_name(run, builder, sequence)), Some((run, builder, sequence)));
    }

    #[test]
    fn no_name_panics(name in ".*") {
        let _ = parse_file_name(&name);
    }
}
