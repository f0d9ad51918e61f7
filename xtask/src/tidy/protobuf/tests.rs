use super::*;

fn found(path: &str, text: &str) -> usize {
    check(&Repo::of(&[(path, text)])).len()
}

#[test]
fn protobuf_elsewhere_is_found() {
    for text in [
        "use prost::Message as _;",
        "fn f(m: &impl prost::Message) {}",
        "fn f() { v.iter().map(prost::Message::encode_to_vec); }",
        "fn main() { prost_build::Config::new(); }",
    ] {
        for path in ["src/source/driver.rs", "crates/evb-core/src/source.rs", "crates/evb-core/build.rs"] {
            assert_eq!(found(path, text), 1, "{path}: {text}");
        }
        assert_eq!(found("crates/evb-core/src/wire/encoding.rs", text), 0, "{text}");
    }
    let manifest = |name| format!("[package]\nname = '{name}'\n[dependencies]\nprost.workspace = true\n");
    assert_eq!(found("crates/evb-net/Cargo.toml", &manifest("evb-net")), 1);
    assert_eq!(found("crates/evb-core/Cargo.toml", &manifest("evb-core")), 0);
}

#[test]
fn messages_and_bytes_pass() {
    let text =
        "use evb_core::wire::{control::Hello, encoding::Encoding}; fn f(h: &Hello) { h.encode_to_vec(); }";
    assert_eq!(found("src/source/driver.rs", text), 0);
}
