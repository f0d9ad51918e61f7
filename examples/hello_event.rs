//! Two sources, a builder and a supervisor in one process: three events, from push to print.
//!
//!     cargo run --example hello_event

use evb::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let run = LocalSystem::new(2, 1).events(3).start(|_| FnSink(print)).await?;
    for (source, name) in run.sources().iter().zip(["tracker", "calorimeter"]) {
        for event in (1..=3).map(EventId::new) {
            let data = format!("{name} data of {event}");
            source.push(Fragment::new(event, Timestamp::new(0), data)).await?;
        }
    }
    println!("{}", run.finished().await?.verdict);
    Ok(())
}

fn print(event: &Event) -> Result<(), SinkError> {
    let texts = event.fragments().map(|fragment| String::from_utf8_lossy(fragment.payload).into_owned());
    println!("event {}: {}", event.id, texts.collect::<Vec<_>>().join(" + "));
    Ok(())
}
