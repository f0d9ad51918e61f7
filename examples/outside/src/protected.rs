//! A run over UDP with the features of a real system: a key, traffic classes, paces, a sink and a
//! filter.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use evb::{
    filter::{Filter, FilterVerdict},
    network::{TrafficClass, Transport},
    prelude::*,
    security::{PresharedKey, Security},
    shaping::{ByteMeasure, CELL, LinkPlan, Pace, PacketCost},
    sink::RunFacts,
    source::PacingConfig,
};

const EVENTS: u64 = 2000;
/// Size of a fragment, in bytes.
const SIZE: usize = 2000;
/// Rate of each source's link, and its parts for data and for control.
const LINK: Rate = Rate::from_bits_per_second(2_000_000_000);
const DATA: Rate = Rate::from_bits_per_second(1_900_000_000);

/// Sink that adds up the payload of accepted events.
struct Sum {
    bytes: Arc<AtomicU64>,
    /// Bytes since the last commit.
    pending: u64,
}

impl Sink for Sum {
    async fn begin(&mut self, run: &RunFacts) -> Result<(), SinkError> {
        println!("builder {} begins run {} of {} sources", run.builder, run.run, run.sources.len());
        Ok(())
    }

    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        self.pending += event.payload_size().count();
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), SinkError> {
        self.bytes.fetch_add(std::mem::take(&mut self.pending), Relaxed);
        Ok(())
    }
}

/// Rejects every tenth event.
struct NineInTen;

impl Filter for NineInTen {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        if event.id.number() % 10 == 0 { FilterVerdict::Reject } else { FilterVerdict::Accept }
    }
}

/// Builds [`EVENTS`] events of two sources, and describes the result.
pub async fn run() -> Result<String, Box<dyn Error>> {
    let security = Security::Psk(PresharedKey::generate()?);
    let control = TrafficClass { dscp: Some(46), priority: None };
    let (ids, builder) = ([1, 2].map(SourceId::new), BuilderId::new(1));
    let epoch = SupervisorConfig::fresh_epoch();
    let mut plan = RunPlan::new(RunNumber::new(7), epoch, ids.to_vec(), vec![builder]);
    plan.events = Some(EVENTS);
    // The sources push faster than a busy host builds: no fragment may expire before its trigger.
    plan.orphan_timeout = Duration::from_secs(600);
    let mut config = SupervisorConfig::new("127.0.0.1:0", plan);
    (config.security, config.control) = (security.clone(), control);
    let supervisor = Supervisor::start(config).await?;
    let address = supervisor.address().to_string();

    let bytes = Arc::new(AtomicU64::new(0));
    let mut config = BuilderConfig::new(builder, &address);
    (config.transport, config.control, config.security) = (Transport::Udp, control, security.clone());
    let sink = Sum { bytes: Arc::clone(&bytes), pending: 0 };
    Builder::connect_filtered(config, NineInTen, sink).await?;

    let mut sources = Vec::new();
    for id in ids {
        let mut config = SourceConfig::new(id, &address);
        (config.transport, config.control, config.security) = (Transport::Udp, control, security.clone());
        config.pacing = pacing(config.mtu)?;
        sources.push(Source::connect(config).await?);
    }
    let blocking = sources[1].blocking();
    let readout = thread::spawn(move || push_blocking(&blocking));
    push_async(&sources[0]).await?;
    readout.join().map_err(|_| "the readout thread panicked")??;

    let report = supervisor.finished().await?;
    let events = report.events;
    let (accepted, rejected) = (EVENTS - EVENTS / 10, EVENTS / 10);
    if (events.complete, events.rejected) != (accepted, rejected) {
        // The report names what went wrong at which source or builder.
        return Err(format!("{} complete, {} rejected:\n{report}", events.complete, events.rejected).into());
    }
    let expected = accepted * 2 * SIZE as u64;
    if bytes.load(Relaxed) != expected {
        return Err(format!("the sink has {} of {expected} bytes", bytes.load(Relaxed)).into());
    }
    Ok(format!("{accepted} events accepted, {rejected} rejected, {}", Bytes::new(expected)))
}

/// Returns a pace of 1.9 Gbit/s for data on a link of 2 Gbit/s; the rest of the link is kept for
/// control.
fn pacing(mtu: u32) -> Result<PacingConfig, Box<dyn Error>> {
    let cost = PacketCost::udp(mtu, CELL);
    let pace = |rate| Pace::usual(rate, ByteMeasure::Line, &cost, None);
    Ok(PacingConfig { lane: Some(pace(DATA)), link: LinkPlan::new(pace(LINK)), ..PacingConfig::default() })
}

fn fragment(event: u64) -> Fragment {
    Fragment::new(EventId::new(event), Timestamp::new(event * 1000), vec![event as u8; SIZE])
}

/// Pushes from an async task: one fragment with a permit, the next without.
async fn push_async(source: &Source) -> Result<(), PushError> {
    for event in (1..=EVENTS).step_by(2) {
        let permit = source.reserve(Bytes::new(SIZE as u64)).await?;
        permit.push(fragment(event));
        if event < EVENTS {
            source.push(fragment(event + 1)).await?;
        }
    }
    Ok(())
}

/// Pushes from a thread, many fragments at a time.
fn push_blocking(source: &BlockingSource) -> Result<(), PushError> {
    let mut fragments = Vec::new();
    for event in 1..=EVENTS {
        fragments.push(fragment(event));
        if fragments.len() == 100 {
            source.push_many(&mut fragments)?;
        }
    }
    source.push_many(&mut fragments)
}
