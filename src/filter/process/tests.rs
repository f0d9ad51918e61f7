//! Workers that judge, die, hang and talk nonsense. They are this test program itself, which is
//! started with `EVB_TEST_WORKER` and runs [`acts_as_worker`].

mod program;

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use evb_core::{
    event::Event,
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
};
use evb_file::FileIdentity;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::{Filter, FilterReport, FilterVerdict, OnFailure, ProcessFilter, ProcessOptions};

const RUN: RunNumber = RunNumber::new(3);

#[test]
fn acts_as_worker() {
    program::act();
}

/// Returns options for workers that behave in a way (see [`program`]), in a directory.
fn options(behaviour: &str, dir: &Path) -> ProcessOptions {
    let program = std::env::current_exe().unwrap();
    ProcessOptions::new([
        "env",
        &format!("EVB_TEST_WORKER={behaviour}"),
        &format!("EVB_TEST_DIR={}", dir.display()),
        program.to_str().unwrap(),
        "--exact",
        "filter::process::tests::acts_as_worker",
        "--nocapture",
    ])
}

fn started(behaviour: &str, workers: u16, dir: &Path) -> ProcessFilter {
    ProcessFilter::start(ProcessOptions { workers, ..options(behaviour, dir) }).unwrap()
}

/// Returns an event that the workers keep if its id is no multiple of 3.
fn event(id: u64) -> Event {
    let mut event = Event::empty(EventId::new(id), RUN, Epoch::new(1), BuilderId::new(1));
    let payload = vec![u8::from(!id.is_multiple_of(3)); 1 + id as usize % 500];
    event.add(SourceId::new(7), Timestamp::new(id), payload.into());
    event
}

fn events(ids: impl IntoIterator<Item = u64>) -> Vec<Event> {
    ids.into_iter().map(event).collect()
}

fn right(event: &Event) -> FilterVerdict {
    match event.id.number() {
        id if id.is_multiple_of(3) => FilterVerdict::Reject,
        id if id.is_multiple_of(2) => FilterVerdict::Tag(id),
        _ => FilterVerdict::Accept,
    }
}

#[track_caller]
fn assert_right(filter: &mut ProcessFilter, events: &[Event]) {
    let verdicts = filter.verdicts(events);
    let expected: Vec<_> = events.iter().map(right).collect();
    assert_eq!(verdicts, expected, "{:?}", filter.report());
}

fn report(filter: &mut ProcessFilter) -> FilterReport {
    filter.report().unwrap()
}

/// Returns the ids of the processes that have said in a directory that they run.
fn processes(dir: &Path) -> Vec<Pid> {
    let names = fs::read_dir(dir).unwrap().flatten().map(|file| file.file_name().into_string().unwrap());
    let ids = names.filter_map(|name| name.strip_prefix("pid-")?.parse().ok());
    ids.filter_map(Pid::from_raw).filter(|pid| test_kill_process(*pid).is_ok()).collect()
}

#[test]
fn verdicts_come_in_the_order_of_the_events() {
    let dir = tempfile::tempdir().unwrap();
    for workers in [1, 3] {
        let mut filter = started("right", workers, dir.path());
        filter.begin(&FileIdentity {
            run: RUN,
            run_id: RunId::from_bytes([7; 16]),
            epoch: Epoch::new(1),
            builder: BuilderId::new(1),
            ..FileIdentity::default()
        });
        for batch in [1..=1, 2..=700, 701..=703] {
            assert_right(&mut filter, &events(batch));
        }
        let told = report(&mut filter);
        assert_eq!((told.judged, told.kept, told.dropped, told.failed, told.restarts), (703, 469, 234, 0, 0));
        assert_eq!((told.workers, told.fault.as_str()), (u32::from(workers), ""));
        assert!(filter.verdicts(&[]).is_empty());
    }
}

#[test]
fn workers_live_from_run_to_run_and_learn_each_header() {
    let dir = tempfile::tempdir().unwrap();
    let mut filter = started("right", 2, dir.path());
    while report(&mut filter).ready < 2 {
        thread::sleep(Duration::from_millis(10));
    }
    let before = processes(dir.path());
    for run in 4..=6 {
        let run = RunNumber::new(run);
        let mut events = events(1..=20);
        for event in &mut events {
            event.run = run;
        }
        let (epoch, builder) = (Epoch::new(1), BuilderId::new(1));
        let sources = vec![SourceId::new(7)];
        filter.begin(&FileIdentity { run, epoch, builder, sources, ..FileIdentity::default() });
        assert_right(&mut filter, &events);
        assert_eq!(report(&mut filter).judged, 20);
    }
    assert_eq!(processes(dir.path()), before);
    filter.end();
    assert!(processes(dir.path()).is_empty(), "the workers have ended");
    assert_eq!(filter.verdict(&event(3)), FilterVerdict::Accept, "no worker, so the policy");
}

#[test]
fn an_event_may_be_larger_than_the_ring() {
    let dir = tempfile::tempdir().unwrap();
    let mut filter = started("right", 2, dir.path());
    let mut all = events(1..=30);
    for large in [4, 5, 15] {
        all[large] = Event::empty(EventId::new(1 + large as u64), RUN, Epoch::new(1), BuilderId::new(1));
        let kept = !(1 + large).is_multiple_of(3);
        all[large].add(SourceId::new(7), Timestamp::new(0), vec![u8::from(kept); 40 << 20].into());
    }
    assert_right(&mut filter, &all);
    assert_eq!(report(&mut filter).restarts, 0);
}

