use proptest::prelude::*;

use super::{Announcement, Asked, MAX_COUNT, TriggerMessageError, parse_datagram, parse_line};

#[test]
fn lines_are_counts() {
    assert_eq!(parse_line(b""), Ok(1));
    assert_eq!(parse_line(b" 12\r"), Ok(12));
    assert_eq!(parse_line(b"0"), Ok(0));
    assert_eq!(parse_line(b"1048577"), Err(TriggerMessageError::Count(1_048_577)));
    assert_eq!(parse_line(b"99999999999999999999"), Err(TriggerMessageError::Count(u64::MAX)));
    for bad in [&b"-1"[..], b"+1", b"x", b"1 2", b"0x10", b"\xff", b"123456789012345678901"] {
        assert_eq!(parse_line(bad), Err(TriggerMessageError::Form), "{bad:?}");
    }
}

#[test]
fn an_announcement_has_these_bytes() {
    let announcement = Announcement { number: 0x0102, sent_ns: 3 };
    let bytes = announcement.encode();
    assert_eq!(bytes, *b"evbt\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
    assert_eq!(parse_datagram(&bytes), Ok(Asked::Announced(announcement)));
    assert_eq!(parse_datagram(b"17\n"), Ok(Asked::Count(17)));
    let zero = Announcement { number: 0, sent_ns: 3 }.encode();
    assert_eq!(parse_datagram(&zero), Err(TriggerMessageError::Zero));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes_are_a_bounded_count_an_announcement_or_an_error(bytes: Vec<u8>) {
        match parse_datagram(&bytes) {
            Ok(Asked::Count(count)) => prop_assert!(count <= MAX_COUNT),
            Ok(Asked::Announced(announcement)) => prop_assert_eq!(&announcement.encode()[..], &bytes[..]),
            Err(_) => {}
        }
    }
}
