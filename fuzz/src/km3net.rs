//! Fuzz target for KM3NeT timeslices: a timeslice that was split into fragments must be rebuilt to
//! the same bytes.

use evb::input::km3net::{Timeslices, rebuild_timeslice};
use evb_core::{
    event::Event,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
};

/// Parses the bytes as a file of timeslices, and rebuilds each timeslice from its fragments.
///
/// # Panics
/// Panics if a rebuilt timeslice differs from the original.
pub fn check(data: &[u8]) {
    let slices = match Timeslices::parse(data) {
        Ok(slices) => slices,
        Err(flaw) => return assert!(!flaw.to_string().is_empty()),
    };
    let modules = slices.modules().len();
    let mut whole = Vec::new();
    for place in 0..slices.len() {
        let id = EventId::new(place as u64 + 1);
        assert_eq!(slices.place_of(id), place);
        let slice = slices.slice(place).expect("one of them");
        assert_eq!(slices.of_event(id), slice);
        whole.extend_from_slice(slice);
        // Rebuilding every timeslice would take too long, because an input may have tens of
        // thousands of timeslices and modules.
        if place < 4 && modules < 200 {
            let mut event = Event::empty(id, RunNumber::new(1), Epoch::new(1), BuilderId::new(1));
            for module in 0..modules {
                let (timestamp, frame) = slices.frames(module).nth(place).expect("one for each timeslice");
                event.add(SourceId::new(module as u16), timestamp, frame.to_vec().into());
            }
            assert_eq!(rebuild_timeslice(&event).as_deref(), Ok(slice));
        }
    }
    assert_eq!(whole, data);
}

/// Returns the seed corpus: a timeslice of two detector modules, alone and followed by a timeslice
/// of one module.
pub fn seeds() -> Vec<Vec<u8>> {
    let frame = |common: &[u8], module: u32, hits: &[u8]| {
        let head = [32 + hits.len() as u32, 101].map(u32::to_le_bytes).concat();
        [&head[..], common, &module.to_le_bytes(), hits].concat()
    };
    let slice = |number: u32, modules: &[u32]| {
        let common = [1u32, 2, number, 3, 4].map(u32::to_le_bytes).concat();
        let frames: Vec<u8> = modules.iter().flat_map(|module| frame(&common, *module, b"hits")).collect();
        let head = [34 + frames.len() as u32, 1003].map(u32::to_le_bytes).concat();
        let count = modules.len() as u32;
        [&head[..], &1u16.to_le_bytes(), &common, &count.to_le_bytes(), &frames].concat()
    };
    let (first, second) = (slice(1, &[808, 809]), slice(2, &[809]));
    vec![first.clone(), [first, second].concat()]
}
