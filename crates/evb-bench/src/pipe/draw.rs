//! The figure of the study.

use super::{
    cases::Kind,
    outcome::{PipePoint, PipeSeries, PipeStudy},
};
use crate::figure::{Axis, Bars, Chart, Curve, Figure};

/// One of the values that a chart of goodput shows.
type Value = fn(&PipePoint) -> u64;

/// The values that a chart of goodput shows.
const VALUES: [(&str, Value); 3] = [
    ("min", |point| point.min_bits_per_s),
    ("median", |point| point.median_bits_per_s),
    ("max", |point| point.max_bits_per_s),
];

pub(super) fn figure(study: &PipeStudy) -> Figure {
    let mut figure = Figure::new("A bulk flow over a long fat path, simulated").columns(2);
    let hosts = study.points.iter().filter(|point| matches!(point.kind, Kind::Fast | Kind::Equal));
    let name = |point: &PipePoint| {
        let host = if point.kind == Kind::Fast { "fast" } else { "equal" };
        format!("{host}, {}", point.transmit_queue)
    };
    figure = figure.with(bars("Goodput by host and transmit queue", "Host, packets", hosts, name));
    if let Some(chart) = gaps(study) {
        figure = figure.with(chart);
    }
    let longest = study.points.iter().map(|point| point.transmit_queue).max().unwrap_or_default();
    let remedies = study.points.iter().filter(|point| {
        point.transmit_queue == longest
            && matches!(point.kind, Kind::Fast | Kind::Clusters | Kind::Pace { .. })
    });
    let short = |point: &PipePoint| point.case.replace("clusters ", "cl. ").replace("pace by ", "");
    figure = figure.with(bars("Goodput of the fast host by remedy", "Remedy", remedies, short));
    let shown = study.series.iter().filter(|series| {
        let is_pair = matches!(series.kind, Kind::Fast | Kind::Equal) && series.transmit_queue == longest;
        is_pair || matches!(series.kind, Kind::Clusters | Kind::Pace { .. })
    });
    for series in shown {
        figure = figure.with(packets(study, series));
    }
    figure.note(format!("{}.", study.setting)).note(NOTE)
}

const NOTE: &str = "Packets per millisecond: of the fast host two seconds around its largest peak, with clusters those after the interval \
    control, of the other cases the last two of the first run. A host that is faster than its path sends X·RTT in X·RTT/Y, and the path \
    spreads these packets; where the router's buffer is smaller than (Y−X)·X·RTT/Y, it drops some.";

fn bars<'p>(
    title: &str,
    label: &str,
    points: impl Iterator<Item = &'p PipePoint>,
    name: impl Fn(&PipePoint) -> String,
) -> Chart {
    let points: Vec<&PipePoint> = points.collect();
    let of = |value: Value| points.iter().map(move |point| value(point) as f64 / 1e6);
    let all = VALUES.map(|(word, value)| Bars::new(word, of(value)));
    let groups = points.iter().map(|point| name(point)).collect();
    Chart::bars(label, groups, Axis::linear("Goodput (Mbit/s)"), all.into()).titled(title)
}

/// Draws goodput over the gap between packets; `None` if no gaps were simulated.
fn gaps(study: &PipeStudy) -> Option<Chart> {
    let gap = |point: &PipePoint| match point.kind {
        Kind::Gap(gap) => Some(gap as f64),
        _ => None,
    };
    let curve = |(word, value): (&str, Value)| {
        let points = study.points.iter().filter_map(|point| Some((gap(point)?, value(point) as f64 / 1e6)));
        Curve::joined(word, points)
    };
    study.points.iter().any(|point| gap(point).is_some()).then(|| {
        let (x, y) = (Axis::linear("Gap added after each packet (B)"), Axis::linear("Goodput (Mbit/s)"));
        Chart::curves(x, y, VALUES.map(curve).into()).titled("Goodput of the fast host by gap")
    })
}

/// Draws the packets of a run per millisecond.
fn packets(study: &PipeStudy, series: &PipeSeries) -> Chart {
    let time = |index: usize| (series.from_ms + index) as f64 / 1e3;
    let points = |bins: &[u32]| {
        bins.iter().enumerate().map(|(at, count)| (time(at), f64::from(*count))).collect::<Vec<_>>()
    };
    let path = study.bottleneck_packets_per_ms;
    let ends = [time(0), time(series.sent.len().saturating_sub(1))].map(|at| (at, path));
    let curves = vec![
        Curve::line("sent", points(&series.sent)),
        Curve::line("received", points(&series.received)),
        Curve::reference("path", ends),
    ];
    let (x, y) = (Axis::linear("Time (s)"), Axis::linear("Packets/ms").between(0.0, 90.0));
    Chart::curves(x, y, curves).titled(format!("{}, queue of {}", series.case, series.transmit_queue))
}
