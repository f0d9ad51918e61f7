//! A long fat path, scaled: one flow over a round trip of 198 ms at 20 Mbit/s. The sending host's
//! link is ten times faster than the path, or as fast; or the flow has a pace below the path's
//! rate, kept by Linux or by evb. The order must be that of `evb-bench pipe`. netem delays the
//! packets, so the scenario runs under User-Mode Linux.
//!
//! Linux keeps few packets of a flow in the host's queue (TCP small queues, tcp(7)), so that the
//! length of this queue no longer matters and is not varied. A packet counts for that limit until
//! netem takes it, and even in the queue of a port behind a veth device. So the line lies between
//! the host and the port: otherwise a sender would never overflow the port.

#[cfg(test)]
mod tests;

use anyhow::Result;
use lab_base::{
    bench::Bench,
    interrupt, iperf,
    line::Line,
    network::{Network, Shape, run as command},
    outcome::median,
    report::{Bound, Report},
    system::{Mode, System, Transport},
};
use serde_json::json;

const RATE: u64 = 20_000_000;
/// Buffer of the port behind the line, in bytes: an eighth of the 495 kB that the path carries in a
/// round trip.
const BUFFER: u64 = 64 * 1024;
const DELAY: &str = "delay 99ms";
/// Congestion control of the streams: NewReno, as in the hosts of the study.
const STUDY_CONTROL: &str = "reno";
const FRAGMENT: u64 = 16_000;
/// Number of outstanding events of evb: an event takes four one-way delays, in which the path
/// carries 62 events.
const SLOTS: u32 = 128;

/// The flow over the path.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flow {
    /// A TCP stream of `iperf3`, with this pace in bit/s.
    Stream(Option<u64>),
    /// A lane of evb with a token bucket at 95 % of the path's rate, kept by this mechanism
    /// (`[shaping] offload`).
    Lane(Transport, &'static str),
}

/// A sending host.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    /// Rate of the host's link, as a multiple of the path's.
    times: u64,
    flow: Flow,
}

const CASES: [Case; 5] = [
    Case { name: "fast host", times: 10, flow: Flow::Stream(None) },
    Case { name: "equal-rate host", times: 1, flow: Flow::Stream(None) },
    Case { name: "fast host, paced by Linux", times: 10, flow: Flow::Stream(Some(RATE * 9 / 10)) },
    // A pace by evb's own timers does not limit the bursts of TCP's slow start, which then sends
    // what has waited for the window.
    Case { name: "fast host, evb over TCP", times: 10, flow: Flow::Lane(Transport::Tcp, "pacing-rate") },
    Case { name: "fast host, evb over UDP", times: 10, flow: Flow::Lane(Transport::Udp, "software") },
];

/// The runs of a case.
#[derive(Clone, Debug)]
struct Row {
    name: &'static str,
    /// Goodput of each run in Mbit/s, ascending.
    mbits: Vec<f64>,
    /// Packets that the port dropped, in all runs.
    drops: u64,
}

impl Row {
    fn least(&self) -> f64 {
        self.mbits.first().copied().unwrap_or(f64::NAN)
    }

    fn median(&self) -> f64 {
        median(self.mbits.iter().copied())
    }

    fn most(&self) -> f64 {
        self.mbits.last().copied().unwrap_or(f64::NAN)
    }

    fn text(&self) -> String {
        let Self { name, drops, .. } = self;
        format!("{name:<28} {:>7.2} {:>7.2} {:>7.2} {drops:>6}", self.least(), self.median(), self.most())
    }
}

/// Returns the time limit of this scenario under User-Mode Linux, in seconds.
pub fn limit(runs: usize, seconds: f64) -> f64 {
    120.0 + (CASES.len() * runs) as f64 * 2.0 * (seconds + 15.0)
}

