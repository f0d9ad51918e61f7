//! [`Outcome`]: the result of a fuzz target, read from libFuzzer's output and formatted as a line
//! of the table.

use std::{fmt, time::Duration};

/// Result of running one fuzz target.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) passed: bool,
    took: Duration,
    /// Number of inputs tried; `None` if libFuzzer ended without reporting it.
    executions: Option<u64>,
    /// Number of edges of the control flow graph that the inputs have reached.
    coverage: Option<u64>,
    /// Peak resident memory, in MiB.
    memory: Option<u64>,
}

impl Outcome {
    pub(crate) const HEAD: &str =
        "target            seconds  executions  per second  coverage  peak MiB  result";

    /// Reads the result from `log`, libFuzzer's output on stderr.
    pub(crate) fn read(log: &str, passed: bool, took: Duration) -> Self {
        let stat = |name: &str| {
            let line = log.lines().rev().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().parse().ok()
        };
        // The last line such as "#1024 pulse  cov: 94 ft: 200 corp: …" has the highest coverage.
        let coverage = log.lines().rev().find_map(|line| {
            let (_, rest) = line.split_once(" cov: ")?;
            rest.split_whitespace().next()?.parse().ok()
        });
        let executions = stat("stat::number_of_executed_units");
        Self { passed, took, executions, coverage, memory: stat("stat::peak_rss_mb") }
    }
}

/// Texts that mark relevant lines of the log, each with the number of following lines that belong
/// to it.
const WITH: [(&str, usize); 5] = [
    ("panicked at", 2),
    ("ERROR: libFuzzer", 0),
    ("Base64: ", 0),
    ("Output of `std::fmt::Debug`", SHOWN),
    ("cargo fuzz run", 0),
];
/// Largest number of lines shown of an input, or of a log without relevant lines.
const SHOWN: usize = 40;

/// Extracts the finding from a log: its reason, the input in a portable form, and the command that
/// reproduces it.
pub(crate) fn finding(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let mut shown: Vec<&str> = Vec::new();
    let mut until = 0;
    for (number, line) in lines.iter().enumerate() {
        let marked = WITH.iter().find(|(mark, _)| line.contains(mark));
        until = marked.map_or(until, |(_, more)| number + 1 + more);
        if number < until {
            shown.push(line);
        }
    }
    if shown.is_empty() {
        shown.extend(&lines[lines.len().saturating_sub(SHOWN)..]);
    }
    shown.join("\n")
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), |number| number.to_string());
        let seconds = self.took.as_secs_f64();
        let rate = self.executions.map(|executions| (executions as f64 / seconds).round() as u64);
        write!(
            f,
            "{seconds:>8.1}  {:>10}  {:>10}  {:>8}  {:>8}  {}",
            shown(self.executions),
            shown(rate),
            shown(self.coverage),
            shown(self.memory),
            if self.passed { "nothing found" } else { "FOUND" },
        )
    }
}
