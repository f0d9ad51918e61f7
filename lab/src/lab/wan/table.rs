//! The results of the scenario over a bad line, as a table, as JSON and as a figure.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use evb_bench::figure::{Axis, Bars, Chart, Figure};
use lab_base::{outcome::Outcome, report::Report, system::Transport};
use serde_json::{Value, json};

use super::{Case, FRAGMENT, LineCount, RATE, SOURCES};

/// Result of one run.
#[derive(Debug)]
pub(super) struct Row {
    case: Case,
    outcome: Outcome,
    line: LineCount,
}

impl Row {
    pub(super) fn new(case: &Case, outcome: &Outcome, line: LineCount) -> Self {
        Self { case: *case, outcome: outcome.clone(), line }
    }

    /// Returns true if every event is complete, no fragment is damaged, and every process has exit
    /// code 0.
    pub(super) fn is_whole(&self) -> bool {
        self.outcome.is_complete()
            && self.outcome.is_plausible()
            && self.outcome.number("network.crc_errors") == 0.0
    }

    pub(super) fn damaged(&self) -> f64 {
        self.datagrams("damaged")
    }

    fn datagrams(&self, key: &str) -> f64 {
        self.outcome.number(&format!("network.datagrams.{key}"))
    }

    pub(super) fn header() -> String {
        format!(
            "{:<20} {:<4} {:>7} {:>6} {:>8} {:>8} {:>7} {:>8} {:>6} {:>7} {:>7} {:>8} {:>6} {:>6} {:>7} {:>8}",
            "line",
            "over",
            "Mbit/s",
            "share",
            "p50 ms",
            "p99 ms",
            "events",
            "complete",
            "lost",
            "port",
            "resends",
            "timeouts",
            "late",
            "twice",
            "damaged",
            "TCP's"
        )
    }

    pub(super) fn text(&self) -> String {
        let o = &self.outcome;
        format!(
            "{:<20} {:<4} {:>7.2} {:>5.1}% {:>8.1} {:>8.1} {:>7.0} {:>8} {:>6} {:>7} {:>7.0} {:>8.0} {:>6.0} {:>6.0} {:>7.0} {:>8.0}",
            self.case.name,
            o.system.transport.word(),
            o.goodput() / 1e6,
            o.goodput_share() * 100.0,
            o.latency_us("p50") / 1e3,
            o.latency_us("p99") / 1e3,
            o.number("events.assigned"),
            if self.is_whole() { "all" } else { "NO" },
            self.line.lost,
            o.drops(),
            self.datagrams("resends"),
            self.datagrams("timeouts"),
            self.datagrams("late_after_loss"),
            self.datagrams("duplicates"),
            self.damaged(),
            o.number("network.tcp_retransmits"),
        )
    }

    fn json(&self) -> Value {
        let o = &self.outcome;
        json!({
            "line": self.case.name,
            "netem": self.case.line,
            "transport": o.system.transport.word(),
            "goodput_bit_per_s": o.goodput(),
            "goodput_share": o.goodput_share(),
            "latency_us": { "p50": o.latency_us("p50"), "p99": o.latency_us("p99") },
            "events": o.number("events.assigned"),
            "is_whole": self.is_whole(),
            "line_packets": self.line.packets,
            "line_lost": self.line.lost,
            "port_drops": o.drops(),
            "datagrams": o.summary.pointer("/network/datagrams"),
            "tcp_retransmits": o.number("network.tcp_retransmits"),
        })
    }
}

/// Results of all runs.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
}

impl Table {
    /// Writes the results to `wan-table.json` and a figure to `wan.svg`.
    pub(super) fn publish(&self, folder: &Path, report: &mut Report) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        let path = folder.join("wan-table.json");
        fs::write(&path, serde_json::to_string_pretty(&rows)?).with_context(|| path.display().to_string())?;
        let path = folder.join("wan.svg");
        fs::write(&path, self.figure().svg()?).with_context(|| path.display().to_string())?;
        report.note(format!("figure: {}", path.display()));
        Ok(())
    }

    fn figure(&self) -> Figure {
        let mut cases: Vec<&str> = self.rows.iter().map(|row| row.case.word).collect();
        cases.dedup();
        let bars = |of: fn(&Row) -> f64| {
            [Transport::Tcp, Transport::Udp].map(|transport| {
                let value = |case: &&str| {
                    let row = self
                        .rows
                        .iter()
                        .find(|r| r.case.word == *case && r.outcome.system.transport == transport);
                    row.map_or(f64::NAN, of)
                };
                Bars::new(transport.word().to_uppercase(), cases.iter().map(value))
            })
        };
        let groups = || cases.iter().map(|case| (*case).to_owned()).collect::<Vec<_>>();
        let chart = |title: &str, axis: Axis, of: fn(&Row) -> f64| {
            Chart::bars("", groups(), axis, bars(of).into()).titled(title)
        };
        let whole = self.rows.iter().filter(|row| row.is_whole()).count();
        Figure::new("Lanes over a bad line")
            .with(chart("Goodput", Axis::linear("Of the line (%)").between(0.0, 110.0), |row| {
                row.outcome.goodput_share() * 100.0
            }))
            .with(chart("Build latency, 99 % are below", Axis::log("ms"), |row| {
                row.outcome.latency_us("p99") / 1e3
            }))
            .note(format!(
                "{SOURCES} sources, one builder, fragments of {FRAGMENT} B, credit, a line of {} Mbit/s, as fast as it goes; \
                 impaired by netem each way, under User-Mode Linux. Goodput is that of complete events, as a part of what full \
                 packets carry of payload: 1448 of 1514 B over TCP, 1432 over UDP. In {whole} of {} runs every event was complete \
                 and right to the byte.",
                RATE / 1_000_000,
                self.rows.len()
            ))
    }
}
