use std::os::fd::AsFd as _;

use evb_core::{id::EventId, rng::Rng};
use rustix::net::{SendFlags, send};

use super::{ANSWER, FilterVerdict, Heard, QUEUE, answers, channel, check_greeting, greet, hear};

fn answer(event: u64, verdict: u64, tag: u64) -> Vec<u8> {
    [event.to_le_bytes(), verdict.to_le_bytes(), tag.to_le_bytes()].concat()
}

#[test]
fn answers_are_read_up_to_the_first_that_is_wrong() {
    let right = [answer(7, 1, 0), answer(8, 0, 0), answer(9, 1, u64::MAX)].concat();
    let message = [right, answer(10, 2, 0), answer(10, 0, 1), vec![0; 5]].concat();
    let read: Vec<_> = answers(&message).collect();
    let verdicts = [FilterVerdict::Accept, FilterVerdict::Reject, FilterVerdict::Tag(u64::MAX)];
    let expected: Vec<_> = (7..).map(EventId::new).zip(verdicts).map(Ok).collect();
    assert_eq!(read[..3], expected);
    let wrong = Err("sent a verdict on event 10 that is neither keep nor drop".to_owned());
    assert_eq!(read[3..5], [wrong.clone(), wrong]);
    assert_eq!(read[5], Err("sent a message of 125 bytes, which is not whole answers".to_owned()));
}

#[test]
fn only_a_greeting_of_this_version_is_one() {
    assert_eq!(check_greeting(b"EVBF\x01\0\0\0"), Ok(()));
    let other = check_greeting(b"EVBF\x02\0\0\0").unwrap_err();
    assert_eq!(other, "speaks version 2 of the protocol, and this evb version 1");
    for wrong in [&b""[..], b"EVBF", b"EVBF\x01\0\0\x01", b"EVBX\x01\0\0\0", b"EVBF\x01\0\0\0\0"] {
        assert!(check_greeting(wrong).unwrap_err().contains("no greeting"), "{wrong:?}");
    }
}

#[test]
fn no_message_is_read_beyond_its_bytes() {
    let (mut rng, mut bytes) = (Rng::new(3), [0; QUEUE * ANSWER]);
    for _ in 0..20_000 {
        bytes.fill_with(|| (rng.next_u64() % 3) as u8);
        let size = (rng.next_u64() % (bytes.len() as u64 + 1)) as usize;
        let message = &bytes[..size];
        assert_eq!(check_greeting(message).is_ok(), message == b"EVBF\x01\0\0\0");
        assert_eq!(answers(message).count(), size.div_ceil(ANSWER));
    }
}

#[test]
fn a_message_that_is_too_long_is_told_by_its_length() {
    let (ours, theirs) = channel().unwrap();
    let mut buffer = [0; QUEUE * ANSWER];
    assert_eq!(hear(&ours, &mut buffer).unwrap(), Heard::Nothing);
    send(&theirs, &[1; QUEUE * ANSWER + 1], SendFlags::empty()).unwrap();
    send(&theirs, &answer(7, 1, 0), SendFlags::empty()).unwrap();
    assert_eq!(hear(&ours, &mut buffer).unwrap(), Heard::TooLong(QUEUE * ANSWER + 1));
    assert_eq!(hear(&ours, &mut buffer).unwrap(), Heard::Message(&answer(7, 1, 0)));
    drop(theirs);
    assert_eq!(hear(&ours, &mut buffer).unwrap(), Heard::End);
    assert!(greet(&ours, 1, ours.as_fd()).is_err());
}
