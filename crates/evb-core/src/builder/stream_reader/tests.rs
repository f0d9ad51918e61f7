use bytes::{Buf, BufMut as _, BytesMut};

use super::{ReadTarget, StreamReader};
use crate::{
    builder::{
        BuilderCore, LARGE_FRAGMENT, Output,
        tests::{GrantAll, announcement, at, config, on_the_lane},
    },
    id::EventId,
    index::LaneIndex,
    lane::StreamFault,
    set::SourceSet,
    wire::{
        control::Assignments,
        record::{MAX_DATA, RecordHeader},
    },
};

const LANE: LaneIndex = LaneIndex::new(0);

/// Lengths of the payloads: an empty one, small ones, and large ones in memory of their own.
const LENGTHS: [usize; 6] = [0, 100, LARGE_FRAGMENT, 7, LARGE_FRAGMENT + 1, 3000];

fn payload(event: u64, length: usize) -> Vec<u8> {
    (0..length).map(|place| (place as u64 * 13 + event) as u8).collect()
}

fn builder() -> BuilderCore<GrantAll> {
    let mut core = BuilderCore::new(config(1, LENGTHS.len()), GrantAll::default(), at(0));
    core.handle_roster(1, SourceSet::first(1), SourceSet::default(), at(0));
    core.handle_lane_connected(LANE, at(0));
    let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
    let mut last = (EventId::default(), 0);
    for event in 1..=LENGTHS.len() as u64 {
        assignments.add(&mut last, EventId::new(event), at(0).as_nanos());
    }
    core.handle_assignments(&assignments, at(0)).unwrap();
    core
}

/// Returns the announcements of all fragments, and their data in records of at most `most` bytes.
fn records(most: usize) -> (BytesMut, BytesMut) {
    let (mut announced, mut data, mut lane) = (BytesMut::new(), BytesMut::new(), Vec::new());
    announced.put_slice(&RecordHeader::Announce { count: LENGTHS.len() as u16, offset: 0 }.encode());
    for (event, length) in (1..).zip(LENGTHS) {
        announcement(event, length).encode(&mut announced);
        lane.extend(on_the_lane(event, &payload(event, length)));
    }
    for (index, bytes) in lane.chunks(most).enumerate() {
        let (length, offset) = (bytes.len() as u32, (index * most) as u64);
        data.put_slice(&RecordHeader::Data { length, offset }.encode());
        data.put_slice(bytes);
    }
    (announced, data)
}

/// Passes bytes to the reader, in pieces of the lengths that `piece` returns, as reads from a
/// socket would. Returns the number of bytes that went directly into a fragment's memory.
fn read(
    reader: &mut StreamReader,
    core: &mut BuilderCore<GrantAll>,
    mut bytes: &[u8],
    mut piece: impl FnMut() -> usize,
) -> Result<usize, StreamFault> {
    let mut direct = 0;
    while !bytes.is_empty() {
        let target = reader.read_target(core, LANE);
        if let ReadTarget::Buffer { buffer, limit } = &target {
            assert!(buffer.capacity() - buffer.len() >= *limit, "the limit has room");
        }
        let filled = target.read_from(&mut Buf::take(&mut bytes, piece()));
        reader.filled(core, LANE, filled, at(0))?;
        core.invariants();
        direct += filled;
    }
    Ok(direct)
}

/// Reads all records in pieces, checks that all events are whole, and returns the number of bytes
/// that were not copied.
fn read_all(most: usize, mut piece: impl FnMut() -> usize) -> usize {
    let (announced, data) = records(most);
    let (mut reader, mut core) = (StreamReader::default(), builder());
    read(&mut reader, &mut core, &announced, &mut piece).unwrap();
    let mut events = 0;
    let mut take = |core: &mut BuilderCore<GrantAll>| {
        while let Some(output) = core.poll(at(0)) {
            if let Output::Event(event) = output {
                let length = LENGTHS[event.id.number() as usize - 1];
                let fragment = event.fragments().next().expect("the fragment of the only source");
                assert!(fragment.payload == payload(event.id.number(), length), "event {}", event.id);
                events += 1;
            }
        }
    };
    take(&mut core);
    let direct = read(&mut reader, &mut core, &data, piece).unwrap();
    take(&mut core);
    assert_eq!(events, LENGTHS.len());
    assert!(reader.is_between_records());
    direct
}

#[test]
fn records_may_arrive_in_pieces_of_any_length() {
    for length in [1, 2, 15, 16, 17, 1000, LARGE_FRAGMENT - 1, 1 << 20] {
        for most in [900, 20_000, MAX_DATA as usize] {
            read_all(most, || length);
        }
    }
}

#[test]
fn a_stream_may_be_cut_at_every_byte() {
    let (announced, data) = records(5000);
    for cut in (1..=announced.len()).chain((1..=data.len()).filter(|cut| cut % 5016 < 40)) {
        let mut pieces = [cut, usize::MAX, cut].into_iter();
        read_all(5000, || pieces.next().unwrap_or(usize::MAX));
    }
}

#[test]
fn large_fragments_are_not_copied() {
    let direct = read_all(MAX_DATA as usize, || 4096);
    // The first piece of a fragment arrives together with bytes before it.
    assert!(direct >= LARGE_FRAGMENT - 4096, "{direct} bytes");
}

#[test]
fn a_record_for_a_source_ends_the_lane() {
    let grant = RecordHeader::Grant { end: 0 };
    let (mut reader, mut core) = (StreamReader::default(), builder());
    let read = read(&mut reader, &mut core, &grant.encode(), || 3);
    assert_eq!(read, Err(StreamFault::WrongDirection(grant)));
}
