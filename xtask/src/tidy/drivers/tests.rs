use super::*;

fn found(path: &str, text: &str) -> Vec<String> {
    check(&Repo::of(&[(path, text)])).iter().map(ToString::to_string).collect()
}

#[test]
fn whatever_decides_in_a_driver_is_found() {
    for text in [
        "use evb_core::wire::control::Decisions;",
        "use evb_core::wire::{control::Control, record::RecordHeader};",
        "fn f(m: Control) { match m.message { Some(control::Message::Stop(_)) => {} _ => {} } }",
        "fn f() { let a = clock::now(); let b = clock::now(); }",
    ] {
        assert_eq!(found("src/source/driver.rs", text).len(), 1, "{text}");
        assert!(found("src/source/feed.rs", text).is_empty(), "{text}");
    }
    let long = "fn f() {}\n".repeat(LINES + 1);
    assert!(found("src/builder/driver.rs", &long)[0].contains("at most 200"));
}

#[test]
fn a_driver_carries_messages_and_reads_the_clock() {
    let text = "use evb_core::wire::control::Control; fn f(m: &Control) { link.send(m, clock::now()); }";
    assert!(found("src/source/driver.rs", text).is_empty());
}
