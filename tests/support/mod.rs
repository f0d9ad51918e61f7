//! A whole system in one process, for tests.

#![allow(unreachable_pub, reason = "shared by several test programs")]

use std::time::Duration;

use evb::{
    Security,
    builder::{Builder, BuilderConfig},
    event::Event,
    fragment::{Fragment, Timestamp},
    id::{BuilderId, EventId, RunNumber, SourceId},
    ledger::RunReport,
    sink::{ChannelSink, EventReceiver},
    source::{Readout, Source, SourceConfig},
    supervisor::{RunPlan, Supervisor, SupervisorConfig, SupervisorHandle},
};
use evb_net::pacing::Transport;
use tokio::task::JoinHandle;

/// A running system.
pub struct System {
    /// Handle that gives triggers and ends the run.
    #[allow(dead_code, reason = "not every test program asks for it")]
    pub supervisor: SupervisorHandle,
    pub address: String,
    pub sources: Vec<Source>,
    pub builders: Vec<Builder>,
    pub events: Vec<EventReceiver>,
    pub run: JoinHandle<RunReport>,
}

/// Readout of fragments whose content depends on source and event.
pub struct Numbers {
    pub source: SourceId,
    pub length: usize,
}

/// Returns the content of a fragment, which depends on source and event.
pub fn content(source: SourceId, event: EventId, length: usize) -> Vec<u8> {
    let seed = event.number().wrapping_mul(31).wrapping_add(source.number().into());
    (0..length as u64).map(|at| (seed.wrapping_add(at) % 251) as u8).collect()
}

impl Readout for Numbers {
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        let length = self.length + event.number() as usize % 97;
        Some(Fragment::new(event, Timestamp::new(event.number()), content(self.source, event, length)))
    }
}

/// Returns a plan with that many sources and builders, ids from 1.
#[allow(dead_code, reason = "not every test program asks for it")]
pub fn plan(sources: u16, builders: u16, events: u64) -> RunPlan {
    RunPlan {
        events: Some(events),
        start_timeout: Duration::from_secs(10),
        ..RunPlan::new(
            RunNumber::new(1),
            SupervisorConfig::fresh_epoch(),
            (1..=sources).map(SourceId::new).collect(),
            (1..=builders).map(BuilderId::new).collect(),
        )
    }
}

/// Returns the plan with long timeouts: if a compiler runs on the same machine, roles may get no
/// CPU time for seconds, and must not count as down.
#[allow(dead_code, reason = "not every test program asks for it")]
pub fn patient(plan: RunPlan) -> RunPlan {
    let patience = Duration::from_secs(30);
    RunPlan { deadline: patience, down_after: patience, give_up_after: patience * 2, ..plan }
}

/// Starts supervisor and builders; the caller starts the sources.
#[allow(dead_code, reason = "not every test program asks for it")]
pub async fn begin(plan: RunPlan) -> System {
    begin_over(Transport::Tcp, "127.0.0.1:0", plan).await
}

/// Starts supervisor and builders, with lanes over `transport` to builders that listen on `listen`.
pub async fn begin_over(transport: Transport, listen: &str, plan: RunPlan) -> System {
    begin_secured(transport, listen, &Security::None, plan).await
}

/// Starts supervisor and builders like `begin_over`, with peers that authenticate each other.
pub async fn begin_secured(transport: Transport, listen: &str, security: &Security, plan: RunPlan) -> System {
    let builders = plan.builders.clone();
    let config =
        SupervisorConfig { security: security.clone(), ..SupervisorConfig::new("127.0.0.1:0", plan) };
    let mut system = System::lead(config).await;
    for id in builders {
        let (sink, events) = ChannelSink::new(64);
        let config = BuilderConfig {
            transport,
            listen: listen.to_owned(),
            security: security.clone(),
            ..BuilderConfig::new(id, &system.address)
        };
        system.builders.push(Builder::connect(config, sink).await.expect("the builder joins"));
        system.events.push(events);
    }
    system
}

