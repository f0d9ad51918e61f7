//! Golden event files: the reader lists them as it did when they were written. `cargo xtask eco
//! file-cpp --golden` writes those of the present version of the format, and their listing, again.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::path::Path;

#[path = "../examples/listing.rs"]
#[allow(dead_code, reason = "the example is a program of its own, too")]
mod listing;

/// Lists the folders of golden files of one version, and compares.
fn check(set: &str, folders: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/c/tests/file").join(set);
    // The listing names the files by their paths in this folder.
    std::env::set_current_dir(&folder).unwrap();
    let mut found = Vec::new();
    folders.iter().for_each(|name| listing::path(name.as_ref(), &mut found).unwrap());
    let (found, expected) =
        (String::from_utf8(found).unwrap(), std::fs::read_to_string("listing.txt").unwrap());
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{set}: line {}", number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

#[test]
fn the_golden_files_are_read_as_when_they_were_written() {
    check("golden", &["clean", "damaged"]);
    let folders =
        ["alignment", "changes", "clean", "damaged", "recovered", "refused", "sections", "two-runs"];
    check("golden-2", &folders);
}
