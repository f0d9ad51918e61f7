//! Compares a filter in Rust with programs that do the same (`docs/reference/filter.md`):
//!
//! ```text
//! c++ -std=c++17 -O2 -I bindings/c/include examples/filters/large.cpp -o /tmp/large
//! cargo run --release --example filter_speed -- 100000 /tmp/large 127
//! cargo run --release --example filter_speed -- 100000 python3 examples/filters/large.py 127
//! ```
//!
//! The first argument is the size of an event in bytes, the rest is the program with its arguments.

use std::{env, error::Error, time::Instant};

use evb::{
    filter::{Filter, FilterVerdict, ProcessFilter, ProcessOptions},
    prelude::*,
};

/// Events that wait for the filter together.
const BATCH: u64 = 256;

/// Seconds for which each filter is measured.
const SECONDS: f64 = 3.0;

/// Keeps events of which a fragment has a mean byte above 127, as `examples/filters/large.py` does.
fn is_large(event: &Event) -> FilterVerdict {
    let is_large = |payload: &[u8]| {
        payload.iter().map(|byte| u64::from(*byte)).sum::<u64>() > 127 * payload.len() as u64
    };
    match event.fragments().any(|fragment| is_large(fragment.payload)) {
        true => FilterVerdict::Accept,
        false => FilterVerdict::Reject,
    }
}

/// Returns events of four fragments, of which two in three have bytes above the threshold.
fn events(size: usize) -> Vec<Event> {
    let event = |id: u64| {
        let mut event = Event::default();
        event.id = EventId::new(id);
        for source in (0..4).map(SourceId::new) {
            let byte = if id.is_multiple_of(3) { 100 } else { 150 };
            event.add(source, Timestamp::new(id), vec![byte; size / 4].into());
        }
        event
    };
    (1..=BATCH).map(event).collect()
}

/// Returns the number of events that a filter judges in a second.
fn rate(filter: &mut impl Filter, events: &[Event]) -> f64 {
    let expected: Vec<_> = events.iter().map(is_large).collect();
    // The workers start.
    assert!(filter.verdicts(events) == expected);
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (began, mut judged) = (Instant::now(), 0);
    while began.elapsed().as_secs_f64() < SECONDS {
        assert!(filter.verdicts(events) == expected);
        judged += events.len();
    }
    judged as f64 / began.elapsed().as_secs_f64()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let size: usize = arguments.next().as_deref().unwrap_or("100000").parse()?;
    let mut command: Vec<String> = arguments.collect();
    if command.is_empty() {
        command = ["python3", "examples/filters/large.py", "127"].map(str::to_owned).into();
    }
    let events = events(size);
    println!("events of {size} bytes; {}", command.join(" "));
    println!("in Rust, on the sink's thread: {:.0} events/s", rate(&mut is_large, &events));
    for workers in [1, 2, 4] {
        let options = ProcessOptions { workers, ..ProcessOptions::new(command.clone()) };
        let mut filter = ProcessFilter::start(options)?;
        println!("{workers} workers: {:.0} events/s", rate(&mut filter, &events));
        assert_eq!(filter.report().map(|report| (report.failed, report.restarts)), Some((0, 0)));
    }
    Ok(())
}
