//! The effects on a run of dropping, aborting and cancelling its handles.

use std::{
    future::Future,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use evb::{
    prelude::*,
    role::RoleError,
    supervisor::{RunState, SupervisorError},
};

fn fragment(event: u64) -> Fragment {
    Fragment::new(EventId::new(event), Timestamp::new(0), vec![7; 1000])
}

async fn within<T>(seconds: u64, call: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(seconds), call).await.expect("an end in time")
}

/// Waits until all peers take part.
async fn begun(run: &LocalRun) {
    let mut progress = run.supervisor().progress();
    within(30, progress.wait_for(|now| now.state == RunState::Running)).await.expect("the run begins");
}

#[tokio::test]
async fn a_run_goes_on_without_its_handles() {
    let run = LocalSystem::new(2, 2).events(100).start(|_| NullSink).await.expect("the run starts");
    for source in run.sources() {
        for event in 1..=100 {
            source.push(fragment(event)).await.expect("the fragment is accepted");
        }
    }
    let supervisor = run.supervisor().clone();
    drop(run);
    let report = within(30, supervisor.finished()).await.expect("the ledger is closed");
    assert_eq!(report.events.complete, 100);
}

#[tokio::test]
async fn other_builders_build_what_an_aborted_one_had() {
    let run = LocalSystem::new(1, 2).events(400).start(|_| NullSink).await.expect("the run starts");
    let (source, builder) = (&run.sources()[0], &run.builders()[0]);
    for event in 1..=100 {
        source.push(fragment(event)).await.expect("the fragment is accepted");
    }
    begun(&run).await;
    builder.abort();
    let end = within(30, builder.finished()).await.expect_err("aborted");
    assert!(matches!(*end, RoleError::Aborted), "{end}");
    for event in 101..=400 {
        source.push(fragment(event)).await.expect("the fragment is accepted");
    }
    let report = within(60, run.finished()).await.expect("the ledger is closed");
    let events = report.events;
    // Events that the aborted builder's sink had accepted but not reported are built twice, and
    // counted once.
    assert_eq!((events.complete, events.lost), (400, 0), "{}", report.verdict);
}

#[tokio::test]
async fn a_run_goes_on_without_an_aborted_source() {
    let run = LocalSystem::new(2, 1)
        .events(50)
        .with_plan(|plan| plan.deadline = Duration::from_millis(200))
        .start(|_| NullSink)
        .await
        .expect("the run starts");
    begun(&run).await;
    run.sources()[1].abort();
    let end = within(30, run.sources()[1].finished()).await.expect_err("aborted");
    assert!(matches!(*end, RoleError::Aborted), "{end}");
    for event in 1..=50 {
        run.sources()[0].push(fragment(event)).await.expect("the fragment is accepted");
    }
    let report = within(60, run.finished()).await.expect("the ledger is closed");
    // No event has a fragment of the source, and none is complete, whenever it was assigned.
    let events = report.events;
    assert_eq!((events.complete, events.incomplete, events.lost), (0, 50, 0), "{}", report.verdict);
    assert!(report.verdict.contains("source 2 is missing in 50 events ("), "{}", report.verdict);
}

#[tokio::test]
async fn an_aborted_supervisor_closes_no_ledger() {
    let run = LocalSystem::new(1, 1)
        .with_plan(|plan| plan.patience = Duration::from_millis(300))
        .start(|_| NullSink)
        .await
        .expect("the run starts");
    run.supervisor().abort();
    let end = within(30, run.supervisor().finished()).await.expect_err("aborted");
    assert!(matches!(end, SupervisorError::Aborted), "{end}");
    for end in [within(30, run.builders()[0].finished()).await, within(30, run.sources()[0].finished()).await]
    {
        let end = end.expect_err("the supervisor is lost");
        assert!(matches!(*end, RoleError::Abandoned { .. }), "{end}");
    }
    let refused = run.sources()[0].push(fragment(1)).await;
    assert_eq!(refused, Err(PushError::Ended));
}

/// Calls are cancelled at random while a slow sink keeps the backlog full: every fragment that a
/// call has accepted is built, and every event is pushed again until a call accepts it.
#[tokio::test]
async fn who_declines_is_missed_with_the_reason() {
    let (sources, builders) = ([1, 2].map(SourceId::new).to_vec(), vec![BuilderId::new(1)]);
    let mut plan = RunPlan::new(RunNumber::new(1), SupervisorConfig::fresh_epoch(), sources, builders);
    plan.start_timeout = Duration::from_secs(2);
    let supervisor = Supervisor::start(SupervisorConfig::new("127.0.0.1:0", plan)).await.expect("it starts");
    let address = supervisor.address().to_string();
    let source = |id| SourceConfig::new(SourceId::new(id), &address);
    within(1, Source::decline(source(1), "its crate has no power")).await;
    within(1, Source::decline(source(2), "")).await;
    within(1, Builder::decline(BuilderConfig::new(BuilderId::new(1), &address), "x".repeat(1000))).await;
    let report = within(10, supervisor.finished()).await.expect("the ledger is closed");
    let named = format!(
        "source 1 (its crate has no power), source 2 (it gave no reason), builder 1 ({})",
        "x".repeat(500)
    );
    assert!(report.problems[0].contains(&named), "{:?}", report.problems);
}

#[tokio::test]
async fn what_cancelled_calls_have_taken_is_built() {
    const EVENTS: u64 = 3000;
    let slow = |_: &Event| {
        std::thread::sleep(Duration::from_micros(50));
        Ok(())
    };
    let run = LocalSystem::new(1, 1)
        .events(EVENTS)
        .with_plan(|plan| plan.slots = 16)
        .with_sources(|config| (config.max_fragment, config.backlog) = (Bytes::new(1000), Bytes::kib(20)))
        .start(|_| FnSink(slow))
        .await
        .expect("the run starts");
    let source = &run.sources()[0];
    let (mut event, mut cancelled, mut turn) = (1, 0_u32, 0_u32);
    let started = Instant::now();
    while event <= EVENTS {
        assert!(started.elapsed() < Duration::from_secs(60), "at event {event}");
        turn += 1;
        let polls = turn % 3;
        let taken = match turn % 2 {
            0 => cancel_after(polls, source.push(fragment(event))).await.map(Result::unwrap),
            _ => cancel_after(polls, source.reserve(Bytes::new(1000)))
                .await
                .map(|permit| permit.unwrap().push(fragment(event))),
        };
        match taken {
            Some(()) => event += 1,
            None => cancelled += 1,
        }
    }
    let report = within(60, run.finished()).await.expect("the ledger is closed");
    assert_eq!(report.events.complete, EVENTS, "{}", report.verdict);
    assert!(cancelled > 1000, "only {cancelled} calls were cancelled");
}

/// Polls a call up to `polls` + 1 times, and then drops the call.
async fn cancel_after<T>(polls: u32, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    for _ in 0..=polls {
        if let Poll::Ready(result) = std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
            return Some(result);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Handles can be sent to other threads and shared between threads.
#[test]
fn handles_are_send_and_sync() {
    const fn shared<T: Send + Sync>() {}
    shared::<Source>();
    shared::<BlockingSource>();
    shared::<Builder>();
    shared::<SupervisorHandle>();
    shared::<LocalRun>();
    shared::<evb::RunControl>();
    shared::<evb::Watch<evb::supervisor::Progress>>();
    const fn sent<T: Send>() {}
    sent::<Supervisor>();
    sent::<evb::source::Permit<'static>>();
    sent::<evb::sink::EventReceiver>();
}
