//! A journal whose disk does not answer for a while.

use std::{
    io,
    path::Path,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use evb_core::{
    id::{BuilderId, EventId, Peer, SourceId},
    supervisor::{Presence, RunPlan, RunState, Survey},
    trigger::TriggerKind,
    units::Frequency,
    wire::{
        control::{Begun, BuilderReport, Completions, Message, Ready, Report, RoleReport, SourceReport},
        journal::Entry,
    },
};

use super::{Supervisor, SupervisorConfig, SupervisorHandle, answer, control, join, plan};
use crate::supervisor::journal::{
    Journal, JournalConfig, JournalFsync,
    writer::{JournalWriter, Store},
};

/// Time for which the disk hangs: longer than the time for which peers wait for a heartbeat, and
/// longer than a drain may take.
const HANG: Duration = Duration::from_secs(4);

/// A gate that delays writes while the gate is shut.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.opened.notify_all();
    }
}

/// Opens the gate when dropped, so that a failing test also ends.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

#[derive(Debug)]
struct Gated(Journal, Arc<Gate>);

impl Store for Gated {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn append(&mut self, entry: &Entry) {
        self.0.append(entry);
    }

    fn commit(&mut self) -> io::Result<()> {
        drop(self.1.opened.wait_while(self.1.is_shut.lock().unwrap(), |is_shut| *is_shut).unwrap());
        self.0.commit()
    }

    fn length(&self) -> u64 {
        self.0.length()
    }

    fn replace(&mut self, entries: &[Entry]) -> io::Result<()> {
        self.0.replace(entries)
    }

    fn abandon(self: Box<Self>) -> io::Result<()> {
        self.0.abandon()
    }
}

/// Counts of the messages that peers have received.
#[derive(Debug, Default)]
struct Heard {
    heartbeats: AtomicU64,
    orders: AtomicU64,
}

/// Plays a source that is ready at once, or a builder that completes every event at once. Returns
/// the verdict that the supervisor sends at the end.
async fn peer(address: String, peer: Peer, heard: Arc<Heard>) -> String {
    let mut link = join(&address, peer).await;
    let mut built = 0;
    loop {
        let message = link.recv().await.unwrap().message.unwrap();
        let counter = match message {
            Message::Heartbeat(_) => &heard.heartbeats,
            _ => &heard.orders,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        match message {
            Message::Roster(_) if matches!(peer, Peer::Source(_)) => {
                link.send(&control(Message::Ready(Ready {}))).unwrap();
            }
            Message::Begin(_) => link.send(&control(Message::Begun(Begun::default()))).unwrap(),
            Message::Assignments(assignments) => {
                let mut completions = Completions { before: built, ..Completions::default() };
                let mut last = EventId::default();
                for (event, _) in assignments.events().unwrap() {
                    completions.add(&mut last, event);
                    built += 1;
                }
                link.send(&control(Message::Completions(completions))).unwrap();
            }
            Message::Heartbeat(beat) => answer(&mut link, &beat),
            Message::Finish(_) => {
                let report = match peer {
                    Peer::Builder(_) => RoleReport::Builder(BuilderReport {
                        complete: built,
                        written: built,
                        ..BuilderReport::default()
                    }),
                    _ => RoleReport::Source(SourceReport::default()),
                };
                link.send(&control(Message::Report(Report { report: Some(report), live: None }))).unwrap();
            }
            Message::RunEnd(end) => return end.verdict,
            _ => {}
        }
        link.flush().await.unwrap();
    }
}

/// Asserts that the supervisor answers a survey at once, and returns it.
async fn look(handle: &SupervisorHandle) -> Survey {
    tokio::time::timeout(Duration::from_millis(500), handle.survey()).await.expect("an answer").unwrap()
}

async fn complete(handle: &SupervisorHandle, more_than: u64) -> u64 {
    let mut progress = handle.progress();
    let enough = progress.wait_for(|progress| progress.events.complete > more_than);
    tokio::time::timeout(Duration::from_secs(10), enough).await.expect("progress").unwrap().events.complete
}

/// Starts a supervisor whose journal writes through the gate, and its peers.
async fn begin(path: &Path, gate: &Arc<Gate>) -> Supervisor {
    let trigger = TriggerKind::Periodic { rate: Frequency::from_hertz(1000.0).unwrap() };
    let plan = RunPlan { slots: 8, ..plan(1, 1, trigger) };
    let journal = JournalConfig { path: path.to_owned(), fsync: JournalFsync::None };
    let config =
        SupervisorConfig { journal: Some(journal.clone()), ..SupervisorConfig::new("127.0.0.1:0", plan) };
    let mut supervisor = Supervisor::bind(config).await.unwrap();
    supervisor.driver.journal = None;
    let journal = Journal::open(journal, |_| {}).unwrap();
    supervisor.driver.journal = Some(JournalWriter::new(Box::new(Gated(journal, Arc::clone(gate)))).unwrap());
    supervisor
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_hangs_costs_dead_time_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let (path, gate, heard) =
        (directory.path().join("journal"), Arc::new(Gate::default()), Arc::new(Heard::default()));
    let _opens = Opens(Arc::clone(&gate));
    let supervisor = begin(&path, &gate).await;
    let (address, handle) = (supervisor.address().to_string(), supervisor.handle());
    let run = tokio::spawn(supervisor.run());
    let peers = [Peer::Source(SourceId::new(1)), Peer::Builder(BuilderId::new(1))]
        .map(|of| tokio::spawn(peer(address.clone(), of, Arc::clone(&heard))));
    complete(&handle, 50).await;

    gate.set(true);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = look(&handle).await;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (orders, turn_counters) = (count(&heard.orders), count(&heard.heartbeats));
    tokio::time::sleep(HANG).await;
    let during = look(&handle).await;
    assert_eq!(count(&heard.orders), orders, "nobody hears of what is not written down");
    assert!(count(&heard.heartbeats) > turn_counters + 2 * 8, "peers hear from the supervisor");
    let [cause] = &during.dead_time[..1] else { panic!("{during:?}") };
    assert!(
        cause.cause == "the supervisor waits for the disk of its journal" && cause.inhibited > 2000,
        "{:?}",
        during.dead_time
    );
    assert_eq!(during.events.complete, before.events.complete);
    assert!(
        during.sources[0].presence == Presence::Up && during.builders[0].presence == Presence::Up,
        "{during:?}"
    );
    let answered = tokio::time::timeout(Duration::from_millis(500), handle.pause()).await;
    answered.expect("an answer").unwrap();
    handle.resume().await.unwrap();

    gate.set(false);
    complete(&handle, during.events.complete + 50).await;
    gate.set(true);
    tokio::time::sleep(Duration::from_millis(300)).await;
    handle.request_run_end("enough").await.unwrap();
    tokio::time::sleep(HANG).await;
    assert_eq!(handle.progress().latest().state, RunState::Stopping);
    gate.set(false);
    let report = tokio::time::timeout(Duration::from_secs(10), run).await.expect("an end").unwrap().unwrap();
    assert_eq!((report.exit_code, report.events.lost), (0, 0), "{:?}", report.problems);
    assert_eq!(report.events.open(), Some(0));
    for peer in peers {
        assert_eq!(peer.await.unwrap(), report.verdict);
    }
    assert_eq!(crate::supervisor::unfinished_run(&path).unwrap(), None);
    // The first run has closed the file, so the next run can open it.
    Journal::open(JournalConfig { path, fsync: JournalFsync::None }, |_| {}).unwrap();
}
