//! Tests that the configurations in the documentation and in the examples are valid and complete.

use std::{collections::BTreeSet, fs, path::PathBuf};

use toml::de::DeTable;

use super::{
    super::{read_root, section::Notes},
    around, good,
};

pub(super) fn repository() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub(super) fn manual() -> String {
    fs::read_to_string(repository().join("docs/reference/configuration.md"))
        .expect("the documentation is there")
}

pub(super) fn blocks(manual: &str) -> Vec<&str> {
    manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn every_block_of_the_documentation_parses() {
    let manual = manual();
    let blocks = blocks(&manual);
    assert!(blocks.len() > 10, "only {} blocks", blocks.len());
    for block in blocks {
        good(block);
    }
}

/// Each key must be described in the text, and used in at least one block.
#[test]
fn every_key_is_documented_and_shown() {
    let manual = manual();
    let mut shown = BTreeSet::new();
    for block in blocks(&manual) {
        let text = around(block);
        let table = DeTable::parse(&text).expect("parsed before");
        let notes = Notes::default();
        assert!(read_root(&notes, table.get_ref()).is_some());
        shown.extend(notes.keys.into_inner().into_keys());
    }
    for path in super::schema::paths() {
        let key = path.rsplit('.').next().expect("a path has a last part");
        let named = manual.contains(&format!("`{key}`")) || manual.contains(&format!("[{key}]"));
        assert!(named || key == "kind", "{path} is not documented");
        assert!(shown.contains(&path), "{path} is in no example of the documentation");
    }
}

#[test]
fn every_example_parses() {
    let entries = fs::read_dir(repository().join("examples")).expect("there are examples");
    let paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    let files: Vec<&PathBuf> =
        paths.iter().filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    assert!(!files.is_empty(), "no example configuration");
    let packaged = repository().join("dist/evb.toml");
    for path in files.into_iter().chain([&packaged]) {
        if let Err(error) = super::super::load(path) {
            panic!("{error}");
        }
    }
}

#[test]
fn the_quick_start_is_what_the_readme_says() {
    let config = super::super::load(&repository().join("examples/quickstart.toml")).expect("parses").config;
    assert!(config.sources.len() >= 4 && config.builders.len() == 2);
    assert_eq!((config.run.number, config.run.events), (None, Some(10_000)));
}
