use std::path::Path;

use evb_core::{
    alignment::{ClockWrap, DetectorClock},
    id::{BuilderId, Epoch, RunNumber, SourceId},
};
use proptest::prelude::*;

use super::*;
use crate::{input::Replay, source::Readout};

const FILE: &str = "examples/data/km3net_l1_timeslices.dat";

fn original() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE)).unwrap()
}

/// A timeslice with a frame of `hits` bytes for each module.
fn timeslice(index: u8, frames: &[(u32, usize)]) -> Vec<u8> {
    let common = [index; COMMON];
    let mut body = Vec::new();
    for (module, hits) in frames {
        body.put_i32_le((FRAME_HEAD + hits) as i32);
        body.put_i32_le(FRAME_TYPE);
        body.put_slice(&common);
        body.put_u32_le(*module);
        body.put_bytes(index, *hits);
    }
    let mut slice = Vec::new();
    slice.put_i32_le((SLICE_HEAD + body.len()) as i32);
    slice.put_i32_le(SLICE_TYPE);
    slice.put_u16_le(SLICE_VERSION);
    slice.put_slice(&common);
    slice.put_i32_le(frames.len() as i32);
    slice.put_slice(&body);
    slice
}

/// Returns the event that the sources of all modules make of a timeslice.
fn event_of(slices: &Timeslices<'_>, slice: usize) -> Event {
    let mut event = Event::empty(EventId::FIRST, RunNumber::new(1), Epoch::new(1), BuilderId::new(1));
    for position in 0..slices.modules().len() {
        let (timestamp, frame) = slices.frames(position).nth(slice).unwrap();
        event.add(SourceId::new(position as u16), timestamp, bytes::Bytes::copy_from_slice(frame));
    }
    event
}

#[test]
fn replayed_modules_give_every_recorded_timeslice_back() {
    let bytes = original();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let slices = Timeslices::parse(&bytes).unwrap();
    assert_eq!((slices.len(), slices.modules().len()), (10, 15));
    assert_eq!(slices.modules()[0], 806_451_239);
    let mut modules: Vec<Replay> = (0..15).map(|module| Replay::km3net(&path, module).unwrap()).collect();
    let mut given_back = Vec::new();
    for number in 1..=25 {
        let id = EventId::new(number);
        let mut event = Event::empty(id, RunNumber::new(1), Epoch::new(1), BuilderId::new(1));
        for (place, module) in modules.iter_mut().enumerate() {
            let fragment = module.fragment(id).unwrap();
            assert_eq!(fragment.timestamp.ticks() / TICKS, 1_605_025_366 + (number - 1) % 10);
            event.add(SourceId::new(place as u16 + 1), fragment.timestamp, fragment.payload);
        }
        let rebuilt = rebuild_timeslice(&event).unwrap();
        assert_eq!(rebuilt, slices.of_event(id));
        given_back.extend_from_slice(&rebuilt);
    }
    assert_eq!(given_back[..bytes.len()], bytes);
}

/// The clock of the telescope counts ticks of 16 ns of UTC.
#[test]
fn the_clock_of_the_telescope_runs_on_in_further_passes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let clock = DetectorClock::new("62.5 MHz".parse().unwrap(), ClockWrap::Bits(64));
    let mut replay = Replay::km3net(&path, 0).unwrap().with_clock(&clock);
    let time = |event| replay.fragment(EventId::new(event)).unwrap().timestamp.ticks();
    let times: Vec<u64> = (1..=40).map(time).collect();
    for pair in times.array_windows() {
        let [one, next] = *pair;
        // The file has a timeslice of each second.
        assert_eq!(next - one, TICKS);
    }
}

#[test]
fn a_module_without_a_frame_contributes_an_empty_fragment() {
    let bytes = [timeslice(1, &[(7, 0), (5, 10), (9, 3)]), timeslice(2, &[(7, 0), (9, 3)])].concat();
    let slices = Timeslices::parse(&bytes).unwrap();
    assert_eq!(slices.modules(), [7, 5, 9]);
    let sizes: Vec<usize> = slices.frames(1).map(|(_, frame)| frame.len()).collect();
    assert_eq!(sizes, [FRAME_HEAD + 10, 0]);
    for slice in 0..2 {
        let rebuilt = rebuild_timeslice(&event_of(&slices, slice)).unwrap();
        assert_eq!(Some(&rebuilt[..]), slices.slice(slice));
    }
}

#[test]
fn what_could_not_be_given_back_is_refused() {
    let good = timeslice(1, &[(7, 4), (5, 4)]);
    let flaw = |bytes: &[u8]| Timeslices::parse(bytes).unwrap_err();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    assert_eq!(flaw(&[]), Km3netFlaw::Empty);
    assert_eq!(
        flaw(&good[..good.len() - 1]),
        Km3netFlaw::SliceLength { slice: 1, offset: 0, stated: 106, available: 105 }
    );
    assert!(matches!(flaw(&with(3, 0x80)), Km3netFlaw::SliceLength { .. }));
    assert!(matches!(flaw(&with(4, 1)), Km3netFlaw::SliceKind { .. }));
    assert!(matches!(flaw(&with(SLICE_HEAD, 0)), Km3netFlaw::Frame { frame: 1, .. }));
    assert!(matches!(flaw(&with(SLICE_HEAD + 8, 9)), Km3netFlaw::Frame { frame: 1, .. }));
    assert!(matches!(flaw(&with(30, 3)), Km3netFlaw::Frame { frame: 2, .. }));
    assert!(matches!(flaw(&timeslice(1, &[])), Km3netFlaw::Frame { .. }));
    let other_order = [good.clone(), timeslice(2, &[(5, 4), (7, 4)])].concat();
    assert_eq!(flaw(&other_order), Km3netFlaw::Order { slice: 2, module: 7 });
    assert!(matches!(flaw(&timeslice(1, &[(7, 4), (7, 4)])), Km3netFlaw::Order { .. }));
}

#[test]
fn an_event_of_something_else_is_no_timeslice() {
    let mut event = Event::empty(EventId::FIRST, RunNumber::new(1), Epoch::new(1), BuilderId::new(1));
    assert_eq!(rebuild_timeslice(&event), Err(NoFrame));
    event.add(SourceId::new(1), Timestamp::new(0), bytes::Bytes::from_static(b"short"));
    assert_eq!(rebuild_timeslice(&event), Err(NoFrame));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// A file with changed bytes is either refused, or its events reproduce the changed bytes.
    #[test]
    fn damaged_files_are_refused_or_given_back(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut in any::<prop::sample::Index>()) {
        let mut bytes = [timeslice(1, &[(7, 4), (5, 4)]), timeslice(2, &[(7, 4), (5, 4)])].concat();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut.index(4) == 0 {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(slices) = Timeslices::parse(&bytes) {
            let rebuilt: Vec<u8> = (0..slices.len()).flat_map(|slice| rebuild_timeslice(&event_of(&slices, slice)).unwrap()).collect();
            prop_assert_eq!(rebuilt, bytes);
        }
    }
}
