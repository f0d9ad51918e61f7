use super::*;

fn found(krate: &str, file: &str, text: &str) -> Vec<String> {
    let manifest = format!("[package]\nname = '{krate}'\n");
    let (cargo, source) = (format!("crates/{krate}/Cargo.toml"), format!("crates/{krate}/src/{file}"));
    let repo = Repo::of(&[(&cargo, &manifest), (&source, text)]);
    check(&repo).iter().map(ToString::to_string).collect()
}

#[test]
fn every_forbidden_thing_is_found() {
    for text in [
        "use std::time::Instant;",
        "use std::time::{Duration, SystemTime};",
        "use std::time::*;",
        "use std::time; fn f() { time::Instant::now(); }",
        "fn f() { std::thread::sleep(D); }",
        "use std::net::TcpStream;",
        "use std::fs;",
        "use tokio::sync::mpsc;",
        "use std::collections::HashMap;",
        "use std::collections::{BTreeMap, HashSet};",
        "use std::collections; fn f() { collections::HashMap::<u8, u8>::new(); }",
        "fn f() { let _ = std::collections::HashMap::<u8, u8>::new(); }",
        "fn f() { assert!(std::fs::exists(\"x\").is_ok()); }",
        "fn f() { rand::thread_rng(); }",
        "fn f() { rand::random(); }",
        "fn f() { StdRng::from_os_rng(); }",
    ] {
        assert!(!found("evb-core", "a.rs", text).is_empty(), "{text}");
        assert!(!found("evb-sim", "a.rs", text).is_empty(), "{text}");
        assert!(found("evb-daemon", "a.rs", text).is_empty(), "{text}");
    }
}

#[test]
fn pure_code_passes() {
    for text in [
        "use core::time::Duration; use crate::time::Instant;",
        "use std::collections::{BTreeMap, VecDeque}; use core::net::IpAddr;",
        "/// Unlike `std::time::Instant`.\nfn f() -> &'static str { \"std::time::Instant\" }",
        "#[cfg(test)] mod tests { use std::time::Instant; }",
    ] {
        assert!(found("evb-core", "a.rs", text).is_empty(), "{text}: {:?}", found("evb-core", "a.rs", text));
    }
    assert!(found("evb-core", "a/tests.rs", "use std::time::Instant;").is_empty());
}

#[test]
fn no_relative_sleep_in_shaper_and_net() {
    let text = "async fn f() { tokio::time::sleep(d).await; }";
    assert_eq!(found("evb-net", "a.rs", text).len(), 1);
    assert!(!found("evb-shaper", "a.rs", text).is_empty());
    assert!(found("evb-net", "a.rs", "fn f(at: tokio::time::Instant) {}").is_empty());
}

#[test]
fn an_impure_dependency_is_found() {
    let repo = Repo::of(&[(
        "crates/evb-core/Cargo.toml",
        "[package]\nname = 'evb-core'\n[dependencies]\ntokio = '1'\n",
    )]);
    assert_eq!(check(&repo).len(), 1);
}
