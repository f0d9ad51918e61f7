//! The results, as a table and a figure.

use std::fmt::Write as _;

use evb_core::units::Bytes;
use serde::Serialize;

use super::client::{self, Case, Run};
use crate::{
    ends::Transport,
    figure::{Axis, Chart, Curve, Figure},
    interval::Interval,
    output::columns,
};

/// The results for one transport, length and number of outstanding requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestPoint {
    /// Transport protocol.
    pub transport: Transport,
    /// Number of outstanding requests.
    pub outstanding: usize,
    /// Length of the responses.
    pub response_bytes: u64,
    /// Rate of the responses, per second.
    pub requests_per_s: Interval,
    /// Mean rate of the responses' bytes, in bit/s.
    pub bits_per_s: f64,
    /// Mean time from a request to its response, in microseconds; `None` without a response.
    pub round_trip_us: Option<f64>,
    /// Number of requests, in all measurements.
    pub requests: u64,
    /// Number of requests without a response in time, in all measurements; always 0 over TCP.
    pub lost: u64,
    /// Number of responses that came after their request had counted as lost.
    pub late: u64,
}

impl RequestPoint {
    pub(super) fn new(case: &Case, rate: Interval, runs: &[Run]) -> Self {
        let sum = |of: fn(&Run) -> u64| runs.iter().map(of).sum::<u64>();
        Self {
            transport: case.transport,
            outstanding: case.outstanding,
            response_bytes: case.length.count(),
            bits_per_s: rate.mean * case.length.count() as f64 * 8.0,
            requests_per_s: rate,
            round_trip_us: client::round_trip(runs).map(|trip| trip.as_secs_f64() * 1e6),
            requests: sum(|run| run.requests),
            lost: sum(|run| run.lost),
            late: sum(|run| run.late),
        }
    }

    fn series(&self) -> String {
        format!("{}, {} outstanding", self.transport, self.outstanding)
    }
}

/// The results for all points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestTable {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// Description of the settings that all points share.
    pub setting: String,
    /// Results, one for each point.
    pub points: Vec<RequestPoint>,
    /// Remarks on the measurement.
    pub remarks: Vec<String>,
}

impl RequestTable {
    pub(super) fn new(setting: String, remarks: Vec<String>) -> Self {
        Self { bench: "request", setting, points: Vec::new(), remarks }
    }

    /// Formats the table for people.
    pub fn text(&self) -> String {
        let head = [
            "flow",
            "response",
            "requests/s",
            "interval",
            "measured",
            "Mbit/s",
            "round trip",
            "lost",
            "late",
        ];
        let row = |point: &RequestPoint| {
            vec![
                point.series(),
                Bytes::new(point.response_bytes).to_string(),
                format!("{:.0}", point.requests_per_s.mean),
                point.requests_per_s.width_text(),
                format!("{} ×", point.requests_per_s.samples.len()),
                format!("{:.2}", point.bits_per_s / 1e6),
                point.round_trip_us.map_or_else(|| "-".to_owned(), |trip| format!("{trip:.1} µs")),
                point.lost.to_string(),
                point.late.to_string(),
            ]
        };
        let rows: Vec<Vec<String>> = self.points.iter().map(row).collect();
        let mut text = format!("Requests {}\n\n{}", self.setting, columns(&head, &rows));
        for remark in self.remarks.iter().chain(&self.found()) {
            let _ = writeln!(text, "note: {remark}");
        }
        text
    }

    /// Returns remarks on wide intervals and lost requests.
    fn found(&self) -> Vec<String> {
        let wide = self.points.iter().filter(|point| point.requests_per_s.is_wide()).count();
        let sum = |of: fn(&RequestPoint) -> u64| self.points.iter().map(of).sum::<u64>();
        let (lost, requests) = (sum(|point| point.lost), sum(|point| point.requests));
        let mut found = Vec::new();
        if wide > 0 {
            let points = self.points.len();
            found.push(format!("{wide} of {points} points did not become as narrow as requested (wide)"));
        }
        if lost > 0 {
            found.push(format!("{lost} of {requests} requests had no response in time"));
        }
        found
    }

    /// Draws the rate of requests and the rate of bytes over the length of the response.
    pub fn figure(&self) -> Figure {
        let mut series: Vec<String> = Vec::new();
        for point in &self.points {
            if !series.contains(&point.series()) {
                series.push(point.series());
            }
        }
        let curves = |scale: &dyn Fn(&RequestPoint) -> f64| {
            let curve = |name: &String| {
                let own = || self.points.iter().filter(|point| point.series() == *name);
                let place = |point: &RequestPoint| {
                    (point.response_bytes as f64, point.requests_per_s.mean * scale(point))
                };
                let errors = own().map(|point| {
                    let (low, high) = point.requests_per_s.ends();
                    (low * scale(point), high * scale(point))
                });
                Curve::joined(name.as_str(), own().map(place)).with_errors(errors)
            };
            series.iter().map(curve).collect()
        };
        let length = || Axis::log("Length of the response (B)");
        let requests = Chart::curves(length(), Axis::log("Requests per second"), curves(&|_| 1.0));
        let rate = Chart::curves(
            length(),
            Axis::log("Payload of responses (Mbit/s)"),
            curves(&|point| point.response_bytes as f64 * 8.0 / 1e6),
        );
        let figure = Figure::new("Requests and responses")
            .with(requests)
            .with(rate)
            .note(format!("{}.", self.setting));
        self.remarks.iter().chain(&self.found()).fold(figure, |figure, remark| figure.note(remark.as_str()))
    }
}
