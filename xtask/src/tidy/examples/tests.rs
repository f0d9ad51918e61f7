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

/// Returns the names of the types without an example.
fn lacking(root: &str, core: &[(&str, &str)]) -> Vec<String> {
    let name = |found: &String| found.split('`').nth(1).unwrap_or_default().to_owned();
    let mut names: Vec<String> = planted(root, core).iter().map(name).collect();
    names.sort();
    names
}

#[test]
fn a_type_without_an_example_is_found_with_its_file_and_line() {
    let found = planted("/// A rate.\npub struct Rate;", &[]);
    assert!(found.len() == 1 && found[0].starts_with("src/lib.rs:2: the type `Rate`"), "{found:?}");
    for kind in ["enum X {}", "trait X {}", "type X = u8;", "struct X;"] {
        assert_eq!(lacking(&format!("pub {kind}"), &[]), ["X"], "{kind}");
        assert_eq!(lacking(&format!("/// ```\n/// ```\npub {kind}"), &[]), [""; 0], "{kind}");
        assert_eq!(lacking(&format!("pub(crate) {kind}"), &[]), [""; 0], "{kind}");
    }
    assert_eq!(lacking("/// ```\n/// ```\npub struct A; pub fn b() {} pub const C: u8 = 1;", &[]), [""; 0]);
}

#[test]
fn only_blocks_that_rustdoc_compiles_are_examples() {
    let with = |opening: &str| lacking(&format!("/// ```{opening}\n/// a\n/// ```\npub struct X;"), &[]);
    for opening in ["", "rust", "no_run", "compile_fail", "should_panic", "rust,no_run"] {
        assert_eq!(with(opening), [""; 0], "{opening}");
    }
    for opening in ["text", "ignore", "toml", "rust,ignore"] {
        assert_eq!(with(opening), ["X"], "{opening}");
    }
    let second = "/// ```text\n/// ```\n/// words\n/// ```\n/// x();\n/// ```\npub struct X;";
    assert_eq!(lacking(second, &[]), [""; 0], "the second block counts");
}

#[test]
fn re_exports_lead_to_the_types_of_other_crates() {
    let core = [
        ("crates/evb-core/src/lib.rs", "pub mod id; pub mod lane; mod hidden;"),
        ("crates/evb-core/src/id.rs", "id! {\n/// An event.\nEventId(u64)\n}\nmacro_rules! id { () => {} }"),
        ("crates/evb-core/src/lane.rs", "mod inner; pub use inner::{Lane, Other}; pub struct Third;"),
        ("crates/evb-core/src/lane/inner.rs", "pub struct Lane;\npub struct Other;"),
        ("crates/evb-core/src/hidden.rs", "pub struct Hidden;"),
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
    let root =
        "#[cfg(test)] pub mod a { pub struct A; } #[cfg(feature = \"fuzzing\")] pub mod b { pub struct B; }";
    assert_eq!(lacking(root, &[]), [""; 0]);
    assert_eq!(lacking("#[cfg(feature = \"km3net\")] pub mod c { pub struct C; }", &[]), ["C"]);
}
