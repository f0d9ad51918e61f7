use evb_core::{
    event::Event,
    fragment::Timestamp,
    id::{EventId, SourceId},
};

use super::{ListOptions, hex, list};
use crate::{
    EventFile,
    samples::{BUILDER, EPOCH, RUN, event, incomplete, misaligned, without_excluded, write},
};

fn listing(events: &[Event], options: ListOptions) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), BUILDER, u64::MAX, events).remove(0);
    let mut out = Vec::new();
    list(&EventFile::open(path).unwrap(), options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_listing_has_a_line_for_each_event_and_names_what_is_missing() {
    let events = [event(1, 100), incomplete(2), without_excluded(3)];
    let text = listing(&events, ListOptions::default());
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0]
            .contains("run 1 (5eedcafe), begun 2025-11-13T02:13:20.000000000Z, epoch 3, builder 1, file 0")
            && lines[0].contains("with index"),
        "{text}"
    );
    assert_eq!(lines[1], "sources: 1 2 3 4");
    assert_eq!(lines.len(), 3 + 3, "{text}");
    let words: Vec<&str> = lines[3].split_whitespace().collect();
    assert_eq!(
        [words[0], words[1], words[3], words[4], words[5], words[7]],
        ["1", "3", "2025-11-13T02:13:20.000001000Z", "2", "200", "complete"],
        "{text}"
    );
    assert!(lines[4].ends_with("INCOMPLETE, missing: source 3 (down)"), "{text}");
    assert!(lines[5].ends_with("complete without source 4 (excluded)"), "{text}");
    let text = listing(&events, ListOptions { fragments: true, epochs: None });
    assert_eq!(text.lines().count(), 3 + 3 + 6);
}

#[test]
fn states_of_alignment_are_shown_where_something_was_checked() {
    let text =
        listing(&[event(1, 5), misaligned(2)], ListOptions { fragments: true, ..ListOptions::default() });
    let fragments: Vec<&str> = text.lines().filter(|line| line.contains(" crc ")).collect();
    assert!(fragments[..2].iter().all(|line| !line.contains("alignment")), "{text}");
    assert!(fragments[2].ends_with(", alignment with other sources: agrees"), "{text}");
    assert!(fragments[3].ends_with(", alignment with other sources: disagrees"), "{text}");
    let mut out = Vec::new();
    hex(&misaligned(2), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().any(|line| line.ends_with(", alignment with other sources: disagrees")), "{text}");
}

#[test]
fn one_event_in_hexadecimal() {
    let mut event = Event::empty(EventId::FIRST, RUN, EPOCH, BUILDER);
    event.add(SourceId::new(7), Timestamp::new(99), "0123456789abcdef\n\x00".into());
    let mut out = Vec::new();
    hex(&event, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("source 7, 18 B, timestamp 99, crc "), "{text}");
    assert!(
        text.contains("  00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  |0123456789abcdef|"),
        "{text}"
    );
    assert!(text.contains("  00000010  0a 00 ") && text.trim_end().ends_with("|..|"), "{text}");
}
