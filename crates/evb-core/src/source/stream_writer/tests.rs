use super::StreamWriter;
use crate::{
    fragment::{Fragment, Timestamp},
    id::EventId,
    index::LaneIndex,
    source::{
        SourceCore,
        tests::{FOUR, at, decisions, source},
    },
};

const LANE: LaneIndex = LaneIndex::new(0);
const FRAGMENTS: u64 = 800;

/// Returns a source with granted fragments, and the writer that is to send them and their
/// announcements.
fn queued() -> (SourceCore, StreamWriter) {
    let (mut core, mut writer) = (source(false), StreamWriter::default());
    core.handle_lane_connected(LANE, 0, 0).unwrap();
    core.handle_decisions(&decisions(1, &[FOUR; FRAGMENTS as usize])).unwrap();
    for event in 1..=FRAGMENTS {
        let payload = vec![event as u8; event as usize % 50];
        core.push(Fragment::new(EventId::new(event), Timestamp::default(), payload), at(0)).unwrap();
    }
    // The core announces the fragments in batches, as time passes.
    for turn in 0..100 {
        core.announce(LANE, at(turn * 100), &mut writer.announcements);
    }
    let size = (1..=FRAGMENTS).map(|event| 16 + event % 50).sum();
    core.handle_grant(LANE, size).unwrap();
    while let Some(taken) = core.take(LANE, 3000) {
        writer.send(taken.range);
    }
    (core, writer)
}

/// Returns all bytes of the stream if at most `most` bytes are written at a time.
fn written(most: usize) -> Vec<u8> {
    let ((core, mut writer), mut stream) = (queued(), Vec::new());
    while let Some(slices) = writer.gather(&core, LANE) {
        let before = stream.len();
        stream.extend(slices.iter().flat_map(|slice| slice.iter().copied()).take(most));
        let count = stream.len() - before;
        assert!(count > 0, "there are bytes to write");
        drop(slices);
        writer.sent(count);
    }
    assert!(writer.is_idle());
    stream
}

#[test]
fn writes_may_end_anywhere() {
    let whole = written(usize::MAX);
    for most in [1, 2, 15, 16, 17, 1000, 5000] {
        assert!(written(most) == whole, "writes of {most} bytes");
    }
}

#[test]
fn parcels_hold_the_bytes_of_the_stream() {
    for limit in [16 << 10, 20_000, 65_519].map(|room| room + 16) {
        let ((core, mut writer), mut stream) = (queued(), Vec::new());
        while let Some(content) = writer.parcel_content(limit) {
            let before = stream.len();
            stream.extend_from_slice(content.announcements);
            stream.extend_from_slice(content.header);
            core.pieces(LANE, content.range, 64, |piece| stream.extend_from_slice(piece));
            let taken = stream.len() - before;
            assert!((1..=limit).contains(&taken), "a parcel of {taken} bytes");
            writer.sent(taken);
        }
        assert!(writer.is_idle() && stream == written(usize::MAX), "parcels of {limit} bytes");
    }
}
