use super::*;

const MANIFESTS: [(&str, &str); 2] = [
    ("Cargo.toml", "[package]\nname = \"evb\""),
    ("crates/evb-core/Cargo.toml", "[package]\nname = \"evb-core\""),
];

/// Returns the findings in a crate `evb`, whose root is `root`, above a crate `evb-core`.
fn planted(root: &str, core: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> = MANIFESTS.iter().chain([&("src/lib.rs", root)]).chain(core).copied().collect();
    check(&Repo::of(&files)).iter().map(ToString::to_string).collect()
}

/// Returns the names of the entry points without an example.
fn lacking(root: &str, core: &[(&str, &str)]) -> Vec<String> {
    let name = |found: &String| found.split('`').nth(1).unwrap_or_default().to_owned();
    let mut names: Vec<String> = planted(root, core).iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn an_entry_point_without_an_example_is_found_with_its_file_and_line() {
    let found = planted("/// A rate.\npub trait Rate {}", &[]);
    assert!(found.len() == 1 && found[0].starts_with("src/lib.rs:2: the entry point `Rate`"), "{found:?}");
    let made = "X {} impl X { pub fn new() -> Result<Self, u8> { todo!() } }";
    for kind in ["trait X {}", &format!("enum {made}"), &format!("struct {made}")] {
        assert_eq!(lacking(&format!("pub {kind}"), &[]), ["X"], "{kind}");
        assert_eq!(lacking(&format!("/// ```\n/// ```\npub {kind}"), &[]), [""; 0], "{kind}");
        assert_eq!(lacking(&format!("pub(crate) {kind}"), &[]), [""; 0], "{kind}");
    }
}

#[test]
fn a_type_without_a_public_constructor_is_no_entry_point() {
    for data in ["enum X {}", "struct X;", "type X = u8;"] {
        assert_eq!(lacking(&format!("pub {data}"), &[]), [""; 0], "{data}");
    }
    for other in ["fn new() -> Self", "pub fn next(&self) -> Self", "pub fn count() -> u8"] {
        let text = format!("pub struct X; impl X {{ {other} {{ todo!() }} }}");
        assert_eq!(lacking(&text, &[]), [""; 0], "{other}");
    }
}

#[test]
fn the_example_of_a_constructor_is_enough() {
    let text = "pub struct X; impl X { /// ```\n/// ```\npub fn new() -> X { X } pub fn zero() -> X { X } }";
    assert_eq!(lacking(text, &[]), [""; 0]);
}

#[test]
fn only_blocks_that_rustdoc_compiles_are_examples() {
    let with = |opening: &str| lacking(&format!("/// ```{opening}\n/// a\n/// ```\npub trait X {{}}"), &[]);
    for opening in ["", "rust", "no_run", "compile_fail", "should_panic", "rust,no_run"] {
        assert_eq!(with(opening), [""; 0], "{opening}");
    }
    for opening in ["text", "ignore", "toml", "rust,ignore"] {
        assert_eq!(with(opening), ["X"], "{opening}");
    }
    let second = "/// ```text\n/// ```\n/// words\n/// ```\n/// x();\n/// ```\npub trait X {}";
    assert_eq!(lacking(second, &[]), [""; 0], "the second block counts");
}

#[test]
fn re_exports_lead_to_the_entry_points_of_other_crates() {
    let core = [
        ("crates/evb-core/src/lib.rs", "pub mod id; pub mod lane; mod hidden;"),
        ("crates/evb-core/src/id.rs", "id! {\n/// An event.\nEventId(u64)\n}\nmacro_rules! id { () => {} }"),
        ("crates/evb-core/src/lane.rs", "mod inner; pub use inner::{Lane, Other}; pub trait Third {}"),
        ("crates/evb-core/src/lane/inner.rs", "pub trait Lane {}\npub trait Other {}"),
        ("crates/evb-core/src/hidden.rs", "pub trait Hidden {}"),
    ];
    assert_eq!(lacking("pub use evb_core::id;", &core), ["EventId"], "a module, with types from macros");
    assert_eq!(lacking("pub use evb_core::lane::Lane as Way;", &core), ["Lane"], "a name that is changed");
    assert_eq!(lacking("pub use evb_core::lane;", &core), ["Lane", "Other", "Third"]);
    assert_eq!(lacking("pub use evb_core::lane::*;", &core), ["Lane", "Other", "Third"]);
    assert_eq!(lacking("pub use evb_core as core;", &core).len(), 4, "all that is public there");
    assert_eq!(lacking("use evb_core::lane::Lane; pub(crate) use evb_core::id;", &core), [""; 0]);
    assert_eq!(lacking("mod a { pub use evb_core::id; }", &core), [""; 0], "the module is private");
}

#[test]
fn modules_for_tests_and_fuzz_targets_are_left_out() {
    let root = "#[cfg(test)] pub mod a { pub trait A {} } #[cfg(feature = \"fuzzing\")] pub mod b { pub trait B {} }";
    assert_eq!(lacking(root, &[]), [""; 0]);
    assert_eq!(lacking("#[cfg(feature = \"km3net\")] pub mod c { pub trait C {} }", &[]), ["C"]);
}
