//! Faults in whole systems over loopback: peers that are cut off register again, and no event is
//! lost. Tests mostly wait for leases to end, so the systems of one test run at the same time.

mod support;
#[path = "support/cable.rs"]
mod cable;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cable::Cable;
use evb::{
    builder::{Builder, BuilderConfig},
    event::Event,
    id::{BuilderId, SourceId},
    sink::{ChannelSink, FnSink},
    source::{Source, SourceConfig},
    supervisor::{RunPlan, SourceLoss, SupervisorConfig, TriggerKind},
    units::Frequency,
};
use evb_net::pacing::Transport;
use support::{Numbers, System, content, plan};
use tokio::{join, task::JoinHandle, time::sleep};

const LENGTH: usize = 700;

/// Starts a system in which peers reach the supervisor through cables.
async fn cabled(plan: RunPlan, transport: Transport) -> (System, Vec<Cable>, Vec<Cable>) {
    let (sources, builders) = (plan.sources.clone(), plan.builders.clone());
    let mut system = System::lead(SupervisorConfig::new("127.0.0.1:0", plan)).await;
    let address = system.address.parse().expect("an address");
    let (mut of_sources, mut of_builders) = (vec![], vec![]);
    for id in builders {
        let cable = Cable::to(address).await;
        let (sink, events) = ChannelSink::new(64);
        let config = BuilderConfig { transport, ..BuilderConfig::new(id, cable.address.to_string()) };
        system.builders.push(Builder::connect(config, sink).await.expect("the builder joins"));
        system.events.push(events);
        of_builders.push(cable);
    }
    for source in sources {
        let cable = Cable::to(address).await;
        let config = SourceConfig { transport, ..SourceConfig::new(source, cable.address.to_string()) };
        let readout = Numbers { source, length: LENGTH };
        system.sources.push(Source::on_demand(config, readout).await.expect("the source joins"));
        of_sources.push(cable);
    }
    (system, of_sources, of_builders)
}

/// Asserts that every fragment has the content with which it was made.
fn assert_bytes(event: &Event) {
    for fragment in event.fragments() {
        let length = LENGTH + event.id.number() as usize % 97;
        assert!(fragment.payload == content(fragment.source, event.id, length), "event {}", event.id);
    }
}

/// Asserts that `built` holds `count` events, all complete. An event may be built twice under two
/// epochs; then the later one counts.
fn assert_all_once(mut built: Vec<Event>, count: usize) {
    built.sort_by_key(|event| (event.id, core::cmp::Reverse(event.epoch)));
    built.dedup_by(|later, first| later.id == first.id && later.epoch < first.epoch);
    assert_eq!(built.len(), count);
    assert!(built.is_sorted_by(|a, b| a.id < b.id), "built twice in one epoch");
    assert!(built.iter().all(|event| event.is_complete() && event.fragments().len() == 2));
    built.iter().for_each(assert_bytes);
}

fn at(rate: f64, plan: RunPlan) -> RunPlan {
    let rate = Frequency::from_hertz(rate).expect("that is a rate");
    RunPlan { trigger: TriggerKind::Periodic { rate }, patience: Duration::from_secs(8), ..plan }
}

/// Cuts a cable one second from now, and mends the same cable `millis` milliseconds later.
fn cut_for(cable: &Cable, millis: u64) -> JoinHandle<Cable> {
    let cable = cable.clone();
    tokio::spawn(async move {
        sleep(Duration::from_millis(1000)).await;
        cable.cut();
        sleep(Duration::from_millis(millis)).await;
        cable.mend();
        cable
    })
}

