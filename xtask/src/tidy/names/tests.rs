use super::*;

fn found(text: &str) -> usize {
    check(&Repo::of(&[("src/a.rs", text)])).len()
}

#[test]
fn empty_names_are_found() {
    for text in [
        "struct EventManager;",
        "enum Handler {}",
        "trait ContextLike {}",
        "type RunInfo = u8;",
        "struct Packet;",
        "enum Frame {}",
        "struct Buffer;",
        "mod util;",
        "mod common { }",
        "mod inner { struct Info; }",
        "struct ConfigBuilder; impl ConfigBuilder { fn build(self) {} }",
    ] {
        assert_eq!(found(text), 1, "{text}");
    }
}

#[test]
fn names_that_say_something_pass() {
    for text in [
        "struct PacketCount; struct PortBuffer; struct Information; enum Manage {}",
        "struct ShapedBuilder; impl ShapedBuilder { fn poll(&mut self) {} }",
        "mod builder; mod frames;",
        "use std::task::Context; fn f(c: &mut Context<'_>) {}",
    ] {
        assert_eq!(found(text), 0, "{text}");
    }
}

#[test]
fn a_third_type_with_one_name_is_found() {
    let of = |files: &[&str]| {
        let files: Vec<(&str, &str)> =
            files.iter().map(|path| (*path, "struct State; enum Output {}")).collect();
        check(&Repo::of(&files)).len()
    };
    assert_eq!(of(&["src/a.rs", "crates/evb-core/src/b.rs"]), 0);
    assert_eq!(of(&["src/a.rs", "crates/evb-core/src/b.rs", "lab/src/c.rs"]), 0, "the lab is not shipped");
    assert_eq!(of(&["src/a.rs", "crates/evb-core/src/b.rs", "crates/evb-net/src/c.rs"]), 1);
}

#[test]
fn a_module_of_a_shipped_crate_has_no_word_of_everyday_speech_as_its_name() {
    assert_eq!(found("mod words; mod later;"), 2);
    assert_eq!(check(&Repo::of(&[("lab/src/a.rs", "mod course;")])).len(), 0);
}