#[test]
fn killed_workers_cost_no_event() {
    let dir = tempfile::tempdir().unwrap();
    let mut filter = started("slow", 4, dir.path());
    let is_over = AtomicBool::new(false);
    let killed = thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut killed = 0;
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(100));
                let running = processes(dir.path());
                if let Some(pid) = running.get(killed % running.len().max(1)) {
                    killed += usize::from(kill_process(*pid, Signal::KILL).is_ok());
                }
            }
            killed
        });
        let until = Instant::now() + Duration::from_secs(4);
        let mut next = 1;
        while Instant::now() < until {
            let batch = events(next..next + 200);
            next += 200;
            let verdicts = filter.verdicts(&batch);
            // An event at which two workers were killed by chance is kept.
            let wrong =
                batch.iter().zip(&verdicts).filter(|(event, verdict)| right(event) != **verdict).count();
            assert_eq!(verdicts.len(), 200);
            assert!(wrong as u64 <= report(&mut filter).failed, "{:?}", filter.report());
        }
        is_over.store(true, Ordering::Relaxed);
        killer.join().unwrap()
    });
    let told = report(&mut filter);
    assert!(killed >= 10 && told.restarts >= 5, "{killed} {told:?}");
    assert!(told.failed <= 2, "{told:?}");
    assert_eq!(told.judged, told.kept + told.dropped + told.failed);
}

/// Faults that a worker makes once at each tenth event, before others judge it.
#[test]
fn a_worker_that_breaks_the_protocol_is_replaced() {
    for fault in ["unknown", "double", "reorder", "half", "garbage", "megabytes", "verdict", "exit", "close"]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut filter = started(fault, 3, dir.path());
        assert_right(&mut filter, &events(1..=45));
        let told = report(&mut filter);
        assert!(!told.fault.is_empty(), "{fault}: {told:?}");
        assert_eq!((told.failed, told.judged), (0, 45), "{fault}: {told:?}");
    }
}

#[test]
fn a_worker_that_hangs_is_killed_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let timeout = Duration::from_millis(300);
    let mut filter =
        ProcessFilter::start(ProcessOptions { workers: 2, timeout, ..options("hang", dir.path()) }).unwrap();
    let began = Instant::now();
    assert_right(&mut filter, &events(1..=15));
    assert!(began.elapsed() >= timeout, "{:?}", began.elapsed());
    let fault = report(&mut filter).fault;
    assert!(fault.contains("did not judge event 10 within 300 ms, and was killed"), "{fault}");
    let child: i32 = fs::read_to_string(dir.path().join("child")).unwrap().trim().parse().unwrap();
    let state = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[test]
fn an_event_at_which_two_workers_fail_gets_no_verdict() {
    let dir = tempfile::tempdir().unwrap();
    for (on_failure, verdict) in
        [(OnFailure::Keep, FilterVerdict::Accept), (OnFailure::Drop, FilterVerdict::Reject)]
    {
        let workers = ProcessOptions { workers: 2, on_failure, ..options("poison", dir.path()) };
        let mut filter = ProcessFilter::start(workers).unwrap();
        let events = events(1..=30);
        let verdicts = filter.verdicts(&events);
        for (event, found) in events.iter().zip(verdicts) {
            let expected = if event.id.number() == 10 { verdict.clone() } else { right(event) };
            assert_eq!(found, expected, "event {}", event.id);
        }
        let told = report(&mut filter);
        assert_eq!((told.failed, told.judged), (1, 30), "{told:?}");
        assert!(told.fault.contains("exited with code 9: its last line is `event 10 is poison`"), "{told:?}");
    }
}

#[test]
fn without_any_worker_the_policy_decides_after_the_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let timeout = Duration::from_millis(400);
    for behaviour in ["crash", "mute", "stranger"] {
        let options = ProcessOptions { workers: 2, timeout, ..options(behaviour, dir.path()) };
        let mut filter = ProcessFilter::start(options).unwrap();
        filter.lock().ready = Duration::from_millis(500);
        let began = Instant::now();
        assert_eq!(filter.verdicts(&events(1..=500)), vec![FilterVerdict::Accept; 500]);
        let took = began.elapsed();
        assert!(took >= timeout && took < Duration::from_secs(8), "{behaviour}: {took:?}");
        // The next events do not wait again.
        let began = Instant::now();
        assert_eq!(filter.verdicts(&events(501..=600)), vec![FilterVerdict::Accept; 100]);
        assert!(began.elapsed() < timeout, "{behaviour}: {:?}", began.elapsed());
        assert_eq!(report(&mut filter).failed, 600);
        assert!(report(&mut filter).restarts < 30, "{behaviour}: {:?}", filter.report());
    }
}

#[test]
fn much_output_neither_blocks_nor_grows() {
    let dir = tempfile::tempdir().unwrap();
    let mut filter = started("noisy", 1, dir.path());
    assert_right(&mut filter, &events(1..=20));
    assert_eq!(report(&mut filter).restarts, 0);
}

#[test]
fn a_program_that_is_missing_is_no_filter() {
    let error = ProcessFilter::start(ProcessOptions::new(["/no/such/program"])).unwrap_err().to_string();
    assert!(error.starts_with("cannot start `/no/such/program`: No such file"), "{error}");
    assert!(ProcessFilter::start(ProcessOptions::new([""; 0])).is_err());
}

#[test]
fn a_worker_that_dies_while_idle_is_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut filter = started("right", 1, dir.path());
    assert_right(&mut filter, &events(1..=5));
    kill_process(processes(dir.path())[0], Signal::KILL).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while report(&mut filter).ready == 0 || report(&mut filter).restarts == 0 {
        assert!(Instant::now() < until, "{:?}", filter.report());
        thread::sleep(Duration::from_millis(20));
    }
    assert_right(&mut filter, &events(6..=10));
    assert_eq!(report(&mut filter).failed, 0);
}
