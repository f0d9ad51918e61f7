//! Fragments that a front end still holds when its run ends stay out of the next run.

use std::time::{Duration, Instant};

use evb_core::rng::Rng;

use crate::{
    front_end::FrontEnd,
    system::{EVENTS, System, foreign, fragment},
};

/// Number of runs, each with leftovers of the one before.
const RUNS: u64 = 20;

/// A front end that has sent leftovers, and the rest of the fragment in which it stopped.
struct Cut {
    front_end: FrontEnd,
    rest: Vec<u8>,
}

/// Connects front ends of a source, at most `most`, that send fragments of an earlier run, and stop
/// within one of them. Returns the front ends and the number of fragments that they began.
fn leave(system: &System, source: u16, run: u64, most: u64, rng: &mut Rng) -> (Vec<Cut>, u64) {
    let (mut cuts, mut begun) = (Vec::new(), 0);
    for _ in 0..=rng.below(most) {
        let mut front_end = system.connect(source);
        let first = rng.below(EVENTS);
        let count = rng.below(40);
        let bytes: Vec<u8> = (1..=count).flat_map(|step| fragment(source, run, first + step)).collect();
        let last = fragment(source, run, 1 + rng.below(EVENTS));
        let at = rng.below(last.len() as u64) as usize;
        front_end.send(&[&bytes[..], &last[..at]].concat());
        begun += count + u64::from(at > 0);
        let rest = if at > 0 { last[at..].to_vec() } else { Vec::new() };
        cuts.push(Cut { front_end, rest });
    }
    (cuts, begun)
}

fn discarded(summary: &serde_json::Value, key: &str) -> [u64; 2] {
    [0, 1].map(|source| summary["sources"][source][key].as_u64().unwrap())
}

#[test]
fn no_leftover_gets_into_the_next_run() {
    let system = System::start("");
    let mut rng = Rng::new(36);
    for run in 1..=RUNS {
        system.wait_until_ready(run - 1);
        let mut left = Vec::new();
        let mut begun = [0, 0];
        for source in [1, 2] {
            let (cuts, count) = leave(&system, source, run - 1, 2, &mut rng);
            left.extend(cuts);
            begun[usize::from(source) - 1] = count;
        }
        // The run begins at once, or when all leftovers have been read.
        match rng.below(3) {
            0 => system.begin(),
            1 => {
                std::thread::sleep(Duration::from_millis(100));
                system.begin();
            }
            // More leftovers are in the sockets, and evbd reads the command first.
            _ => {
                system.freeze();
                for source in [1, 2] {
                    let (cuts, count) = leave(&system, source, run - 1, 60, &mut rng);
                    left.extend(cuts);
                    begun[usize::from(source) - 1] += count;
                }
                system.begin_from_frozen();
            }
        }
        for (index, cut) in left.iter_mut().enumerate() {
            cut.front_end.send(&cut.rest);
            // The first connections of each source go on; the others are silent.
            if index == 0 {
                cut.front_end.send_run(run);
            }
        }
        system.connect(2).send_run(run);
        let summary = system.end(run);
        let events = system.events(run);
        assert_eq!(foreign(&events, run), 0, "run {run}: {summary:#}");
        assert_eq!(summary["events"]["complete"], EVENTS, "run {run}: {summary:#}");
        assert_eq!(summary["exit_code"], 0, "run {run}: {summary:#}");
        assert_eq!(discarded(&summary, "discarded_before_start"), begun, "run {run}: {summary:#}");
        assert_eq!(discarded(&summary, "kept_before_start"), [0, 0], "run {run}: {summary:#}");
    }
}

#[test]
fn a_front_end_that_stops_within_a_fragment_does_not_hold_up_the_start() {
    let system = System::start("");
    system.wait_until_ready(0);
    let mut stopped = system.connect(1);
    stopped.send(&fragment(1, 0, 7)[..30]);
    let asked = Instant::now();
    system.begin();
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    system.connect(1).send_run(1);
    system.connect(2).send_run(1);
    let summary = system.end(1);
    assert_eq!(foreign(&system.events(1), 1), 0);
    assert_eq!(summary["exit_code"], 0, "{summary:#}");
    drop(stopped);
}

#[test]
fn what_is_kept_on_request_is_a_remark() {
    let system = System::start(", before_start = \"keep\"");
    system.wait_until_ready(0);
    let mut front_ends = [system.connect(1), system.connect(2)];
    for (front_end, source) in front_ends.iter_mut().zip([1, 2]) {
        (1..=10).for_each(|event| front_end.send(&fragment(source, 0, event)));
    }
    system.wait_for("pushed", |status| {
        [0, 1].iter().all(|source| status["survey"]["sources"][source]["live"]["pushed"] == 10)
    });
    system.begin();
    front_ends.iter_mut().for_each(|front_end| front_end.send_run(1));
    let summary = system.end(1);
    assert_eq!(foreign(&system.events(1), 1), 20, "{summary:#}");
    assert_eq!(discarded(&summary, "kept_before_start"), [10, 10]);
    let remark = "source 1 kept 10 fragments that arrived before the start, as its `before_start` says; nothing needs to be done";
    assert!(summary["remarks"].as_array().unwrap().iter().any(|said| said == remark), "{summary:#}");
}

#[test]
fn the_log_names_the_source_of_each_front_end() {
    let system = System::start("");
    system.wait_until_ready(0);
    drop((system.connect(1), system.connect(2)));
    system.connect(2).send(&u32::MAX.to_le_bytes().repeat(5));
    let has = |words: &str, source: &str| {
        let log = system.log();
        log.lines().any(|line| line.contains(words) && line.contains(source))
    };
    for (words, source) in [
        (" has connected", " source 1: the front end "),
        (" has connected", " source 2: the front end "),
        (" has closed its connection to this source, after 0 fragments", " source 1: the front end "),
        (" has closed its connection to this source, after 0 fragments", " source 2: the front end "),
        ("then let it connect again", " source 2: closed the connection of the front end "),
    ] {
        let until = Instant::now() + Duration::from_secs(20);
        while !has(words, source) {
            assert!(Instant::now() < until, "{words}: {}", system.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
