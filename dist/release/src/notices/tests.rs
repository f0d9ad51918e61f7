use super::*;

#[test]
fn every_crate_of_a_program_has_its_notice() {
    let text = match text(&checkout::root(), EVBD) {
        Ok(text) => text,
        Err(error) => return eprintln!("SKIP: needs the sources of all crates ({error:#})"),
    };
    for part in ["\ntokio 1.", "\nbytes 1.", "Copyright (c) Tokio Contributors", "Apache License"] {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("\nevb"), "the licences of evb have files of their own");
    assert!(!text.contains("\nproptest "), "tests are no part of it");
}
