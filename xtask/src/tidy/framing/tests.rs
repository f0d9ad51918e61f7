use super::*;

fn found(path: &str, text: &str) -> usize {
    check(&Repo::of(&[(path, text)])).len()
}

#[test]
fn framing_outside_of_the_machines_is_found() {
    for text in [
        "use evb_core::wire::record::RecordHeader;",
        "use evb_core::wire::{datagram::DatagramHeader, control::Control};",
        "fn f(bytes: &mut &[u8]) { record::next_record(bytes); }",
        "fn f(bytes: &[u8]) { let (head, body) = bytes.split_at(record::RECORD_HEADER); }",
    ] {
        for path in
            ["crates/evb-net/src/lane/source_end.rs", "crates/evb-sim/src/stream.rs", "src/source/end.rs"]
        {
            assert_eq!(found(path, text), 1, "{path}: {text}");
        }
        for path in [
            "crates/evb-core/src/source/stream_writer.rs",
            "crates/evb-net/src/lane/source_end/tests.rs",
            "crates/evb-net/src/lane/datagrams/path.rs",
        ] {
            assert_eq!(found(path, text), 0, "{path}: {text}");
        }
    }
}

#[test]
fn machines_and_tests_within_a_file_pass() {
    let text = "use evb_core::source::StreamReader; #[cfg(test)] fn f(_: RecordHeader) {}";
    assert_eq!(found("crates/evb-net/src/lane/source_end.rs", text), 0);
}
