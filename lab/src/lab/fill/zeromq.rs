//! Runs the ZeroMQ event builder of `benches/peers`, one process per role on the lab's hosts. The
//! roles exchange lines with this launcher (see `benches/peers/src/barrier.rs`), so that all start
//! together and end at the same event.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{ChildStdin, ChildStdout, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use lab_base::{
    guard::Guarded,
    network::{Network, address},
};
use serde_json::Value;

use super::Case;

/// Time from the start until latencies are counted, in seconds.
const WARMUP: f64 = 0.5;
/// Time allowed in addition to the duration of a run, in seconds.
const GRACE: f64 = 40.0;
/// Time between the last `ready` and the start of the run, so that all roles learn the start time
/// before it is reached.
const HEAD_START: Duration = Duration::from_millis(100);
/// Binary logarithm of the number of histogram buckets for each factor of 2 in latency.
const STEPS_BITS: u32 = 5;

/// Result of a run of the ZeroMQ event builder.
pub(super) struct Built {
    /// Payload bytes of all complete events; `seconds` is the time from the start to the completion
    /// of the last event.
    pub(super) bytes: f64,
    pub(super) seconds: f64,
    pub(super) incomplete: u64,
    /// Median latency in microseconds; like `p99`, NaN if no latency was counted.
    pub(super) p50: f64,
    pub(super) p99: f64,
}

struct Role {
    name: String,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
    process: Guarded,
}

impl Role {
    fn start(
        network: &Network,
        peers: &Path,
        host: &str,
        arguments: &[String],
        seconds: f64,
    ) -> Result<Self> {
        // The program `timeout` ends a role that hangs, which would otherwise block the lab.
        let mut command = network.command(host, "timeout");
        command.arg((seconds + WARMUP + GRACE).to_string()).arg(peers).arg("zeromq").args(arguments);
        command.args(["--seconds", &seconds.to_string(), "--warmup", &WARMUP.to_string()]);
        let mut child = command
            .arg("--launched")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting peers on {host}"))?;
        let tell = child.stdin.take().context("peers has no input")?;
        let hear = BufReader::new(child.stdout.take().context("peers has no output")?);
        Ok(Self { name: host.to_owned(), tell, hear, process: Guarded(child) })
    }

    /// Reads the next line, which must begin with `word`, and returns the rest of the line.
    fn hear(&mut self, word: &str) -> Result<String> {
        let mut line = String::new();
        self.hear.read_line(&mut line)?;
        let rest = line.trim().strip_prefix(word).map(|rest| rest.trim().to_owned());
        rest.with_context(|| format!("peers on {} said `{}` for `{word}`", self.name, line.trim()))
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        writeln!(self.tell, "{line}").with_context(|| format!("peers on {} does not listen", self.name))
    }
}

pub(super) fn run(network: &Network, peers: &Path, case: &Case, seconds: f64) -> Result<Built> {
    let (sources, builders) = (case.shape.sources, case.shape.builders);
    let mut common = vec!["--size".to_owned(), case.fragment.to_string()];
    if let Some(rate) = case.rate {
        common.extend(["--rate".to_owned(), rate.to_string()]);
    }
    let mut listening = Vec::new();
    let mut building = Vec::new();
    for j in 1..=builders {
        let bind = format!("{}:7301", address(&format!("b{j}"))?);
        let own = ["builder", "--id", &j.to_string(), "--bind", &bind].map(str::to_owned);
        let counts =
            ["--sources", &sources.to_string(), "--builders", &builders.to_string()].map(str::to_owned);
        let arguments = [&own[..], &counts[..], &common[..]].concat();
        let mut role = Role::start(network, peers, &format!("b{j}"), &arguments, seconds)?;
        role.hear("listening")?;
        building.push(role);
        listening.push(bind);
    }
    let mut sending = Vec::new();
    for i in 1..=sources {
        let own = ["source", "--id", &i.to_string(), "--connect", &listening.join(",")].map(str::to_owned);
        let arguments = [&own[..], &common[..]].concat();
        sending.push(Role::start(network, peers, &format!("s{i}"), &arguments, seconds)?);
    }
    for role in building.iter_mut().chain(&mut sending) {
        role.hear("ready")?;
    }
    let start_ns = (SystemTime::now().duration_since(UNIX_EPOCH)? + HEAD_START).as_nanos() as u64;
    for role in building.iter_mut().chain(&mut sending) {
        role.tell(&format!("go {start_ns}"))?;
    }
    let mut last = 0;
    for role in &mut sending {
        last = last.max(role.hear("reached")?.parse::<u64>()?);
    }
    sending.iter_mut().try_for_each(|role| role.tell(&format!("until {last}")))?;
    let reports = |roles: &mut [Role]| -> Result<Vec<Value>> {
        roles.iter_mut().map(|role| Ok(serde_json::from_str(&role.hear("")?)?)).collect()
    };
    reports(&mut sending)?;
    let built = reports(&mut building)?;
    // The kernel adds a process's time to its parent's when the process has ended by itself.
    for role in building.iter_mut().chain(&mut sending) {
        role.process.0.wait()?;
    }
    summarise(&built, start_ns, last, case)
}

fn summarise(built: &[Value], start_ns: u64, events: u64, case: &Case) -> Result<Built> {
    let number = |report: &Value, key: &str| {
        report[key].as_u64().with_context(|| format!("a builder of peers reports no `{key}`"))
    };
    let (mut complete, mut last_ns, mut latencies) = (0, 0, BTreeMap::new());
    for report in built {
        complete += number(report, "complete")?;
        last_ns = number(report, "last_ns")?.max(last_ns);
        for (bucket, count) in report["latencies"]["counts"].as_object().into_iter().flatten() {
            *latencies.entry(bucket.parse()?).or_insert(0) += count.as_u64().context("no count")?;
        }
    }
    ensure!(complete > 0 && last_ns > start_ns, "ZeroMQ has built no event");
    Ok(Built {
        bytes: complete as f64 * case.fragment as f64 * f64::from(case.shape.sources),
        seconds: (last_ns - start_ns) as f64 / 1e9,
        incomplete: events.saturating_sub(complete),
        p50: quantile(&latencies, 0.5),
        p99: quantile(&latencies, 0.99),
    })
}

/// Returns a quantile of a histogram of latencies, in microseconds; NaN if the histogram is empty.
/// `counts` maps bucket numbers to counts.
pub(super) fn quantile(counts: &BTreeMap<u32, u64>, fraction: f64) -> f64 {
    let wanted = (counts.values().sum::<u64>() as f64 * fraction).ceil() as u64;
    let mut seen = 0;
    for (bucket, count) in counts {
        seen += count;
        if seen >= wanted.max(1) {
            return upper_edge(*bucket) as f64 / 1e3;
        }
    }
    f64::NAN
}

/// Returns the largest latency that belongs to a bucket, in nanoseconds; each factor of 2 in
/// latency has 32 buckets.
fn upper_edge(bucket: u32) -> u64 {
    let steps = 1 << STEPS_BITS;
    let (octave, step) = (bucket / steps, u64::from(bucket % steps));
    match octave.checked_sub(1) {
        None => step,
        Some(shift) => ((u64::from(steps) + step + 1) << shift) - 1,
    }
}
