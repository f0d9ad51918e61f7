//! The Rust half of `cargo xtask eco c-speed`: four sources push to four builders without disks,
//! and the program prints the payload rate. `examples/push_speed.cpp` does the same in C++.
//!
//!     push_speed owned|many FRAGMENT_BYTES EVENTS

use std::{env, error::Error, thread};

use bytes::Bytes;
use evb_rs::{
    prelude::{EventId, Fragment, LocalSystem, NullSink, PushError, Source, Timestamp},
    units,
};

/// Number of sources, and also the number of builders.
const EACH: u16 = 4;
/// Number of fragments that `many` pushes together.
const TOGETHER: u64 = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [mode, size, events] = &arguments[..] else {
        return Err("usage: push_speed owned|many BYTES EVENTS".into());
    };
    let (size, events): (usize, u64) = (size.parse()?, events.parse()?);
    let push = match mode.as_str() {
        "owned" => push_owned,
        "many" => push_many,
        _ => return Err("the mode is `owned` or `many`".into()),
    };
    let system = LocalSystem::new(EACH, EACH).events(events).fragments_of(units::Bytes::new(size as u64));
    let run = evb_rs::block_on(system.start(|_| NullSink))??;
    let threads: Vec<_> = run
        .sources()
        .iter()
        .map(|source| {
            let source = source.clone();
            // The detector's memory, which does not change.
            let data = vec![0x5a; size];
            thread::spawn(move || push(&source, data, events))
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a readout thread panicked")??;
    }
    let report = evb_rs::block_on(run.finished())??;
    if report.events.complete != events {
        return Err(report.verdict.clone().into());
    }
    println!("{:.1}", report.bytes.payload as f64 / report.duration_s / 1e6);
    Ok(())
}

/// Pushes one fragment at a time. All share one memory, so that no time is spent on its allocation.
fn push_owned(source: &Source, data: Vec<u8>, events: u64) -> Result<(), PushError> {
    let (source, data) = (source.blocking(), Bytes::from(data));
    for event in 1..=events {
        source.push(Fragment::new(EventId::new(event), Timestamp::new(event), data.clone()))?;
    }
    Ok(())
}

/// Copies each fragment out of the detector's memory, and pushes many together.
fn push_many(source: &Source, data: Vec<u8>, events: u64) -> Result<(), PushError> {
    let source = source.blocking();
    let mut fragments = Vec::new();
    for event in 1..=events {
        let payload = Bytes::copy_from_slice(&data);
        fragments.push(Fragment::new(EventId::new(event), Timestamp::new(event), payload));
        if event % TOGETHER == 0 || event == events {
            source.push_many(&mut fragments)?;
        }
    }
    Ok(())
}
