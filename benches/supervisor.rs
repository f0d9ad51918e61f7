//! Measures the supervisor's state machine with up to thousands of peers, without sockets: the cost
//! of a decision, of a start, of a process that dies with 100 sources, and of the final report.
//!
//! Triggers come at 10 kHz, and are decided in turns of 1 ms, as the driver does; builders settle
//! their events in the next turn, and peers send heartbeats. Bytes are those of the encoded
//! messages, summed over all recipients.
//!
//! `cargo bench --bench supervisor` prints the table. For instructions, run the program of one row
//! under `valgrind --tool=cachegrind --cache-sim=no`, with `--bench --only 4000x400 --turns N` and
//! two values of N: the difference is the cost of the turns between, each of which has 10
//! decisions.

#![expect(clippy::unwrap_used, reason = "an error here is a failed measurement")]

#[path = "supervisor/stage.rs"]
mod stage;

use std::time::{Duration, Instant};

use stage::Stage;

const SOURCES: [u16; 3] = [16, 1000, 4000];
const BUILDERS: [u16; 3] = [16, 400, 1024];
/// Number of turns for each row: one second of the run.
const TURNS: u32 = 1000;
/// Number of sources of the process that dies.
const DYING: u16 = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    // Under `cargo test`, short rows show that the benchmark runs.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let turns = after("--turns").and_then(|turns| turns.parse().ok()).unwrap_or(TURNS);
    let all = SOURCES.into_iter().flat_map(|sources| BUILDERS.map(|builders| (sources, builders)));
    let rows: Vec<(u16, u16)> = match after("--only").map(|only| only.split_once('x').unwrap()) {
        Some((sources, builders)) => vec![(sources.parse().unwrap(), builders.parse().unwrap())],
        None if is_bench => all.collect(),
        None => vec![(16, 16)],
    };
    println!(
        "{:>7} {:>8} {:>9} {:>9} {:>11} {:>9} {:>10} {:>13} {:>10} {:>9}",
        "sources",
        "builders",
        "events/s",
        "ns/event",
        "bytes/event",
        "messages",
        "start [ms]",
        "100 die [MB]",
        "[ms]",
        "end [ms]"
    );
    for (sources, builders) in rows {
        let (mut stage, start) = timed(|| Stage::running(sources, builders));
        // One turn fills the memory of the state machine.
        stage.turn();
        let before = stage.count();
        let ((), taken) = timed(|| (0..turns).for_each(|_| stage.turn()));
        let count = stage.count().since(before);
        if !is_bench || after("--turns").is_some() {
            println!("{sources:>7} {builders:>8} {:>9} decisions", count.decisions);
            continue;
        }
        let decisions = count.decisions as f64;
        let roster_bytes = stage.count().bytes_of_a_peer;
        let ((), death) = timed(|| stage.lose_sources(DYING.min(sources - 1)));
        let lost = stage.count().bytes_of_a_peer - roster_bytes;
        let ((), end) = if arguments.iter().any(|argument| argument == "--without-end") {
            ((), Duration::ZERO)
        } else {
            timed(|| stage.end())
        };
        println!(
            "{sources:>7} {builders:>8} {:>9.0} {:>9.0} {:>11.0} {:>9.1} {:>10.0} {:>13.3} {:>10.1} {:>9.0}",
            decisions / taken.as_secs_f64(),
            taken.as_nanos() as f64 / decisions,
            count.bytes as f64 / decisions,
            count.messages as f64 / decisions,
            millis(start),
            lost as f64 / 1e6,
            millis(death),
            millis(end),
        );
    }
}

fn timed<R>(run: impl FnOnce() -> R) -> (R, Duration) {
    let begin = Instant::now();
    let result = run();
    (result, begin.elapsed())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
