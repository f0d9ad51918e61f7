use std::{collections::BTreeMap, fs};

use proptest::prelude::*;

use super::{EventStream, StreamEncoder};
use crate::{
    EventFile, IndexState, ReadError,
    samples::{BUILDER, any_event, identity, write},
};

/// Returns the records of a stream by event, as records of the stream of `encoder`.
fn records(stream: &[u8], encoder: &StreamEncoder) -> BTreeMap<u64, Vec<u8>> {
    let mut reader = EventStream::new(stream, "test").unwrap();
    let mut all = BTreeMap::new();
    while let Some(record) = reader.next() {
        let (record, mut bytes) = (record.unwrap(), reader.bytes().to_vec());
        assert_eq!(reader.event().unwrap().id, record.event);
        encoder.adopt(&record, &mut bytes);
        all.insert(record.event.number(), bytes);
    }
    all
}

proptest! {
    /// A stream has the same bytes as the files of the writer, which rotate; only the tags differ.
    #[test]
    fn records_are_those_of_files(events in proptest::collection::vec(any_event(), 1..20)) {
        let encoder = StreamEncoder::new(&identity(BUILDER));
        let mut events = events;
        for (place, event) in events.iter_mut().enumerate() {
            event.id = evb_core::id::EventId::new(place as u64 + 1);
        }
        let stream = events.iter().fold(encoder.header().to_vec(), |mut stream, event| {
            stream.extend_from_slice(&encoder.record(event).unwrap());
            stream
        });
        let dir = tempfile::tempdir().unwrap();
        let mut of_files = BTreeMap::new();
        for path in write(dir.path(), BUILDER, 2000, &events) {
            of_files.extend(records(&fs::read(path).unwrap(), &encoder));
        }
        prop_assert_eq!(records(&stream, &encoder), of_files);
    }

    /// No damage is taken for an event: every event that is returned is one that was written.
    #[test]
    fn damage_is_found(
        one in any_event(),
        place in any::<prop::sample::Index>(),
        flip in 1u8..,
        cut in any::<prop::sample::Index>(),
    ) {
        let encoder = StreamEncoder::new(&identity(BUILDER));
        let (header, record) = (encoder.header(), encoder.record(&one).unwrap());
        let mut stream = [&header[..], &record].concat();
        let cut = cut.index(stream.len() - header.len()) + header.len();
        let ended = EventStream::new(&stream[..cut], "test").unwrap().next();
        let is_torn = matches!(ended, Some(Err(ReadError::TornTail { .. })));
        prop_assert!(is_torn || (cut == header.len() && ended.is_none()), "{cut}: {ended:?}");
        let place = place.index(stream.len());
        stream[place] ^= flip;
        if let Ok(mut reader) = EventStream::new(&stream[..], "test")
            && let Some(Ok(_)) = reader.next()
        {
            prop_assert!(reader.event().is_err(), "byte {place} was changed, and nobody has noticed");
        }
    }
}

/// A stream that is kept as a file is one whose index names no event.
#[test]
fn a_whole_stream_says_so_and_is_an_event_file() {
    let encoder = StreamEncoder::new(&identity(BUILDER));
    let id = evb_core::id::EventId::FIRST;
    let of = identity(BUILDER);
    let event = evb_core::event::Event::empty(id, of.run, of.epoch, of.builder);
    let mut stream = [encoder.header(), encoder.record(&event).unwrap()].concat();
    let mut cut_off = EventStream::new(&stream[..], "test").unwrap();
    assert!(cut_off.by_ref().all(|record| record.is_ok()) && !cut_off.is_closed());
    stream.extend_from_slice(&encoder.closing_block(stream.len() as u64));
    let mut whole = EventStream::new(&stream[..], "test").unwrap();
    assert!(!whole.is_closed());
    assert_eq!(whole.by_ref().map(|record| record.unwrap().event).collect::<Vec<_>>(), [id]);
    assert!(whole.is_closed());

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run000001_b01_0000.evb");
    fs::write(&path, &stream).unwrap();
    let file = EventFile::open(&path).unwrap();
    assert_eq!(file.index_state(), IndexState::Present);
    assert_eq!(file.event(id).unwrap().map(|event| event.id), Some(id));
}
