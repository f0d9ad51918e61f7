//! A supervisor is killed during a run, and another one goes on from its journal: sources and
//! builders stay, and no event is lost or duplicated.

mod support;

use std::{path::Path, time::Duration};

use evb::{
    builder::{Builder, BuilderConfig},
    role::RoleError,
    sink::ChannelSink,
    source::{Source, SourceConfig},
    supervisor::{
        JournalConfig, JournalFsync, RunPlan, RunState, Supervisor, SupervisorConfig, TriggerKind,
        unfinished_run,
    },
    units::Frequency,
};
use evb_net::pacing::Transport;
use support::{Numbers, System, content, plan};
use tokio::time::{sleep, timeout};

const LENGTH: usize = 700;
const EVENTS: u64 = 2000;

async fn supervisor(listen: &str, path: &Path, plan: &RunPlan) -> Supervisor {
    let journal = Some(JournalConfig { path: path.to_owned(), fsync: JournalFsync::None });
    let config = SupervisorConfig { journal, ..SupervisorConfig::new(listen, plan.clone()) };
    // The socket of the killed supervisor may take a moment to close.
    for _ in 0..50 {
        match Supervisor::bind(config.clone()).await {
            Ok(bound) => return bound,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
    Supervisor::bind(config).await.expect("the address is free again")
}

/// Without a journal, no other supervisor can go on with the run: its builders end, and report the
/// events that their sinks hold.
#[tokio::test]
async fn without_a_journal_a_builder_says_what_its_sink_holds() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let rate = Frequency::from_hertz(400.0).expect("that is a rate");
        let plan = RunPlan {
            trigger: TriggerKind::Periodic { rate },
            patience: Duration::from_millis(1500),
            ..plan(2, 1, EVENTS)
        };
        let mut system = support::start_over(transport, "127.0.0.1:0", plan, LENGTH).await;
        let mut events = system.events.remove(0);
        let taking = tokio::spawn(async move {
            let mut count = 0;
            while events.recv().await.is_some() {
                count += 1;
            }
            count
        });
        sleep(Duration::from_millis(1500)).await;
        system.run.abort();
        let ended = timeout(Duration::from_secs(10), system.builders[0].finished()).await;
        let error = ended.expect("the builder gives up").expect_err("its run has no end");
        let RoleError::Abandoned { held, .. } = &*error else { panic!("{error}") };
        let count = taking.await.expect("no panic");
        assert!(count > 100, "{count}");
        let number = |before: &str| -> u64 {
            let rest = held.split(before).nth(1).unwrap_or_else(|| panic!("{held}"));
            let word = rest.split_whitespace().next().expect("a number follows");
            word.parse().unwrap_or_else(|_| panic!("{held}"))
        };
        assert_eq!(number("the sink has accepted ") + number("is still writing "), count, "{held}");
    }
}

/// Tests docs/reference/protocol.md RUN-23.
#[tokio::test]
async fn a_supervisor_that_is_killed_is_followed_by_another_and_nothing_is_lost() {
    let directory = tempfile::tempdir().expect("there is room for a file");
    for transport in [Transport::Tcp, Transport::Udp] {
        let path = directory.path().join(format!("{transport:?}.journal"));
        let rate = Frequency::from_hertz(400.0).expect("that is a rate");
        let plan = RunPlan { trigger: TriggerKind::Periodic { rate }, ..plan(2, 2, EVENTS) };
        let first = supervisor("127.0.0.1:0", &path, &plan).await;
        let address = first.address().to_string();
        let handle = first.handle();
        let run = tokio::spawn(async move { first.run().await.expect("the supervisor leads the run") });
        let mut system = System::new(handle, address.clone(), run);
        for id in &plan.builders {
            let (sink, events) = ChannelSink::new(64);
            let config = BuilderConfig { transport, ..BuilderConfig::new(*id, &address) };
            system.builders.push(Builder::connect(config, sink).await.expect("the builder joins"));
            system.events.push(events);
        }
        for id in &plan.sources {
            let config = SourceConfig { transport, ..SourceConfig::new(*id, &address) };
            let readout = Numbers { source: *id, length: LENGTH };
            system.sources.push(Source::on_demand(config, readout).await.expect("the source joins"));
        }
        for _ in 0..2 {
            sleep(Duration::from_millis(1200)).await;
            system.run.abort();
            let killed = (&mut system.run).await;
            assert!(killed.is_err_and(|error| error.is_cancelled()), "the run was under way");
            sleep(Duration::from_millis(300)).await;
            assert_eq!(unfinished_run(&path).expect("a readable journal"), Some(plan.run));
            // The new plan's number and epoch have no effect, because the journal contains those of
            // the run.
            let other = RunPlan { epoch: SupervisorConfig::fresh_epoch(), ..plan.clone() };
            let next = supervisor(&address, &path, &other).await;
            system.supervisor = next.handle();
            system.run = tokio::spawn(async move { next.run().await.expect("the supervisor leads the run") });
            let mut progress = system.supervisor.progress();
            let before = progress.latest().events.complete;
            let resumed =
                progress.wait_for(|now| now.state == RunState::Running && now.events.complete > before + 20);
            timeout(Duration::from_secs(10), resumed).await.expect("in time").expect("a run");
        }
        let (mut built, report) = system.finish().await;
        assert_eq!(report.epoch, plan.epoch.number(), "the run is the same");
        assert_eq!((report.events.lost, report.events.incomplete), (0, 0), "{:?}", report.problems);
        assert_eq!(
            (report.events.complete, report.events.open()),
            (EVENTS, Some(0)),
            "{:?}",
            report.problems
        );
        built.sort_by_key(|event| event.id);
        assert_eq!(built.len() as u64, EVENTS, "each was built once");
        assert!(built.is_sorted_by(|a, b| a.id < b.id));
        for event in &built {
            assert!(event.is_complete() && event.fragments().len() == 2);
            for fragment in event.fragments() {
                let length = LENGTH + event.id.number() as usize % 97;
                assert!(fragment.payload == content(fragment.source, event.id, length), "event {}", event.id);
            }
        }
        assert_eq!(unfinished_run(&path).expect("a readable journal"), None, "the run is over");
    }
}
