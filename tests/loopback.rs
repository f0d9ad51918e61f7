//! Whole systems over loopback, in one process: every event is built once, byte for byte, and the
//! ledger closes.

mod support;
#[path = "loopback/announced.rs"]
mod announced;
#[path = "loopback/counters.rs"]
mod counters;

use std::time::Duration;

use evb::{
    builder::{Builder, BuilderConfig},
    filter::{FilterVerdict, Prescale},
    fragment::{Fragment, Timestamp},
    id::{BuilderId, EventId, SourceId},
    sink::NullSink,
    source::{PushError, Source, SourceConfig},
    supervisor::TriggerKind,
    units::{Bytes, Frequency},
};
use support::{assert_exact, begin, content, patient, plan, start};

#[tokio::test]
async fn builds_small_and_large_fragments_exactly() {
    for (sources, builders, length, events) in
        [(1, 1, 0, 300), (4, 2, 1000, 2000), (3, 3, 20_000, 500), (2, 1, 700_000, 60)]
    {
        let system = start(patient(plan(sources, builders, events)), length).await;
        let (built, report) = system.finish().await;
        assert_eq!(built.len() as u64, events, "{:?}", report.problems);
        assert_exact(&built, sources, length);
        assert_eq!(report.exit_code, 0, "{}", report.verdict);
        assert_eq!(report.events.open(), Some(0));
        assert_eq!((report.events.complete, report.events.written), (events, events));
        let committed: u64 = report.sources.iter().map(|source| source.committed).sum();
        assert_eq!(committed, events * u64::from(sources), "sources forget what is safe, and only that");
    }
}

#[tokio::test]
async fn a_readout_thread_pushes_and_feels_the_backlog() {
    let mut system = begin(plan(1, 1, 50)).await;
    let max_fragment = Bytes::new(11_000);
    let address = &system.address;
    let config = SourceConfig {
        backlog: Bytes::kib(64),
        max_fragment,
        ..SourceConfig::new(SourceId::new(1), address)
    };
    let source = Source::connect(config).await.expect("the source joins");
    let readout = source.blocking();
    let thread = std::thread::spawn(move || {
        for number in 1..=50 {
            let event = EventId::new(number);
            let payload = content(SourceId::new(1), event, 10_000 + number as usize % 97);
            readout.push(Fragment::new(event, Timestamp::new(number), payload)).expect("the run is on");
        }
    });
    system.sources.push(source);
    let (built, report) = system.finish().await;
    thread.join().expect("readout does not panic");
    assert_exact(&built, 1, 10_000);
    assert_eq!(report.exit_code, 0, "{}", report.verdict);
    assert!(report.sources[0].backlog_peak_bytes <= 64 * 1024, "{}", report.sources[0].backlog_peak_bytes);
}

#[tokio::test]
async fn a_push_that_cannot_be_right_is_refused() {
    let system = begin(plan(1, 1, 1)).await;
    let config = SourceConfig {
        max_fragment: Bytes::new(100),
        ..SourceConfig::new(SourceId::new(1), &system.address)
    };
    let source = Source::connect(config).await.expect("the source joins");
    let push = |event, length| {
        source.push(Fragment::new(EventId::new(event), Timestamp::default(), vec![0; length]))
    };
    for (event, length) in [(0, 10), (1, 101), (u64::MAX, 10)] {
        assert!(
            matches!(push(event, length).await, Err(PushError::Refused(_))),
            "event {event}, {length} bytes"
        );
    }
    push(1, 100).await.expect("this one is right");
    let (built, report) = system.finish().await;
    assert_eq!((built.len(), report.exit_code), (1, 0), "{}", report.verdict);
    source.finished().await.expect("the run ended well");
    assert!(matches!(push(2, 1).await, Err(PushError::Ended)));
}

#[tokio::test]
async fn who_cannot_join_is_told_why() {
    let system = begin(plan(1, 1, 1)).await;
    let stranger = Source::connect(SourceConfig::new(SourceId::new(9), &system.address)).await;
    let said = stranger.expect_err("a refusal").to_string();
    assert!(said.contains("source 9"), "{said}");
    let taken = system.builders[0].address().to_string();
    let config =
        BuilderConfig { listen: taken.clone(), ..BuilderConfig::new(BuilderId::new(1), &system.address) };
    let said = Builder::connect(config, NullSink).await.expect_err("its port is taken").to_string();
    assert!(said.contains(&taken), "{said}");
}

