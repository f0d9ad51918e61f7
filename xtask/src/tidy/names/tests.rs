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
