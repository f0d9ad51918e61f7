use super::*;

fn found(path: &str, text: &str) -> usize {
    check(&Repo::of(&[(path, text)])).len()
}

#[test]
fn a_quantity_of_a_role_is_found() {
    for text in [
        "const RETRY: Duration = Duration::from_millis(200);",
        "pub(crate) const WINDOW: Bytes = Bytes::new(1 << 20);",
        "const MOST: usize = 64;",
        "struct A; impl A { const BATCH: u64 = 3; }",
        "fn f() { const LIMIT: core::time::Duration = Duration::ZERO; }",
    ] {
        for path in [
            "system/host/stage.rs",
            "system/host.rs",
            "host/builder.rs",
            "system/greeting.rs",
            "system/networks.rs",
        ] {
            assert_eq!(found(&format!("crates/evb-sim/src/{path}"), text), 1, "{path}: {text}");
        }
        for path in
            ["crates/evb-sim/src/system/network/datagrams.rs", "crates/evb-sim/src/link.rs", "src/sink.rs"]
        {
            assert_eq!(found(path, text), 0, "{path}: {text}");
        }
    }
}

#[test]
fn what_is_no_quantity_passes() {
    let text =
        "const HEADER: &str = \"a\"; use evb_core::builder::SINK_RETRY; #[cfg(test)] const N: u64 = 1;";
    assert_eq!(found("crates/evb-sim/src/system/host/stage.rs", text), 0);
}
