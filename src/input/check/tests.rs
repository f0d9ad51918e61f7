use bytes::BytesMut;
use evb_core::{
    fragment::Timestamp,
    id::{BuilderId, Epoch, RunNumber},
    units::Bytes,
};

use super::*;
use crate::input::{FragmentSize, Generator};

/// Returns an event of three generators; `change` was applied to the payload of the second.
fn event(size: u64, change: impl FnOnce(&mut BytesMut)) -> Event {
    let id = EventId::new(9);
    let mut event = Event::empty(id, RunNumber::new(1), Epoch::new(1), BuilderId::new(1));
    let mut change = Some(change);
    for source in 1..=3 {
        let source_id = SourceId::new(source);
        let size = FragmentSize::Fixed(Bytes::new(size));
        let payload = Generator::new(source_id, size, Bytes::mib(1), 1).generate(id).payload;
        let mut payload = BytesMut::from(&payload[..]);
        if let Some(change) = change.take_if(|_| source == 2) {
            change(&mut payload);
        }
        event.add(source_id, Timestamp::new(0), payload.freeze());
    }
    event
}

fn checker(extent: ContentCheck) -> CheckContent {
    CheckContent::new([3, 2, 1].map(|source| (SourceId::new(source), extent)))
}

#[test]
fn right_content_is_accepted() {
    for size in [0, 1, 15, 16, 19, 20, 21, 1000, 100_000] {
        for extent in [ContentCheck::Stamp, ContentCheck::Full] {
            assert_eq!(checker(extent).verdict(&event(size, |_| ())), FilterVerdict::Accept, "{size} B");
        }
    }
}

#[test]
fn a_wrong_byte_names_the_source_and_the_place() {
    let wrong = event(1000, |payload| payload[500] ^= 1);
    let found = checker(ContentCheck::Full).check(&wrong).unwrap_err();
    assert_eq!(found.source_id, SourceId::new(2));
    assert_eq!(
        found.problem,
        "byte 500 of the 1000 of its fragment is not what its generator wrote; check memory and network of the source's host and of this one"
    );
    assert_eq!(checker(ContentCheck::Stamp).check(&wrong), Ok(()));
}

#[test]
fn a_wrong_stamp_or_length_is_corrupt() {
    for wrong in [
        event(1000, |payload| payload[0] ^= 1),
        event(1000, |payload| payload.truncate(999)),
        event(5, |payload| payload[4] ^= 1),
    ] {
        let verdict = checker(ContentCheck::Stamp).verdict(&wrong);
        assert!(
            matches!(verdict, FilterVerdict::Corrupt { source_id, .. } if source_id == SourceId::new(2)),
            "{verdict:?}"
        );
    }
}

#[test]
fn other_sources_pass_unseen() {
    let wrong = event(1000, |payload| payload[0] ^= 1);
    let checker = CheckContent::new([1, 3, 9].map(|source| (SourceId::new(source), ContentCheck::Full)));
    assert_eq!(checker.check(&wrong), Ok(()));
}
