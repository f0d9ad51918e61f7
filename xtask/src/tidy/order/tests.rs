use super::*;

const MANIFEST: (&str, &str) = ("crates/evb-core/Cargo.toml", "[package]\nname = 'evb-core'\n");

/// Returns the findings of [`check`] in the crate evb-core with these files, whose paths are
/// relative to `src`.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<(String, &str)> = files
        .iter()
        .map(|(path, text)| (format!("crates/evb-core/src/{path}"), *text))
        .chain([(MANIFEST.0.to_owned(), MANIFEST.1)])
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    check(&Repo::of(&files)).iter().map(ToString::to_string).collect()
}

/// A crate that declares its modules in this order, so that `wire` may import from `id` and not the
/// other way round. It also exports `wire::Message` at its root.
const ID_WIRE_SOURCE_BUILDER: (&str, &str) =
    ("lib.rs", "pub mod id;\npub mod wire;\npub mod source;\npub mod builder;\npub use wire::Message;\n");

#[test]
fn imports_from_above_pass() {
    let files = [
        ID_WIRE_SOURCE_BUILDER,
        ("id.rs", "pub struct Id;"),
        ("wire.rs", "mod head; pub struct Message(crate::id::Id); use head::Head;"),
        ("wire/head.rs", "use super::Message; use crate::id::Id; pub struct Head(Message, Id);"),
        ("source.rs", "use crate::{id::Id, Message};"),
    ];
    assert!(found(&files).is_empty(), "{:?}", found(&files));
}

#[test]
fn an_import_from_below_is_found_in_every_spelling() {
    for text in [
        "use crate::wire::Message;",
        "use crate::{wire::Message};",
        "use super::wire;",
        "use crate::wire::*;",
        "use crate::Message;",
        "fn f() { use crate::wire::Message; }",
        "fn f() -> crate::wire::Message { todo!() }",
        "fn f() { println!(\"{}\", crate::wire::WORD); }",
    ] {
        let found = found(&[ID_WIRE_SOURCE_BUILDER, ("id.rs", text), ("wire.rs", "pub struct Message;")]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains("id.rs:1: `wire` is declared below `id`"), "{found:?}");
    }
}

#[test]
fn siblings_in_a_folder_keep_their_order() {
    let lib = ("lib.rs", "mod wire;");
    let wire = ("wire.rs", "mod head; mod tail;");
    assert!(found(&[lib, wire, ("wire/head.rs", ""), ("wire/tail.rs", "use super::head::X;")]).is_empty());
    assert_eq!(found(&[lib, wire, ("wire/head.rs", "use super::tail::X;"), ("wire/tail.rs", "")]).len(), 1);
}

#[test]
fn a_child_does_not_reach_below_its_parent() {
    let files = [
        ID_WIRE_SOURCE_BUILDER,
        ("id.rs", "mod deep;"),
        ("id/deep.rs", "use crate::wire::Message;"),
        ("wire.rs", "pub struct Message;"),
    ];
    assert_eq!(found(&files).len(), 1);
}

#[test]
fn tests_are_exempt() {
    let files = [
        ID_WIRE_SOURCE_BUILDER,
        ("id.rs", "#[cfg(test)]\nmod tests;"),
        ("id/tests.rs", "use crate::wire::Message;"),
        ("wire.rs", ""),
    ];
    assert!(found(&files).is_empty());
}

#[test]
fn roles_never_import_each_other() {
    let found = found(&[
        ID_WIRE_SOURCE_BUILDER,
        ("source.rs", "pub struct S;"),
        ("builder.rs", "use crate::source::S;"),
    ]);
    assert_eq!(
        found,
        ["crates/evb-core/src/builder.rs:1: the role builder imports the role source (`crate::source::S`)"]
    );
}

#[test]
fn roles_never_import_each_other_across_crates() {
    let repo = Repo::of(&[
        MANIFEST,
        ("crates/evb-core/src/lib.rs", "pub mod source; pub mod builder; pub use builder::BuilderCore;"),
        ("crates/evb-core/src/source.rs", "pub struct SourceCore;"),
        ("crates/evb-core/src/builder.rs", "pub struct BuilderCore;"),
        ("Cargo.toml", "[package]\nname = 'evb'\n"),
        ("src/lib.rs", "mod source;"),
        ("src/source.rs", "use evb_core::source::SourceCore;\nuse evb_core::BuilderCore;"),
    ]);
    let found: Vec<String> = check(&repo).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["src/source.rs:2: the role source imports the role builder (`evb_core::BuilderCore`)"]
    );
}
