//! Event rates by event size and by the number of outstanding events, as JSON and as a figure.

use std::path::Path;

use anyhow::{Context as _, Result};
use evb_bench::figure::{Axis, Chart, Curve, Figure};
use lab_base::{report::Report, system::Transport};
use serde_json::{Value, json};

/// Result of one run.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) transport: Transport,
    /// Number of outstanding events per builder.
    pub(super) slots: u32,
    /// Number of sources that a builder lets send at once.
    pub(super) at_once: u32,
    /// Payload bytes of an event.
    pub(super) size: u64,
    /// Events per second of all builders together.
    pub(super) rate: f64,
    /// Events per second that the links carry.
    pub(super) most: f64,
    /// Share of the run in which the machine's cores were busy.
    pub(super) busy: f64,
    pub(super) drops: u64,
    /// Median build latency in µs.
    pub(super) latency_us: f64,
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "transport": self.transport.word(),
            "slots": self.slots,
            "sources_at_once": self.at_once,
            "event_bytes": self.size,
            "events_per_s": self.rate,
            "links_carry_events_per_s": self.most,
            "machine_busy": self.busy,
            "drops": self.drops,
            "build_latency_us_p50": self.latency_us,
        })
    }
}

/// Adds the rows and the idle round trip in seconds to the report, and draws the rates to
/// `rcnp-cascade.svg`, or to `rcnp-delay.svg` if the trunks have a delay.
pub(super) fn publish(
    rows: &[Row],
    round_trip: f64,
    is_delayed: bool,
    folder: &Path,
    report: &mut Report,
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    report.attach("rates", rows.iter().map(Row::json).collect());
    report.attach("idle_round_trip_us", json!(round_trip * 1e6));
    let path = folder.join(if is_delayed { "rcnp-delay.svg" } else { "rcnp-cascade.svg" });
    std::fs::write(&path, figure(rows, round_trip).svg()?).with_context(|| path.display().to_string())?;
    report.note(format!("figure: {}", path.display()));
    Ok(())
}

fn figure(rows: &[Row], round_trip: f64) -> Figure {
    let mut transports: Vec<Transport> = rows.iter().map(|row| row.transport).collect();
    transports.dedup();
    let chart = |transport: &Transport| {
        let of_transport = || rows.iter().filter(|row| row.transport == *transport);
        let way = |row: &Row| (row.slots, row.at_once);
        let mut ways: Vec<(u32, u32)> = of_transport().map(way).collect();
        ways.dedup();
        let most = ways.first().map(|first| {
            let of_first = of_transport().filter(|row| way(row) == *first);
            Curve::reference("links", of_first.map(|row| (row.size as f64, row.most)))
        });
        let curve = |(slots, at_once): (u32, u32)| {
            let points = of_transport().filter(|row| way(row) == (slots, at_once));
            let one = if at_once < slots { ", one request" } else { "" };
            let points = points.map(|row| (row.size as f64, row.rate));
            Curve::joined(format!("{slots} outstanding{one}"), points)
        };
        let curves = most.into_iter().chain(ways.iter().copied().map(curve)).collect();
        let (x, y) = (Axis::log("Event size (B)"), Axis::log("Events per second"));
        Chart::curves(x, y, curves).titled(transport.word().to_uppercase())
    };
    let figure = transports.iter().map(chart).fold(Figure::new("Three switches in a row"), Figure::with);
    figure.columns(transports.len()).note(format!(
        "Four sources, a supervisor and four builders at three switches; a builder has as many requests to sources under way as events. \
         The round trip of a small datagram between source and builder is {:.2} ms while the network is idle.",
        round_trip * 1e3
    ))
}

#[cfg(test)]
mod tests;