#[tokio::test]
async fn an_event_that_misses_a_fragment_names_the_source() {
    let plan = evb::supervisor::RunPlan { deadline: Duration::from_millis(300), ..plan(2, 1, 20) };
    let mut system = begin(plan).await;
    for id in [1, 2] {
        let source_id = SourceId::new(id);
        let source =
            Source::connect(SourceConfig::new(source_id, &system.address)).await.expect("the source joins");
        for number in (1..=20).filter(|number| id == 1 || number % 5 != 0) {
            let event = EventId::new(number);
            let payload = content(source_id, event, 100);
            source.push(Fragment::new(event, Timestamp::default(), payload)).await.expect("the run is on");
        }
        system.sources.push(source);
    }
    let (built, report) = system.finish().await;
    let incomplete: Vec<_> = built.iter().filter(|event| !event.is_complete()).collect();
    assert_eq!(incomplete.iter().map(|event| event.id.number()).collect::<Vec<_>>(), [5, 10, 15, 20]);
    assert!(incomplete.iter().all(|event| event.missing_sources().eq([SourceId::new(2)])));
    assert_eq!((report.events.complete, report.events.incomplete, report.exit_code), (16, 4, 1));
    assert_eq!(report.sources[1].missing, 4);
    assert_eq!(report.events.open(), Some(0));
}

#[tokio::test]
async fn a_filter_rejects_and_the_ledger_counts() {
    let mut run = plan(1, 1, 100);
    let builders = std::mem::take(&mut run.builders);
    // The test starts the builder itself, because the builder has a filter.
    run.builders = builders;
    let supervisor =
        evb::supervisor::Supervisor::bind(evb::supervisor::SupervisorConfig::new("127.0.0.1:0", run))
            .await
            .expect("loopback has a port");
    let address = supervisor.address().to_string();
    let run = tokio::spawn(supervisor.run());
    let mut prescale = Prescale::new(10);
    let filter = move |event: &evb::event::Event| -> FilterVerdict {
        evb::filter::Filter::verdict(&mut prescale, event)
    };
    let builder =
        Builder::connect_filtered(BuilderConfig::new(BuilderId::new(1), &address), filter, NullSink);
    let builder = builder.await.expect("the builder joins");
    let readout = support::Numbers { source: SourceId::new(1), length: 10 };
    let source = Source::on_demand(SourceConfig::new(SourceId::new(1), &address), readout).await;
    let source = source.expect("the source joins");
    let report = run.await.expect("no panic").expect("the run ends");
    assert_eq!(
        (report.events.complete, report.events.rejected, report.exit_code),
        (10, 90, 0),
        "{}",
        report.verdict
    );
    assert_eq!(report.events.open(), Some(0));
    assert_eq!(builder.finished().await.expect("a normal end").exit_code, 0);
    assert_eq!(source.finished().await.expect("a normal end").exit_code, 0);
}

#[tokio::test]
async fn triggers_beyond_the_slots_are_dead_time() {
    let rate = Frequency::from_hertz(200_000.0).expect("that is a rate");
    let plan =
        evb::supervisor::RunPlan { trigger: TriggerKind::Periodic { rate }, slots: 2, ..plan(2, 1, 500) };
    let (built, report) = start(plan, 1000).await.finish().await;
    assert_eq!(built.len(), 500);
    assert!(report.events.inhibited > 0, "{:?}", report.events);
    assert_eq!(report.events.triggered, report.events.inhibited + 500);
    assert!(report.dead_time_fraction > 0.0 && report.busy_fraction > 0.0);
    assert_eq!(report.exit_code, 0, "{}", report.verdict);
}

#[tokio::test]
async fn a_stop_drains() {
    let system = start(plan(2, 2, u64::MAX), 5000).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    system.sources[0].request_run_end("enough");
    let (built, report) = system.finish().await;
    assert!(!built.is_empty());
    assert_exact(&built, 2, 5000);
    assert_eq!(report.exit_code, 0, "{}", report.verdict);
    assert_eq!(report.events.assigned, built.len() as u64);
}

#[tokio::test]
async fn an_event_alone_does_not_wait_for_the_next() {
    let rate = Frequency::from_hertz(10.0).expect("that is a rate");
    let plan = evb::supervisor::RunPlan { trigger: TriggerKind::Periodic { rate }, ..plan(3, 2, 10) };
    let (built, report) = start(plan, 1000).await.finish().await;
    assert_eq!(built.len(), 10);
    // If a wake-up were lost, the latency would be the 100 ms to the next trigger; a busy machine
    // costs less than half of that.
    assert!(report.build_latency_us.p50 < 50_000, "{:?}", report.build_latency_us);
}