/// Runs all cases on the current kernel.
pub fn run(bench: &Bench) -> Result<Report> {
    let mut report = Report::bare("pipe");
    let network =
        Network::up(Shape { sources: 1, builders: 1, rate: RATE, port_buffer: BUFFER, ..Shape::PLAIN })?;
    Line::lay(&network, "s1")?.impair(DELAY)?;
    forget_paths()?;
    println!("{:<28} {:>7} {:>7} {:>7} {:>6}  Mbit/s", "case", "min", "median", "max", "drops");
    let mut rows = Vec::new();
    for case in CASES.iter().filter(|case| bench.wants(case.name)) {
        let row = measure(bench, &network, case, &mut report)?;
        println!("{}", row.text());
        let (min, median, max) = (row.least(), row.median(), row.most());
        report.attach(
            row.name,
            json!({ "mbit_per_s": { "min": min, "median": median, "max": max, "runs": row.mbits }, "packets_dropped": row.drops }),
        );
        rows.push(row);
    }
    judge(&rows, &mut report);
    Ok(report)
}

/// Makes the sender begin each run without knowledge of the path.
fn forget_paths() -> Result<()> {
    let words = "netns exec evb-s1 sysctl -q -w net.ipv4.tcp_no_metrics_save=1";
    command("ip", &words.split_whitespace().collect::<Vec<_>>()).map(drop)
}

fn measure(bench: &Bench, network: &Network, case: &Case, report: &mut Report) -> Result<Row> {
    network.limit_host("s1", RATE * case.times)?;
    let drops = || -> Result<u64> { Ok(network.ports()?.get("b1").map_or(0, |port| port.drops)) };
    let before = drops()?;
    let mut mbits = Vec::new();
    for _ in 0..bench.runs.max(1) {
        interrupt::check()?;
        mbits.push(rate(bench, network, case, report)? / 1e6);
    }
    mbits.sort_by(f64::total_cmp);
    Ok(Row { name: case.name, mbits, drops: drops()? - before })
}

/// Returns the goodput of a run in bit/s.
fn rate(bench: &Bench, network: &Network, case: &Case, report: &mut Report) -> Result<f64> {
    match case.flow {
        Flow::Stream(pace) => {
            let pace = pace.map(|pace| pace.to_string());
            let mut options = vec!["-C", STUDY_CONTROL];
            options.extend(pace.iter().flat_map(|pace| ["--fq-rate", pace]));
            let received = iperf::run_with(network, bench.seconds, &options)?;
            Ok(received.bytes * 8.0 / received.seconds)
        }
        Flow::Lane(transport, offload) => {
            let shaping = format!("offload = \"{offload}\"");
            let system =
                System::new(Mode::TokenBucket, FRAGMENT).over(transport).slots(SLOTS).shaped(&shaping);
            let outcome = bench.run(network, case.name, system)?;
            report.keep(&outcome);
            report.yes(&format!("{}: every event complete", case.name), outcome.is_complete());
            Ok(outcome.goodput())
        }
    }
}

/// Judges the order of the cases, as far as they were measured.
fn judge(rows: &[Row], report: &mut Report) {
    let of = |name: &str| rows.iter().find(|row| row.name == name);
    let [fast, equal, paced @ ..] = CASES.map(|case| of(case.name));
    if let Some((fast, equal)) = fast.zip(equal) {
        report.noisy("fast host: median goodput", fast.median(), Bound::AtMost(equal.median()));
    }
    if let Some(fast) = fast {
        report.holds("fast host: packets dropped", fast.drops as f64, Bound::AtLeast(1.0));
    }
    for gentle in [equal].into_iter().chain(paced).flatten() {
        let what = format!("{}: packets dropped", gentle.name);
        report.holds(&what, gentle.drops as f64, Bound::AtMost(0.0));
    }
    for (fast, paced) in paced.into_iter().filter_map(|paced| fast.zip(paced)) {
        let what = format!("{}: median goodput", paced.name);
        report.noisy(&what, paced.median(), Bound::AtLeast(fast.median()));
    }
}
