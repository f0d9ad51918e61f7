//! Two sources, a builder and a supervisor in one process: three events, from push to print.
//!
//!     cargo run --example hello_event

use evb::builder::{Builder, BuilderConfig};
use evb::event::Event;
use evb::fragment::{Fragment, Timestamp};
use evb::id::{BuilderId, EventId, RunNumber, SourceId};
use evb::sink::FnSink;
use evb::source::{Source, SourceConfig};
use evb::supervisor::{RunPlan, Supervisor, SupervisorConfig};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (sources, builder) = ([1, 2].map(SourceId::new), BuilderId::new(1));
    let epoch = SupervisorConfig::fresh_epoch();
    let plan = RunPlan::new(RunNumber::new(1), epoch, sources.to_vec(), vec![builder]);
    let plan = RunPlan { events: Some(3), ..plan };
    let supervisor = Supervisor::bind(SupervisorConfig::new("127.0.0.1:0", plan)).await?;
    let address = supervisor.addr().to_string();
    let run = tokio::spawn(supervisor.run());

    let print = FnSink(|event: &Event| {
        let texts = event.fragments().map(|fragment| String::from_utf8_lossy(fragment.payload).into_owned());
        println!("event {}: {}", event.id, texts.collect::<Vec<_>>().join(" + "));
        Ok(())
    });
    Builder::connect(BuilderConfig::new(builder, &address), print).await?;
    for id in sources {
        let source = Source::connect(SourceConfig::new(id, &address)).await?;
        for event in (1..=3).map(EventId::new) {
            let data = format!("source {id}'s part of {event}");
            source.push(Fragment::new(event, Timestamp::new(0), data)).await?;
        }
    }
    println!("{}", run.await??.verdict);
    Ok(())
}
