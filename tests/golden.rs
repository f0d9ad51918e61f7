//! The journal that a supervisor of version 1 of the protocol left when it was killed: a supervisor
//! of every later version continues its run. `EVB_BLESS=1` writes the journal again. And a
//! supervisor of version 1, by its golden bytes: peers of later versions refuse it.

mod support;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use evb::{
    builder::{Builder, BuilderConfig},
    id::{BuilderId, Epoch, RunNumber, SourceId},
    sink::ChannelSink,
    source::{Source, SourceConfig},
    supervisor::{JournalConfig, JournalFsync, RunPlan, SupervisorConfig, TriggerKind, unfinished_run},
    units::Frequency,
};
use evb_core::wire::preamble::PROTOCOL_VERSION;
use support::{Numbers, System};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::Instant,
};

const LENGTH: usize = 700;
const EVENTS: u64 = 300;
const RUN: RunNumber = RunNumber::new(7);
const EPOCH: Epoch = Epoch::new(1_763_731_564_000_000);

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/journal-1")
}

fn plan(epoch: Epoch) -> RunPlan {
    let rate = Frequency::from_hertz(200.0).expect("that is a rate");
    RunPlan {
        events: Some(EVENTS),
        trigger: TriggerKind::Periodic { rate },
        start_timeout: Duration::from_secs(10),
        ..RunPlan::new(RUN, epoch, [1, 2].map(SourceId::new).into(), [1, 2].map(BuilderId::new).into())
    }
}

/// Starts a supervisor with a journal, and the peers of its run.
async fn start(path: &Path, plan: RunPlan) -> System {
    let journal = Some(JournalConfig { path: path.to_owned(), fsync: JournalFsync::None });
    let config = SupervisorConfig { journal, ..SupervisorConfig::new("127.0.0.1:0", plan.clone()) };
    let mut system = System::lead(config).await;
    for id in plan.builders {
        let (sink, events) = ChannelSink::new(64);
        let config = BuilderConfig::new(id, &system.address);
        system.builders.push(Builder::connect(config, sink).await.expect("the builder joins"));
        system.events.push(events);
    }
    for id in plan.sources {
        let config = SourceConfig::new(id, &system.address);
        let readout = Numbers { source: id, length: LENGTH };
        system.sources.push(Source::on_demand(config, readout).await.expect("the source joins"));
    }
    system
}

/// Writes the journal of a supervisor that is killed during the run.
async fn write(path: &Path) {
    let _ = std::fs::remove_file(path);
    let mut system = start(path, plan(EPOCH)).await;
    for mut events in std::mem::take(&mut system.events) {
        tokio::spawn(async move { while events.recv().await.is_some() {} });
    }
    let mut progress = system.supervisor.progress();
    progress.wait_for(|now| now.events.complete > 60).await.expect("the run goes on");
    system.run.abort();
    assert!(system.run.await.is_err_and(|error| error.is_cancelled()), "the run was under way");
}

#[tokio::test]
async fn the_run_of_a_golden_journal_goes_on() {
    if std::env::var_os("EVB_BLESS").is_some() {
        write(&golden()).await;
    }
    let directory = tempfile::tempdir().expect("there is room for a file");
    let path = directory.path().join("journal");
    std::fs::copy(golden(), &path).expect("the golden journal is there");
    assert_eq!(unfinished_run(&path).expect("a readable journal"), Some(RUN));
    // The epoch of the plan has no effect, because the journal contains that of the run.
    let system = start(&path, plan(SupervisorConfig::fresh_epoch())).await;
    let (events, report) = system.finish().await;
    let counts = report.events;
    assert_eq!((report.run, report.epoch), (RUN.number(), EPOCH.number()));
    assert_eq!((counts.assigned, counts.lost, counts.open()), (EVENTS, 0, Some(0)), "{counts:?}");
    // The ledger has the events that the killed processes built, and those that were built now.
    let before = (counts.complete + counts.incomplete).checked_sub(events.len() as u64);
    assert!(before.is_some_and(|before| before > 60) && events.len() > 100, "{before:?}, {counts:?}");
    assert_eq!(unfinished_run(&path).expect("a readable journal"), None, "the run is over");
}

#[tokio::test]
async fn a_source_that_reaches_a_supervisor_of_version_1_ends_and_names_both_versions() {
    let messages = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/evb-core/tests/golden/protocol-1.hex");
    let messages = std::fs::read_to_string(messages).expect("the golden messages are there");
    let preamble = messages.lines().skip_while(|line| *line != "[preamble-control]").nth(1).expect("bytes");
    let byte = |word| u8::from_str_radix(word, 16).expect("a hexadecimal number");
    let preamble: Vec<u8> = preamble.split_whitespace().map(byte).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
    let address = listener.local_addr().expect("a socket").to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(&preamble).await.expect("sent");
            // The source hangs up.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    let began = Instant::now();
    // Nobody knows who answers there, so the source tries on for its whole time.
    let start_timeout = Duration::from_secs(1);
    let joined =
        Source::connect(SourceConfig { start_timeout, ..SourceConfig::new(SourceId::new(1), &address) })
            .await;
    let error = joined.expect_err("the versions differ").to_string();
    for version in [1, PROTOCOL_VERSION] {
        assert!(error.contains(&format!("version {version}")), "{error}");
    }
    let took = began.elapsed();
    assert!(took >= start_timeout && took < Duration::from_secs(5), "{took:?}");
}
