use super::*;

#[test]
fn payloads_differ_between_events_and_sources() {
    let template = Template::new();
    let made = |source, event| {
        let mut bytes = Vec::new();
        template.append(&mut bytes, source, event, 200_000);
        bytes
    };
    assert_eq!(made(1, 1).len(), 200_000);
    let body = |bytes: Vec<u8>| bytes[STAMP_LENGTH..].to_vec();
    assert_ne!(body(made(1, 1)), body(made(1, 2)));
    assert_ne!(body(made(1, 1)), body(made(2, 1)));
    assert_eq!(made(3, 7)[..STAMP_LENGTH], stamp(3, 7, 200_000));
}

#[test]
fn appending_and_filling_write_the_same() {
    let template = Template::new();
    for size in [16, 17, 1_000, 65_536 + 16, 1_000_000] {
        let mut appended = Vec::new();
        template.append(&mut appended, 2, 99, size);
        let mut filled = vec![0; size];
        template.fill(&mut filled, 2, 99);
        assert!(appended == filled, "{size} bytes");
    }
}

#[test]
fn a_header_survives_the_wire() {
    let header = Header { event: 1 << 40, source: 3, length: 1_000_000 };
    assert_eq!(Header::decode(&header.encode()), Some(header));
    assert_eq!(Header::decode(&header.encode()[..15]), None);
}
