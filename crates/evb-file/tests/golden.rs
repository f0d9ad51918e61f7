//! Golden event files: the reader lists them as it did when they were written. `cargo xtask eco
//! file-cpp --golden` writes the files and their listing again.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::path::Path;

#[path = "../examples/listing.rs"]
#[allow(dead_code, reason = "the example is a program of its own, too")]
mod listing;

#[test]
fn the_golden_files_are_read_as_when_they_were_written() {
    // The listing names the files by their paths in this folder.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bindings/c/tests/file/golden");
    std::env::set_current_dir(&folder).unwrap();
    let mut found = Vec::new();
    ["clean", "damaged"].iter().for_each(|name| listing::path(name.as_ref(), &mut found).unwrap());
    let (found, expected) =
        (String::from_utf8(found).unwrap(), std::fs::read_to_string("listing.txt").unwrap());
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {}", number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}
