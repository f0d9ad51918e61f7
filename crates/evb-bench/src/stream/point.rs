//! The results, as a table and a figure.

use std::fmt::Write as _;

use evb_core::units::Bytes;
use serde::Serialize;

use super::{plan::Case, sender::Run};
use crate::{
    ends::Transport,
    figure::{Axis, Chart, Curve, Figure},
    interval::Interval,
    output::columns,
};

/// The results for one combination of settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamPoint {
    /// Name of the curve to which the point belongs: its transport and the swept settings.
    pub series: String,
    /// Transport protocol.
    pub transport: Transport,
    /// Size of the records.
    pub record_bytes: u64,
    /// Setting of TCP_NODELAY; `None` over UDP.
    pub nodelay: Option<bool>,
    /// Requested size of the socket buffers; `None`: the system's default.
    pub asked_buffer_bytes: Option<u64>,
    /// Size of the sender's buffer that the kernel granted, at the beginning of the last
    /// measurement.
    pub send_buffer_bytes: u64,
    /// Size of the receiver's buffer that the kernel granted.
    pub receive_buffer_bytes: u64,
    /// Requested size of the largest TCP payload of a packet; `None`: the path's.
    pub asked_mss_bytes: Option<u32>,
    /// Size of the largest TCP payload of a packet, as the kernel states it for the connection.
    pub mss_bytes: Option<u32>,
    /// Interrupt coalescing of the sender's device as TX/RX in microseconds; `None`: unchanged.
    pub coalescing_us: Option<String>,
    /// Rate of the payload at the receiver, in bit/s.
    pub rate_bits_per_s: Interval,
    /// Number of datagrams that the sender's kernel took, in all measurements; 0 over TCP.
    pub datagrams_sent: u64,
    /// Number of datagrams that arrived, in all measurements.
    pub datagrams_received: u64,
    /// Fraction of the datagrams that did not arrive; `None` over TCP.
    pub lost: Option<f64>,
    /// Number of datagrams of other programs that arrived.
    pub foreign: u64,
}

impl StreamPoint {
    pub(super) fn new(case: &Case, rate: Interval, runs: &[Run]) -> Self {
        let is_udp = case.transport == Transport::Udp;
        let sum = |of: fn(&Run) -> u64| runs.iter().map(of).sum::<u64>();
        let sent = if is_udp { sum(|run| run.sent) } else { 0 };
        let received = sum(|run| run.counted.datagrams);
        let last = runs.last();
        Self {
            series: case.series.clone(),
            transport: case.transport,
            record_bytes: case.record.count(),
            nodelay: case.nodelay,
            asked_buffer_bytes: case.buffer.map(Bytes::count),
            send_buffer_bytes: last.map_or(0, |run| run.send_buffer.count()),
            receive_buffer_bytes: last.map_or(0, |run| run.receive_buffer.count()),
            asked_mss_bytes: case.mss,
            mss_bytes: last.and_then(|run| run.mss),
            coalescing_us: case.coalescing.map(|times| times.to_string()),
            rate_bits_per_s: rate,
            datagrams_sent: sent,
            datagrams_received: received,
            lost: is_udp.then(|| sent.saturating_sub(received) as f64 / sent.max(1) as f64),
            foreign: sum(|run| run.counted.foreign),
        }
    }

    /// Returns the number of records per second at the mean rate.
    fn records_per_s(&self) -> f64 {
        self.rate_bits_per_s.mean / 8.0 / self.record_bytes as f64
    }

    /// Returns true if the kernel granted other buffers than requested.
    fn has_other_buffers(&self) -> bool {
        self.asked_buffer_bytes
            .is_some_and(|asked| self.send_buffer_bytes != asked || self.receive_buffer_bytes != asked)
    }
}

/// The results for all points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamTable {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// Description of the settings that all points share.
    pub setting: String,
    /// Results, one for each point.
    pub points: Vec<StreamPoint>,
    /// Remarks on the measurement.
    pub remarks: Vec<String>,
}

impl StreamTable {
    pub(super) fn new(setting: String, remarks: Vec<String>) -> Self {
        Self { bench: "stream", setting, points: Vec::new(), remarks }
    }

