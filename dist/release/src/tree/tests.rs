use super::*;

/// A unit that named the program in another way would start nothing.
#[test]
fn packaged_units_start_the_packaged_program() {
    for name in UNITS {
        let text = fs::read_to_string(checkout::root().join("dist").join(name)).expect("a unit");
        assert!(unit(&text).contains("ExecStart=/usr/bin/evbd "), "{name}");
        assert!(!unit(&text).contains("/usr/local"), "{name}");
    }
}

#[test]
fn every_accompanying_file_exists() {
    for path in EXAMPLES.into_iter().chain(TEXTS) {
        assert!(checkout::root().join(path).is_file(), "{path}");
    }
}
