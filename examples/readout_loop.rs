//! Readout in threads of its own without async: read the digitizer, push, read the next.
//!
//! While the event builder is behind, `push` blocks: that is the back-pressure, and the digitizer's
//! own buffer fills. If readout is a process of its own, leave out supervisor and builder, and give
//! the supervisor's address to the source.
//!
//!     cargo run --release --example readout_loop

use std::{thread, time::Duration};

use evb::{
    builder::{Builder, BuilderConfig},
    fragment::{Fragment, Timestamp},
    id::{BuilderId, EventId, RunNumber, SourceId},
    sink::NullSink,
    source::{BlockingSource, PushError, Source, SourceConfig},
    supervisor::{RunPlan, Supervisor, SupervisorConfig},
};

/// A substitute for hardware: 256 samples of 16 bits every 200 µs.
struct Digitizer {
    event: EventId,
}

impl Digitizer {
    /// Blocks until the digitizer has data. Returns the event, the time at which the data were
    /// taken, and the samples.
    fn read(&mut self) -> (EventId, Timestamp, Vec<u8>) {
        thread::sleep(Duration::from_micros(200));
        self.event = self.event.next();
        let baseline = (self.event.number() % 16) as u16;
        let samples = (0..256_u16).flat_map(|sample| (baseline + sample % 7).to_le_bytes()).collect();
        (self.event, Timestamp::new(self.event.number() * 200_000), samples)
    }
}

/// Runs in each readout thread; returns the number of fragments that it has pushed.
fn readout(source: BlockingSource) -> Result<u64, PushError> {
    let mut digitizer = Digitizer { event: EventId::new(0) };
    loop {
        let (event, timestamp, samples) = digitizer.read();
        match source.push(Fragment::new(event, timestamp, samples)) {
            Ok(()) => {}
            Err(PushError::Ended) => return Ok(event.number() - 1),
            Err(error) => return Err(error),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (sources, builder) = ([1, 2, 3].map(SourceId::new), BuilderId::new(1));
    let epoch = SupervisorConfig::fresh_epoch();
    let plan = RunPlan::new(RunNumber::new(1), epoch, sources.to_vec(), vec![builder]);
    let plan = RunPlan { events: Some(5000), ..plan };
    let supervisor = Supervisor::bind(SupervisorConfig::new("127.0.0.1:0", plan)).await?;
    let address = supervisor.address().to_string();
    let run = tokio::spawn(supervisor.run());

    Builder::connect(BuilderConfig::new(builder, &address), NullSink).await?;
    let mut threads = Vec::new();
    for id in sources {
        let source = Source::connect(SourceConfig::new(id, &address)).await?.blocking();
        threads.push((id, thread::Builder::new().name(format!("readout {id}")).spawn(|| readout(source))?));
    }

    let report = run.await??;
    println!("{}, {:.0} events/s", report.verdict, report.rates.events_per_s);
    for (id, thread) in threads {
        let pushed = thread.join().map_err(|_| "a readout thread panicked")??;
        println!("source {id} pushed {pushed} fragments");
    }
    Ok(())
}