    /// Adds a point, and remarks on what is unusual about it.
    pub(super) fn add(&mut self, point: StreamPoint) {
        if point.has_other_buffers() {
            let remark = format!(
                "{}: the kernel granted {} to send and {} to receive (net.core.wmem_max, net.core.rmem_max)",
                point.series,
                Bytes::new(point.send_buffer_bytes),
                Bytes::new(point.receive_buffer_bytes),
            );
            if !self.remarks.contains(&remark) {
                self.remarks.push(remark);
            }
        }
        self.points.push(point);
    }

    /// Formats the table for people.
    pub fn text(&self) -> String {
        let head = ["flow", "record", "Mbit/s", "interval", "measured", "records/s", "lost", "MSS"];
        let row = |point: &StreamPoint| {
            vec![
                point.series.clone(),
                Bytes::new(point.record_bytes).to_string(),
                format!("{:.2}", point.rate_bits_per_s.mean / 1e6),
                point.rate_bits_per_s.width_text(),
                format!("{} ×", point.rate_bits_per_s.samples.len()),
                format!("{:.0}", point.records_per_s()),
                point.lost.map_or_else(|| "-".to_owned(), |lost| format!("{:.2} %", lost * 100.0)),
                point.mss_bytes.map_or_else(|| "-".to_owned(), |mss| mss.to_string()),
            ]
        };
        let rows: Vec<Vec<String>> = self.points.iter().map(row).collect();
        let mut text = format!("Throughput {}\n\n{}", self.setting, columns(&head, &rows));
        for remark in self.remarks.iter().chain(&self.wide()) {
            let _ = writeln!(text, "note: {remark}");
        }
        text
    }

    /// Returns a remark if the interval of a point is wider than requested.
    fn wide(&self) -> Option<String> {
        let wide = self.points.iter().filter(|point| point.rate_bits_per_s.is_wide()).count();
        (wide > 0).then(|| {
            format!("{wide} of {} points did not become as narrow as requested (wide)", self.points.len())
        })
    }

    /// Draws the rate over the record size; over the buffers or the packet size, if only these are
    /// swept.
    pub fn figure(&self) -> Figure {
        let (label, place) = self.abscissa();
        let mut series: Vec<String> = Vec::new();
        for point in &self.points {
            let name = self.curve(point);
            if !series.contains(&name) {
                series.push(name);
            }
        }
        let curve = |name: &String| {
            let own = || self.points.iter().filter(|point| self.curve(point) == *name);
            let places = own().map(|point| (place(point), point.rate_bits_per_s.mean / 1e6));
            let errors = own().map(|point| {
                let (low, high) = point.rate_bits_per_s.ends();
                (low / 1e6, high / 1e6)
            });
            Curve::joined(name.as_str(), places).with_errors(errors)
        };
        let curves = series.iter().map(curve).collect();
        let chart = Chart::curves(Axis::log(label), Axis::log("Throughput (Mbit/s of payload)"), curves);
        let figure = Figure::new("Throughput of one flow").with(chart).note(format!("{}.", self.setting));
        self.remarks.iter().chain(&self.wide()).fold(figure, |figure, remark| figure.note(remark.as_str()))
    }

    fn has_one_record(&self) -> bool {
        let first = self.points.first().map(|point| point.record_bytes);
        self.points.iter().all(|point| Some(point.record_bytes) == first)
    }

    /// Returns the label of the horizontal axis, and the function that gives a point's place on it.
    fn abscissa(&self) -> (&'static str, fn(&StreamPoint) -> f64) {
        let has = |swept: fn(&StreamPoint) -> bool| self.points.iter().any(swept);
        if self.has_one_record() && has(|point| point.asked_buffer_bytes.is_some()) {
            ("Socket buffers (B)", |point| point.asked_buffer_bytes.map_or(f64::NAN, |size| size as f64))
        } else if self.has_one_record() && has(|point| point.asked_mss_bytes.is_some()) {
            ("Largest TCP payload of a packet (B)", |point| point.asked_mss_bytes.map_or(f64::NAN, f64::from))
        } else {
            ("Record size (B)", |point| point.record_bytes as f64)
        }
    }

    /// Returns the name of a point's curve: the transport alone if the swept setting is on the
    /// axis.
    fn curve(&self, point: &StreamPoint) -> String {
        let is_on_axis = |part: &&str| part.starts_with("buffers") || part.starts_with("MSS");
        if self.abscissa().0 == "Record size (B)" {
            return point.series.clone();
        }
        point.series.split(", ").filter(|part| !is_on_axis(part)).collect::<Vec<_>>().join(", ")
    }
}