/// docs/reference/protocol.md CONN-18, RUN-20, RUN-31: a builder that is without its supervisor for
/// less than two leases goes on; after a longer time it rejoins, and other builders build its
/// events. No event is lost, and the ledger counts none twice.
#[tokio::test]
async fn a_builder_that_is_cut_from_the_supervisor_loses_nothing() {
    let course = async |transport, cut| {
        let plan = at(400.0, plan(2, 2, 3000));
        let (system, _, builders) = cabled(plan, transport).await;
        let cutting = cut_for(&builders[0], cut);
        let (built, report) = system.finish().await;
        let cable = cutting.await.expect("no panic");
        assert_eq!(report.events.lost, 0, "{:?} {:?}", report.events, report.problems);
        assert_eq!(report.events.complete, 3000, "{:?} {:?}", report.events, report.problems);
        assert_eq!(report.events.open(), Some(0));
        assert_all_once(built, 3000);
        assert!(cut < 2000 || cable.connections() > 1, "the peer registered again");
    };
    join!(course(Transport::Tcp, 3000), course(Transport::Udp, 3000), course(Transport::Tcp, 1200));
}

/// docs/reference/protocol.md CONN-18, RUN-35: a source that is cut off keeps its fragments; events
/// of this time have its fragment or name the source as missing.
#[tokio::test]
async fn a_source_that_is_cut_from_the_supervisor_comes_back() {
    let course = async |transport| {
        let plan = at(400.0, plan(3, 2, 3000));
        let (system, sources, _) = cabled(plan, transport).await;
        let cutting = cut_for(&sources[1], 3000);
        let (built, report) = system.finish().await;
        let cable = cutting.await.expect("no panic");
        assert_eq!(built.len(), 3000, "{:?} {:?}", report.events, report.problems);
        assert_eq!((report.events.lost, report.events.open()), (0, Some(0)), "{:?}", report.problems);
        for event in &built {
            let lacks: Vec<_> =
                (1..=3).map(SourceId::new).filter(|id| event.fragment(*id).is_none()).collect();
            assert!(event.missing_sources().eq(lacks.iter().copied()), "{}: {lacks:?}", event.id);
            assert!(lacks.iter().all(|source| *source == SourceId::new(2)), "{}: {lacks:?}", event.id);
        }
        let incomplete = built.iter().filter(|event| event.fragments().len() < 3).count() as u64;
        assert_eq!((report.events.incomplete, report.sources[1].missing), (incomplete, incomplete));
        let last = &built[2900..];
        assert!(last.iter().all(|event| event.is_complete()), "it is expected again: {:?}", report.problems);
        assert!(cable.connections() > 1, "the peer registered again");
    };
    join!(course(Transport::Tcp), course(Transport::Udp));
}

/// docs/reference/protocol.md RUN-34, LANE-24: a source that ends and comes back as another process
/// during the run; a builder that does the same, and a builder that joins.
#[tokio::test]
async fn a_source_that_starts_in_mid_run_is_expected_from_then_on() {
    let course = async |transport| {
        let plan = at(400.0, plan(2, 2, 3000));
        let (mut system, sources, _) = cabled(plan, transport).await;
        let (address, cable) = (system.address.clone(), sources[1].clone());
        let replacing = tokio::spawn(async move {
            sleep(Duration::from_millis(1000)).await;
            // The supervisor takes the cut-off process for dead, so another process may register as
            // the same source.
            cable.cut();
            sleep(Duration::from_millis(1500)).await;
            let config = SourceConfig { transport, ..SourceConfig::new(SourceId::new(2), address) };
            let readout = Numbers { source: SourceId::new(2), length: LENGTH };
            Source::on_demand(config, readout).await.expect("the successor joins")
        });
        system.sources.truncate(1);
        let (built, report) = system.finish().await;
        let _successor = replacing.await.expect("no panic");
        assert_eq!(built.len(), 3000, "{:?} {:?}", report.events, report.problems);
        assert_eq!((report.events.lost, report.events.open()), (0, Some(0)), "{:?}", report.problems);
        let incomplete = built.iter().filter(|event| event.fragments().len() < 2).count();
        assert_eq!(report.events.incomplete, incomplete as u64, "{:?}", report.problems);
        assert!(incomplete > 0 && incomplete < 1500, "{incomplete}");
        assert!(built[2900..].iter().all(|event| event.is_complete()), "{:?}", report.problems);
        built.iter().for_each(assert_bytes);
    };
    join!(course(Transport::Tcp), course(Transport::Udp));
}

