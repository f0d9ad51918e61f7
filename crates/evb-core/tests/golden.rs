//! Tests against golden messages: the bytes of each version of the protocol and of the journal, as
//! its code wrote them. `EVB_BLESS=1` writes the files of the present versions.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use evb_core::wire::{
    datagram::{DATAGRAM_VERSION, DatagramError, DatagramHeader},
    encoding::Encoding as _,
    journal::Entry,
    preamble::{ConnectionKind, PROTOCOL_VERSION, PreambleError, check_preamble},
};

#[path = "golden/journal.rs"]
mod journal;
#[path = "golden/messages.rs"]
mod messages;

use messages::Example;

/// Number of the golden file with the present entries of the journal.
const JOURNAL_VERSION: u16 = 2;

fn path(what: &str, version: u16) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{what}-{version}.hex"))
}

/// Reads a golden file: each example is a line with its name in brackets, and lines of hexadecimal
/// numbers.
fn read(what: &str, version: u16) -> BTreeMap<String, Vec<u8>> {
    let text = std::fs::read_to_string(path(what, version)).unwrap();
    let mut examples: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix('[') {
            rest.trim_end_matches(']').clone_into(&mut name);
            assert!(examples.insert(name.clone(), Vec::new()).is_none(), "{name} stands there twice");
        } else {
            let bytes = line.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap());
            examples.get_mut(&name).unwrap().extend(bytes);
        }
    }
    examples
}

fn hex(bytes: &[u8]) -> String {
    let line = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    bytes.chunks(32).map(line).collect::<Vec<_>>().join("\n")
}

/// Compares what the encoders write with a golden file.
fn compare(what: &str, version: u16, encoded: &[Example]) {
    if std::env::var_os("EVB_BLESS").is_some() {
        let mut text = String::new();
        encoded.iter().for_each(|(name, bytes)| writeln!(text, "[{name}]\n{}", hex(bytes)).unwrap());
        std::fs::write(path(what, version), text).unwrap();
    }
    let golden = read(what, version);
    for (name, bytes) in encoded {
        let kept = golden.get(*name).map(|bytes| hex(bytes));
        assert_eq!(kept.as_deref(), Some(hex(bytes).as_str()), "{name}");
    }
    assert_eq!(golden.len(), encoded.len(), "the file has examples that nothing writes");
}

#[test]
fn the_encoders_write_the_golden_messages_of_this_version() {
    compare("protocol", PROTOCOL_VERSION, &messages::all());
}

/// Every connection and every datagram begins with its version, so no receiver reads further.
#[test]
fn connections_and_datagrams_of_version_1_are_refused() {
    let mut refused = Vec::new();
    for (name, bytes) in read("protocol", 1) {
        let words = if let Some(kind) = name.strip_prefix("preamble-") {
            let kind = if kind.starts_with("lane") { ConnectionKind::Lane } else { ConnectionKind::Control };
            let error = check_preamble(bytes.try_into().unwrap(), kind).unwrap_err();
            assert_eq!(error, PreambleError::Version { theirs: 1 }, "{name}");
            error.to_string()
        } else if name.starts_with("datagram-") {
            let error = DatagramHeader::open(&bytes).unwrap_err();
            assert_eq!(error, DatagramError::Version(bytes[1]), "{name}");
            error.to_string()
        } else {
            continue;
        };
        for version in [1, PROTOCOL_VERSION] {
            assert!(words.contains(&format!("version {version}")), "{name}: {words}");
        }
        refused.push(name);
    }
    assert_eq!((refused.len(), PROTOCOL_VERSION), (8, DATAGRAM_VERSION.into()), "{refused:?}");
}

/// The journal's format does not depend on the protocol's version, so that a run can go on after an
/// upgrade.
#[test]
fn the_encoders_write_and_read_the_golden_entries_of_the_journal() {
    let entries = journal::entries();
    let encoded: Vec<Example> = entries.iter().map(|(name, entry)| (*name, entry.encode_to_vec())).collect();
    compare("journal", JOURNAL_VERSION, &encoded);
    let golden = read("journal", JOURNAL_VERSION);
    for (name, entry) in &entries {
        assert_eq!(Entry::decode(&golden[*name]).as_ref(), Ok(entry), "{name}");
    }
    let earlier = read("journal", 1);
    assert_eq!(earlier.len(), 18);
    // Fields that evb 0.1 did not write have their default values.
    for (name, entry) in entries.into_iter().filter(|(name, _)| earlier.contains_key(*name)) {
        let what = Entry::decode(&earlier[name]).unwrap().what.unwrap();
        assert_eq!(std::mem::discriminant(&what), std::mem::discriminant(&entry.what.unwrap()), "{name}");
    }
}
