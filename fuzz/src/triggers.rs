//! Fuzz target for triggers from the network: text lines over TCP, and UDP datagrams.

use evb::supervisor::fuzzing::trigger_lines;
use evb_core::trigger::announcement::{Announcement, Asked, LENGTH, MAX_COUNT, parse_datagram, parse_line};

use crate::script::{Slowly, block_on};

/// Parses the bytes as lines of text and as one datagram; the first byte is the number of bytes of
/// the text that arrive at once.
///
/// # Panics
/// Panics if the two parsers contradict each other, or if they return more triggers than a request
/// may contain.
pub fn check(data: &[u8]) {
    let Some((step, bytes)) = data.split_first() else { return };
    match parse_datagram(bytes) {
        Ok(Asked::Announced(announcement)) => {
            assert!(announcement.number > 0);
            assert_eq!(announcement.encode()[..], *bytes);
        }
        Ok(Asked::Count(count)) => assert!(count <= MAX_COUNT && parse_line(bytes) == Ok(count)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let counts = block_on(trigger_lines(Slowly::new(bytes, *step)));
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    // Text behind the last newline is not a complete line, so it is ignored.
    lines.pop();
    let expected: Vec<u64> = lines.iter().map_while(|line| parse_line(line).ok()).collect();
    assert!(expected.starts_with(&counts));
    assert!(counts.iter().all(|count| *count <= MAX_COUNT));
}

/// Returns the seed corpus: lines with numbers of triggers, and announcements of events.
pub fn seeds() -> Vec<Vec<u8>> {
    let announced = Announcement { number: 5, sent_ns: 1 << 40 }.encode();
    let with = |step: u8, bytes: &[u8]| [&[step][..], bytes].concat();
    vec![
        with(255, b"1\n\n 17 \r\n1048576\n99999999\n"),
        with(3, b"12\n3\n"),
        with(255, &announced),
        with(255, &announced[..LENGTH - 1]),
    ]
}