#[tokio::test]
async fn a_builder_that_is_replaced_loses_nothing() {
    let course = async |transport| {
        let plan = at(400.0, plan(2, 2, 2000));
        let (mut system, _, builders) = cabled(plan, transport).await;
        let (address, cable) = (system.address.clone(), builders[1].clone());
        let (sink, events) = ChannelSink::new(64);
        system.events.push(events);
        let replacing = tokio::spawn(async move {
            sleep(Duration::from_millis(1000)).await;
            cable.cut();
            sleep(Duration::from_millis(500)).await;
            // The lease of the old builder is not over yet, so the new builder tries again until it
            // is.
            let config = BuilderConfig { transport, ..BuilderConfig::new(BuilderId::new(2), address) };
            Builder::connect(config, sink).await.expect("the successor joins")
        });
        let (built, report) = system.finish().await;
        let _successor = replacing.await.expect("no panic");
        assert_eq!((report.events.lost, report.events.complete), (0, 2000), "{:?}", report.problems);
        assert_all_once(built, 2000);
    };
    join!(course(Transport::Tcp), course(Transport::Udp));
}

/// `on_source_loss = "wait"`: no event is built without the source that is away, and no event is
/// lost.
#[tokio::test]
async fn a_source_that_is_waited_for_is_in_every_event() {
    let course = async |transport| {
        let plan = RunPlan { on_source_loss: SourceLoss::Wait, ..at(400.0, plan(2, 2, 1500)) };
        let (system, sources, _) = cabled(plan, transport).await;
        let cutting = cut_for(&sources[1], 3000);
        let (built, report) = system.finish().await;
        let cable = cutting.await.expect("no panic");
        assert!(cable.connections() > 1, "the peer registered again");
        let events = report.events;
        assert_eq!((events.complete, events.incomplete, events.lost), (1500, 0, 0), "{:?}", report.problems);
        assert_all_once(built, 1500);
    };
    join!(course(Transport::Tcp), course(Transport::Udp));
}

/// A sink that panics ends its builder. Another builder builds the events of that builder, and no
/// event goes into the sink that is gone.
#[tokio::test]
async fn a_sink_that_panics_costs_its_builder_and_no_event() {
    let mut system = System::lead(SupervisorConfig::new("127.0.0.1:0", at(400.0, plan(2, 2, 1500)))).await;
    let address = system.address.clone();
    let (sink, events) = ChannelSink::new(64);
    let config = BuilderConfig::new(BuilderId::new(1), &address);
    system.builders.push(Builder::connect(config, sink).await.expect("the builder joins"));
    system.events.push(events);
    let (mut seen, kept) = (0, Arc::new(AtomicU64::new(0)));
    let keep = Arc::clone(&kept);
    let sink = FnSink(move |_: &Event| {
        seen += 1;
        assert!(seen <= 100, "this sink has had enough");
        keep.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let config = BuilderConfig::new(BuilderId::new(2), &address);
    system.builders.push(Builder::connect(config, sink).await.expect("the builder joins"));
    for source in [1, 2].map(SourceId::new) {
        let readout = Numbers { source, length: LENGTH };
        let source = Source::on_demand(SourceConfig::new(source, &address), readout).await;
        system.sources.push(source.expect("the source joins"));
    }
    let (built, report) = system.finish().await;
    assert_eq!(kept.load(Ordering::Relaxed), 100);
    assert_eq!((report.events.lost, report.events.complete), (0, 1500), "{:?}", report.problems);
    // Events that the panicking sink took without a report are built once more by the other
    // builder.
    assert!((1400..1500).contains(&built.len()), "{}", built.len());
}
