//! Measures the cost of pushing from blocking threads, with 4 sources and 4 builders in this
//! process. All fragments come from the same generator: made on demand by the source's own thread,
//! pushed one by one, or pushed many at a time. These three ways take turns; each ratio compares
//! the events per second of two ways in one round.
//!
//! `cargo bench --bench push -- --rounds 9` prints the table with medians of nine rounds.

use std::{thread, time::Duration};

use evb::{
    input::{FragmentSize, Generator},
    local::LocalRun,
    prelude::*,
};

/// Number of sources, and also of builders.
const EACH: u16 = 4;
/// Number of fragments in one call of `push_many`.
const MANY: usize = 256;
/// Sizes of fragments in bytes, each with the number of events of a run.
const SIZES: [(u64, u64); 3] = [(100, 400_000), (1000, 300_000), (1_000_000, 1500)];
const ROUNDS: usize = 5;
/// Backlog of a source: enough for some batches, and little enough to stay in processor caches.
const BACKLOG: Bytes = Bytes::mib(1);
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The ways in which fragments reach their source.
#[derive(Clone, Copy, Debug)]
enum Way {
    OnDemand,
    Push,
    PushMany,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Under `cargo test`, one short round shows that the benchmark runs.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_bench { asked_rounds().unwrap_or(ROUNDS) } else { 1 };
    println!("{EACH}x{EACH}, medians of {rounds} rounds");
    println!("{:>9} {:>13} {:>11} {:>11}", "fragment", "on demand 1/s", "push", "push_many");
    for (size, events) in SIZES {
        let events = if is_bench { events } else { events / 100 };
        let mut results = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            let demanded = events_per_s(Way::OnDemand, size, events).await?;
            results[0].push(demanded);
            results[1].push(events_per_s(Way::Push, size, events).await? / demanded);
            results[2].push(events_per_s(Way::PushMany, size, events).await? / demanded);
        }
        let [demanded, push, many] = results.map(median);
        println!("{:>9} {demanded:>13.0} {push:>11.3} {many:>11.3}", Bytes::new(size).to_string());
    }
    Ok(())
}

/// Builds that many events and returns the events per second.
async fn events_per_s(way: Way, size: u64, events: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let size = Bytes::new(size);
    let generator = move |id| Generator::new(id, FragmentSize::Fixed(size), size, 1);
    let system = LocalSystem::new(EACH, EACH)
        .events(events)
        .fragments_of(size)
        .with_sources(|config| config.backlog = BACKLOG);
    let (run, threads) = match way {
        Way::OnDemand => (system.start_on_demand(generator, |_| NullSink).await?, Vec::new()),
        Way::Push | Way::PushMany => {
            let run = system.start(|_| NullSink).await?;
            let threads = push_all(&run, way, events, generator);
            (run, threads)
        }
    };
    let report = tokio::time::timeout(TIME_LIMIT, run.finished()).await??;
    for thread in threads {
        thread.join().map_err(|_| "a readout thread panicked")?;
    }
    if report.events.complete != events {
        return Err(format!("{way:?}, {size}: {}", report.verdict).into());
    }
    Ok(report.rates.events_per_s)
}

/// Starts one thread per source, which pushes the source's fragments of all events.
fn push_all(
    run: &LocalRun,
    way: Way,
    events: u64,
    generator: impl Fn(SourceId) -> Generator,
) -> Vec<thread::JoinHandle<()>> {
    let push_from = |(source, id): (&Source, u16)| {
        let (source, mut readout) = (source.blocking(), generator(SourceId::new(id)));
        thread::spawn(move || {
            let mut fragments = (1..=events).filter_map(|event| readout.fragment(EventId::new(event)));
            match way {
                Way::OnDemand | Way::Push => fragments.try_for_each(|each| source.push(each)).unwrap_or(()),
                Way::PushMany => {
                    let mut many = Vec::with_capacity(MANY);
                    loop {
                        many.extend(fragments.by_ref().take(MANY));
                        if many.is_empty() || source.push_many(&mut many).is_err() {
                            return;
                        }
                    }
                }
            }
        })
    };
    run.sources().iter().zip(1..).map(push_from).collect()
}

fn asked_rounds() -> Option<usize> {
    std::env::args().skip_while(|argument| argument != "--rounds").nth(1)?.parse().ok()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
