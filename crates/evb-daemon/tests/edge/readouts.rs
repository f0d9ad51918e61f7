//! Readouts that die, freeze and come back in a run: events do not wait for them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    front_end::FrontEnd,
    system::{System, fragment},
};

/// Three deadlines.
const SOON: Duration = Duration::from_secs(3);
/// Time between two triggers.
const EVERY: Duration = Duration::from_millis(10);

/// A board that reads out every trigger from the start of the run on, until it dies or freezes.
pub(crate) struct Board {
    front_end: Arc<Mutex<Option<FrontEnd>>>,
    is_frozen: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Board {
    fn start(system: &System, source: u16, begun: Instant) -> Self {
        let front_end = Arc::new(Mutex::new(Some(system.connect(source))));
        let (is_frozen, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (own, frozen, over) = (front_end.clone(), is_frozen.clone(), is_over.clone());
        let thread = thread::spawn(move || {
            let mut next = 1;
            while !over.load(Ordering::Relaxed) {
                let triggers = (begun.elapsed().as_nanos() / EVERY.as_nanos()) as u64;
                for event in next..=triggers {
                    let mut own = own.lock().unwrap();
                    if let Some(front_end) = &mut *own
                        && !frozen.load(Ordering::Relaxed)
                        && !front_end.try_send(&fragment(source, 1, event))
                    {
                        *own = None;
                    }
                }
                next = triggers + 1;
                thread::sleep(EVERY / 2);
            }
        });
        Self { front_end, is_frozen, is_over, thread: Some(thread) }
    }

    pub(crate) fn die(&self) {
        *self.front_end.lock().unwrap() = None;
    }

    pub(crate) fn revive(&self, system: &System, source: u16) {
        *self.front_end.lock().unwrap() = Some(system.connect(source));
    }

    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.is_frozen.store(is_frozen, Ordering::Relaxed);
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Starts a run with a board at each source.
pub(crate) fn start(system: &System) -> [Board; 2] {
    system.wait_until_ready(0);
    system.begin();
    let begun = Instant::now();
    let boards = [1, 2].map(|source| Board::start(system, source, begun));
    system.wait_for("complete", |status| complete(status) >= 50);
    boards
}

pub(crate) fn count(status: &Value, outcome: &str) -> u64 {
    status["survey"]["events"][outcome].as_u64().unwrap()
}

pub(crate) fn complete(status: &Value) -> u64 {
    count(status, "complete")
}

pub(crate) fn presence(status: &Value, source: usize) -> &str {
    status["survey"]["sources"][source - 1]["presence"].as_str().unwrap()
}

/// Waits until more events are complete.
pub(crate) fn wait_until_complete_again(system: &System) {
    let before = complete(&system.status());
    system.wait_for("complete again", |status| complete(status) >= before + 50);
}

/// Returns the fraction of the triggers of a second that become events.
fn live_fraction(system: &System) -> f64 {
    let before = system.status();
    thread::sleep(Duration::from_secs(1));
    let after = system.status();
    let of = |outcome| (count(&after, outcome) - count(&before, outcome)) as f64;
    let events = of("complete") + of("incomplete");
    events / (events + of("inhibited"))
}

/// Stops the run. Each missing fragment must have one of the causes.
pub(crate) fn stop(system: &System, causes: &[&str]) -> Value {
    assert!(system.ctl(&["stop"]).status.success(), "{}", system.log());
    let summary = system.end(1);
    let found: Vec<&String> = summary["sources"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|source| source["missing_by_cause"].as_object())
        .flat_map(|causes| causes.keys())
        .collect();
    assert!(found.iter().all(|cause| causes.contains(&cause.as_str())), "{found:?}: {summary:#}");
    summary
}

#[test]
fn a_dead_readout_is_seen_at_once_and_costs_no_triggers() {
    let system = System::at_100_hz("");
    let boards = start(&system);
    boards[1].die();
    let status = system.wait_for("seen", |status| presence(status, 2) == "no readout");
    assert_eq!(status["survey"]["sources"][1]["front_ends"]["connected"], 0, "{status:#}");
    thread::sleep(SOON);
    let status = system.status();
    let problem = status["problems"][0].clone();
    assert!(
        problem["subject"] == "source 2"
            && problem["text"].as_str().unwrap().contains("no front end is connected")
            && problem["remedy"].as_str().unwrap().contains("start its front end again"),
        "{problem:#}"
    );
    assert!(live_fraction(&system) >= 0.9, "{}", system.log());
    boards[1].revive(&system, 2);
    system.wait_for("back", |status| presence(status, 2) == "up");
    wait_until_complete_again(&system);
    assert!(
        system.log().contains("source 2 has no readout, because its front ends have closed"),
        "{}",
        system.log()
    );
    drop(boards);
    stop(&system, &["no readout", "silent until the deadline"]);
}

#[test]
fn a_frozen_readout_is_silent_and_costs_no_triggers() {
    let system = System::at_100_hz("");
    let boards = start(&system);
    boards[0].freeze(true);
    let frozen = Instant::now();
    system.wait_for("seen", |status| presence(status, 1) == "no readout");
    assert!(frozen.elapsed() >= Duration::from_millis(900), "{:?}", frozen.elapsed());
    thread::sleep(SOON.saturating_sub(frozen.elapsed()));
    assert!(live_fraction(&system) >= 0.9, "{}", system.log());
    boards[0].freeze(false);
    system.wait_for("back", |status| presence(status, 1) == "up");
    wait_until_complete_again(&system);
    drop(boards);
    stop(&system, &["no readout", "silent until the deadline"]);
}

#[test]
fn without_any_readout_triggers_are_inhibited_until_one_is_back() {
    let system = System::at_100_hz("");
    let boards = start(&system);
    boards.iter().for_each(Board::die);
    system.wait_for("seen", |status| [1, 2].iter().all(|source| presence(status, *source) == "no readout"));
    system.wait_for("inhibited", |status| {
        let causes = status["survey"]["dead_time_causes"].as_array().unwrap();
        causes.iter().any(|cause| cause["cause"] == "no readout" && cause["inhibited"].as_u64() >= Some(50))
    });
    for (board, source) in boards.iter().zip([1, 2]) {
        board.revive(&system, source);
    }
    system.wait_for("back", |status| [1, 2].iter().all(|source| presence(status, *source) == "up"));
    wait_until_complete_again(&system);
    drop(boards);
    stop(&system, &["no readout", "silent until the deadline"]);
}

#[test]
fn a_run_that_waits_for_every_source_names_the_readout_in_its_dead_time() {
    let system = System::at_100_hz("on_source_loss = \"wait\"\nslots = 16");
    let boards = start(&system);
    boards[1].freeze(true);
    system.wait_for("dead time", |status| {
        let causes = status["survey"]["dead_time_causes"].as_array().unwrap();
        causes.iter().any(|cause| cause["cause"] == "source 2")
    });
    boards[1].freeze(false);
    wait_until_complete_again(&system);
    drop(boards);
    stop(&system, &["no readout", "silent until the deadline", "given up at the end of the run"]);
}
