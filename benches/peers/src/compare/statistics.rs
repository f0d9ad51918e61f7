use super::Workload;
use crate::report::Report;
use serde::Serialize;
use std::fmt::Write;

/// Results for one workload: every program's median, and the ratios of evb's rate to the others.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Workload on which the programs ran.
    pub workload: Workload,
    /// Results of each program, in the order in which the programs ran.
    pub programs: Vec<Summary>,
    /// Median event rate of evb divided by that of plain sockets.
    pub evb_to_plain: Option<f64>,
    /// Median event rate of evb divided by that of ZeroMQ.
    pub evb_to_zeromq: Option<f64>,
}

/// Result of one program on one workload, over all its runs.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the program.
    pub program: String,
    /// Number of runs of the program.
    pub runs: usize,
    /// Median over the runs of the overall event rate, in events/s.
    pub events_per_s: f64,
    /// Overall event rate of the slowest run, in events/s.
    pub events_per_s_min: f64,
    /// Overall event rate of the fastest run, in events/s.
    pub events_per_s_max: f64,
    /// Median over the runs of the payload rate, in bytes/s.
    pub payload_bytes_per_s: f64,
    /// The largest resident memory of any process of any run.
    pub peak_rss_bytes_max: u64,
    /// Median over the runs of the processor time of all processes, in seconds per GB of payload.
    pub cpu_s_per_gb: f64,
    /// Median over the runs of the processor time of all processes, in seconds per million events.
    pub cpu_s_per_million_events: f64,
    /// Number of events that never became complete, summed over all runs.
    pub incomplete: u64,
    /// Number of packets that the ports of the lab's switch dropped, summed over all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drops: Option<u64>,
}

/// Returns one row of results per workload.
pub fn rows(workloads: &[Workload], runs: &[Report]) -> Vec<Row> {
    workloads.iter().map(|workload| row(*workload, runs)).collect()
}

fn row(workload: Workload, runs: &[Report]) -> Row {
    let of = |run: &Report| Workload { sources: run.sources, builders: run.builders, size: run.size };
    let runs: Vec<&Report> = runs.iter().filter(|run| of(run) == workload).collect();
    let mut programs: Vec<Summary> = Vec::new();
    for run in &runs {
        if !programs.iter().any(|known| known.program == run.program) {
            programs.push(summary(&run.program, &runs));
        }
    }
    let rate = |program: &str| programs.iter().find(|one| one.program == program).map(|one| one.events_per_s);
    let ratio = |other| rate("evb").zip(rate(other)).map(|(evb, other)| evb / other);
    Row { workload, evb_to_plain: ratio("plain"), evb_to_zeromq: ratio("zeromq"), programs }
}

fn summary(program: &str, runs: &[&Report]) -> Summary {
    let runs: Vec<&&Report> = runs.iter().filter(|run| run.program == program).collect();
    let bytes_per_event = runs.first().map_or(0.0, |run| f64::from(run.sources) * run.size as f64);
    let rates: Vec<f64> = runs.iter().map(|run| run.events_per_s_overall).collect();
    Summary {
        program: program.to_owned(),
        runs: runs.len(),
        events_per_s: median(rates.clone()),
        payload_bytes_per_s: median(rates.clone()) * bytes_per_event,
        events_per_s_min: rates.iter().copied().fold(f64::INFINITY, f64::min),
        events_per_s_max: rates.iter().copied().fold(0.0, f64::max),
        cpu_s_per_gb: median(runs.iter().map(|run| cpu_s_per_gb(run)).collect()),
        cpu_s_per_million_events: median(runs.iter().map(|run| cpu_s_per_million_events(run)).collect()),
        peak_rss_bytes_max: runs.iter().map(|run| run.peak_rss_bytes_max).max().unwrap_or(0),
        incomplete: runs.iter().map(|run| run.incomplete).sum(),
        drops: runs.iter().map(|run| run.drops).sum(),
    }
}

/// Returns the processor time per GB of the payload of all events, those of the warm-up included:
/// their time is included, too.
fn cpu_s_per_gb(run: &Report) -> f64 {
    let bytes = (run.complete + run.incomplete) as f64 * f64::from(run.sources) * run.size as f64;
    run.cpu_seconds / bytes * 1e9
}

fn cpu_s_per_million_events(run: &Report) -> f64 {
    run.cpu_seconds / (run.complete + run.incomplete) as f64 * 1e6
}

/// Returns the median: the middle value, or the mean of the two middle values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Formats the rows as a table for people.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<18} {:<8} {:>12} {:>25} {:>9} {:>9} {:>13} {:>9} {:>10} {:>8} {:>10} {:>10}\n",
        "workload",
        "program",
        "events/s",
        "(min .. max)",
        "Gbit/s",
        "CPU s/GB",
        "CPU s/Mevents",
        "RSS MB",
        "incomplete",
        "drops",
        "evb/plain",
        "evb/zeromq"
    );
    for row in rows {
        let Workload { sources, builders, size } = row.workload;
        for one in &row.programs {
            let range = format!("({:.0} .. {:.0})", one.events_per_s_min, one.events_per_s_max);
            let ratio = |ratio: Option<f64>| {
                ratio.filter(|_| one.program == "evb").map_or(String::new(), |ratio| format!("{ratio:.2}"))
            };
            let _ = writeln!(
                text,
                "{:<18} {:<8} {:>12.0} {range:>25} {:>9.2} {:>9.2} {:>13.2} {:>9.0} {:>10} {:>8} {:>10} {:>10}",
                format!("{sources}x{builders} {size} B"),
                one.program,
                one.events_per_s,
                one.payload_bytes_per_s * 8e-9,
                one.cpu_s_per_gb,
                one.cpu_s_per_million_events,
                one.peak_rss_bytes_max as f64 / 1e6,
                one.incomplete,
                one.drops.map_or_else(|| "–".to_owned(), |drops| drops.to_string()),
                ratio(row.evb_to_plain),
                ratio(row.evb_to_zeromq),
            );
        }
    }
    text.trim_end().to_owned()
}
