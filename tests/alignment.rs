//! Sources that declare their clocks themselves, in a whole system.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use evb::{
    event::Alignment,
    input::{FragmentSize, Generator},
    prelude::*,
    source::{ClockWrap, DetectorClock},
};

/// Event from which on source 2 is wrong.
const AT: u64 = 1500;
const EVENTS: u64 = 3000;

/// Returns for each event the sources whose fragments disagree, of a run in which source 2 misses
/// `slip` triggers.
async fn disagreeing(slip: i8) -> BTreeMap<u64, Vec<u16>> {
    let clock = DetectorClock::new("125 MHz".parse().expect("a rate"), ClockWrap::Bits(48));
    let readout = |id: SourceId| {
        let size = Bytes::new(100);
        let healthy = Generator::new(id, FragmentSize::Fixed(size), size, 1).with_clock(&clock);
        if id == SourceId::new(2) { healthy.with_slip(slip, EventId::new(AT)) } else { healthy }
    };
    let found = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = Arc::clone(&found);
    let sink = move |_| {
        let seen = Arc::clone(&seen);
        FnSink(move |event: &Event| {
            let wrong = event.fragments().filter(|fragment| fragment.alignment == Alignment::Disagrees);
            let wrong = wrong.map(|fragment| fragment.source.number()).collect();
            seen.lock().expect("no panic").insert(event.id.number(), wrong);
            Ok(())
        })
    };
    let system = LocalSystem::new(3, 2).events(EVENTS).with_sources(|config| config.clock = Some(clock));
    let run = system.start_on_demand(readout, sink).await.expect("starts");
    run.finished().await.expect("ends");
    let found = found.lock().expect("no panic").clone();
    assert_eq!(found.len() as u64, EVENTS);
    found
}

#[tokio::test]
async fn healthy_generators_are_not_flagged() {
    assert!(disagreeing(0).await.values().all(Vec::is_empty));
}

#[tokio::test]
async fn a_planted_slip_is_flagged_from_its_first_event_on() {
    for (event, sources) in disagreeing(1).await {
        assert!(event >= AT || sources.is_empty(), "event {event}: {sources:?}");
        assert!(sources.iter().all(|source| *source == 2), "event {event}: {sources:?}");
        assert!(!(AT..AT + 100).contains(&event) || sources == [2], "event {event}: {sources:?}");
    }
}