/// Starts a system whose sources make fragments of about the given length.
#[allow(dead_code, reason = "not every test program asks for it")]
pub async fn start(plan: RunPlan, length: usize) -> System {
    start_over(Transport::Tcp, "127.0.0.1:0", plan, length).await
}

/// Starts a system like `start`, with lanes over `transport` to builders that listen on `listen`.
#[allow(dead_code, reason = "not every test program asks for it")]
pub async fn start_over(transport: Transport, listen: &str, plan: RunPlan, length: usize) -> System {
    start_secured(transport, listen, &Security::None, plan, length).await
}

/// Starts a system like `start_over`, with peers that authenticate each other.
#[allow(dead_code, reason = "not every test program asks for it")]
pub async fn start_secured(
    transport: Transport,
    listen: &str,
    security: &Security,
    plan: RunPlan,
    length: usize,
) -> System {
    let sources = plan.sources.clone();
    let mut system = begin_secured(transport, listen, security, plan).await;
    for source in sources {
        let security = security.clone();
        let config = SourceConfig { transport, security, ..SourceConfig::new(source, &system.address) };
        let readout = Numbers { source, length };
        system.sources.push(Source::on_demand(config, readout).await.expect("the source joins"));
    }
    system
}

impl System {
    /// Starts a supervisor without any peers.
    pub async fn lead(config: SupervisorConfig) -> Self {
        let supervisor = Supervisor::bind(config).await.expect("loopback has a port");
        let address = supervisor.address().to_string();
        let handle = supervisor.handle();
        let run = tokio::spawn(async move { supervisor.run().await.expect("the supervisor leads the run") });
        Self::new(handle, address, run)
    }

    /// Creates a system from a supervisor that has no peers yet.
    pub fn new(supervisor: SupervisorHandle, address: String, run: JoinHandle<RunReport>) -> Self {
        Self { supervisor, address, sources: vec![], builders: vec![], events: vec![], run }
    }

    /// Receives all events until the run is over, and returns them with the report.
    pub async fn finish(self) -> (Vec<Event>, RunReport) {
        let mut all = Vec::new();
        let mut takers = tokio::task::JoinSet::new();
        for mut receiver in self.events {
            takers.spawn(async move {
                let mut events = Vec::new();
                while let Some(event) = receiver.recv().await {
                    events.push(event);
                }
                events
            });
        }
        let report = tokio::time::timeout(Duration::from_secs(60), self.run).await;
        let report = report.expect("the run ends").expect("the supervisor does not panic");
        while let Some(events) = takers.join_next().await {
            all.extend(events.expect("takers do not panic"));
        }
        all.sort_by_key(|event| event.id);
        (all, report)
    }
}

/// Asserts that every event from 1 on was built once, with all fragments as they were made.
#[allow(dead_code, reason = "not every test program asks for it")]
pub fn assert_exact(events: &[Event], sources: u16, length: usize) {
    assert_whole(events, sources, length);
    for (event, number) in events.iter().zip(1..) {
        assert_eq!(event.id, EventId::new(number));
    }
}

/// Asserts that no event was built twice, and that every event has all fragments as they were made.
/// On a busy machine, a timed trigger may be inhibited; then no event has its number.
#[allow(dead_code, reason = "not every test program asks for it")]
pub fn assert_whole(events: &[Event], sources: u16, length: usize) {
    assert!(events.is_sorted_by(|a, b| a.id < b.id), "an event was built twice");
    for event in events {
        let number = event.id.number();
        assert!(event.is_complete(), "event {number} misses {:?}", event.missing);
        assert_eq!(event.fragments().len(), usize::from(sources));
        for (fragment, id) in event.fragments().zip(1..) {
            assert_eq!(fragment.source, SourceId::new(id));
            let length = length + number as usize % 97;
            assert!(
                fragment.payload == content(fragment.source, event.id, length),
                "event {number}, source {id}"
            );
        }
    }
}
