//! Shares of sources and of streams, as JSON and as a figure.

use std::path::Path;

use anyhow::{Context as _, Result};
use evb_bench::figure::{Axis, Bars, Chart, Figure};
use lab_base::report::Report;
use serde_json::{Value, json};

/// Rate of a source, or of a single stream.
#[derive(Clone, Debug)]
pub(super) struct Share {
    /// Name of the traffic pattern.
    pub(super) case: String,
    /// `raw` for streams of `iperf3`, or the transport of evb.
    pub(super) way: &'static str,
    /// The source, or the source and the builder of a stream.
    pub(super) of: String,
    /// Rate in the paper in Mbit/s, for streams of the paper's network.
    pub(super) paper: Option<f64>,
    /// Rate in Mbit/s that is expected here: the paper's rate, scaled to this network; for evb the
    /// equal share of all ports.
    pub(super) expected: f64,
    pub(super) got: f64,
    /// Rate in the simulator, for traffic that it repeats.
    pub(super) simulated: Option<f64>,
}

impl Share {
    fn json(&self) -> Value {
        json!({
            "case": self.case,
            "way": self.way,
            "of": self.of,
            "paper_mbit_per_s": self.paper,
            "expected_mbit_per_s": self.expected,
            "got_mbit_per_s": self.got,
            "simulated_mbit_per_s": self.simulated,
        })
    }
}

/// Adds the shares to the report, and draws them to `hotspot.svg`.
pub(super) fn publish(shares: &[Share], folder: &Path, report: &mut Report) -> Result<()> {
    if shares.is_empty() {
        return Ok(());
    }
    report.attach("shares", shares.iter().map(Share::json).collect());
    let path = folder.join("hotspot.svg");
    std::fs::write(&path, figure(shares).svg()?).with_context(|| path.display().to_string())?;
    report.note(format!("figure: {}", path.display()));
    Ok(())
}

fn figure(shares: &[Share]) -> Figure {
    let mut charts: Vec<(&str, &str)> = shares.iter().map(|share| (share.case.as_str(), share.way)).collect();
    charts.dedup();
    let chart = |(case, way): &(&str, &str)| {
        let of: Vec<&Share> =
            shares.iter().filter(|share| share.case == *case && share.way == *way).collect();
        let bars =
            |name: &str, value: fn(&Share) -> f64| Bars::new(name, of.iter().map(|share| value(share)));
        let groups = of.iter().map(|share| share.of.clone()).collect();
        let all = vec![bars("measured", |share| share.got), bars("expected", |share| share.expected)];
        Chart::bars("", groups, Axis::linear("Payload (Mbit/s)"), all).titled(format!("{case}, {way}"))
    };
    let figure = charts.iter().map(chart).fold(Figure::new("Shares of sources and streams"), Figure::with);
    figure.columns(2).note(
        "raw: streams of iperf3 without a rate limit; expected: the paper's rate in proportion to this network. tcp, udp: evb \
         in mode credit; expected: an equal share for each source.",
    )
}
