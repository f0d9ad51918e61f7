//! The figure of the study.

use evb_core::units::Frequency;

use super::{
    atlas::BINS as BINS_OF_PANELS,
    judged::{Panel, Study, departure_variation},
    outcome::RunOutcome,
};
use crate::figure::{Axis, Bars, Bins, Chart, Curve, Figure};

const BINS: usize = 80;

pub(super) fn figure(study: &Study) -> Figure {
    if !study.panels.is_empty() {
        return panels(study);
    }
    let mut figure = Figure::new("Triggers made regular").columns(2);
    let overload = study.overload.iter().map(|v| (&v.executor, v.trigger, v.trigger_hz, v.receiver));
    let ticks = study.ticks.iter().map(|v| (&v.executor, v.trigger, v.trigger_hz, v.receiver));
    let passing = study.passing.iter().map(|v| (&v.executor, v.trigger, v.trigger_hz, v.receiver));
    for (executor, trigger, hertz, receiver) in overload.chain(ticks).chain(passing) {
        figure = figure.with(histogram(study, &Shown { executor, trigger, hertz, receiver }));
    }
    if !study.underload.is_empty() {
        figure = figure.with(variation(study));
    }
    if !study.overload.is_empty() {
        figure = figure.with(lateness(study));
    }
    figure.note(format!("{}.", study.setting)).note(WHY).note(why_not_hz(study))
}

const WHY: &str = "Before: the gaps as they come to the receiver when every message leaves as it is triggered. After: the same triggers \
    behind the shaper, all rounds together. Below the assigned rate the departures of a queue with constant service (M/D/1) have a \
    coefficient of variation of √(1−ρ²).";

fn why_not_hz(study: &Study) -> String {
    let late = |executor: &str| {
        let runs = study.runs.iter().filter(|run| run.way == "shaped" && run.executor == executor);
        runs.map(|run| run.late_us.p99).reduce(f64::min).map(|p99| format!("{executor} {p99:.1} µs"))
    };
    let mut executors: Vec<&str> = Vec::new();
    for verdict in &study.overload {
        if !executors.contains(&verdict.executor.as_str()) {
            executors.push(&verdict.executor);
        }
    }
    let measured: Vec<String> = executors.into_iter().filter_map(late).collect();
    let tick = study.tick_us.map_or_else(
        || "this kernel does not report its HZ".to_owned(),
        |tick| format!("this kernel ticks every {:.1} ms", tick / 1e3),
    );
    format!(
        "HZ no longer matters. A kernel whose timers expire at ticks sends at multiples of 1/HZ (10 ms at HZ = 100, where the gaps here \
         are of {:.2} ms). High-resolution timers (hrtimers, Linux 2.6.16 and later; timerfd uses them) program the hardware for each expiry; \
         {tick}, and departures were late by (p99, best run): {}.",
        nominal_ms(study),
        measured.join(", ")
    )
}

/// Draws the six histograms of a preset study.
fn panels(study: &Study) -> Figure {
    let chart = |panel: &Panel| {
        let end = panel.low_ms + panel.bin_ms * BINS_OF_PANELS as f64;
        let bins = |gaps: &[f64], name: &str| Bins::of(name, gaps, panel.low_ms, end, BINS_OF_PANELS);
        let series = panel.series.iter().map(|series| bins(&series.gaps_ms, &series.name)).collect();
        let (x, y) = (Axis::linear("Gap between messages at the receiver (ms)"), Axis::log("Gaps in a bin"));
        let chart = Chart::histogram(x, y, series).titled(panel.title.as_str());
        panel.marks.iter().fold(chart, |chart, (at, name)| chart.vertical(*at, name.as_str()))
    };
    let figure = Figure::new("The six histograms of the ATLAS pseudo-trigger study").columns(2);
    let figure = study.panels.iter().map(chart).fold(figure, Figure::with);
    figure.note(format!("{}.", study.setting)).note(
        "After Yasu et al. The executors tick:100 and tick:1500 imitate kernels whose timers expire at multiples of 1/HZ only; the others \
         are evb's. The best round of each is shown.",
    )
}

/// The messages of a histogram.
struct Shown<'a> {
    executor: &'a str,
    trigger: &'a str,
    hertz: Option<f64>,
    receiver: u32,
}

fn histogram(study: &Study, shown: &Shown<'_>) -> Chart {
    let alike = |run: &&RunOutcome| {
        run.trigger == shown.trigger && run.trigger_hz == shown.hertz && run.receiver == shown.receiver
    };
    let is_after = |run: &RunOutcome| {
        let is_underload = run.trigger == "poisson" && run.load.is_some_and(|load| load < 1.0);
        run.way == "shaped" && run.executor == shown.executor && !is_underload
    };
    let gaps = |of: &dyn Fn(&RunOutcome) -> bool| -> Vec<f64> {
        let runs = study.runs.iter().filter(alike).filter(|run| of(run));
        runs.flat_map(|run| run.gaps.iter().map(|gap| gap / 1e3)).collect()
    };
    let run = study.runs.iter().filter(alike).find(|run| is_after(run));
    let nominal = run.and_then(|run| run.expected_gap_us).map_or_else(|| nominal_ms(study), |gap| gap / 1e3);
    let tick = run.and_then(|run| run.ticks).map_or(0.0, |signs| signs.tick_us / 1e3);
    let end = (nominal * 2.5).max(tick * 2.0);
    let below = run.and_then(|run| run.load).is_some_and(|load| load < 1.0);
    let rate =
        shown.hertz.and_then(Frequency::from_hertz).map_or_else(String::new, |rate| format!(" at {rate}"));
    let to = if shown.receiver > 1 { format!(" to receiver {}", shown.receiver) } else { String::new() };
    Chart::histogram(
        Axis::linear("Gap between messages at the receiver (ms)"),
        Axis::log("Gaps in a bin"),
        vec![
            Bins::of("before", &gaps(&|run| run.way == "unshaped"), 0.0, end, BINS),
            Bins::of("after", &gaps(&is_after), 0.0, end, BINS),
        ],
    )
    .titled(format!(
        "{}{to}, {} triggers{rate}, {}",
        shown.executor,
        shown.trigger,
        if below { "below the rate" } else { "overload" }
    ))
    .vertical(nominal, format!("nominal {nominal:.3} ms"))
}

/// Returns the nominal gap of the overload, in milliseconds.
fn nominal_ms(study: &Study) -> f64 {
    let mut overload = study.runs.iter().filter(|run| run.load.is_some_and(|load| load > 1.0));
    overload.find_map(|run| run.nominal_us).unwrap_or(1000.0) / 1e3
}

fn variation(study: &Study) -> Chart {
    let theory = (0..=100).map(|step| f64::from(step) / 100.0).map(|load| (load, departure_variation(load)));
    let mut curves = vec![Curve::reference("√(1−ρ²)", theory)];
    let mut executors: Vec<&str> = study.underload.iter().map(|verdict| verdict.executor.as_str()).collect();
    executors.dedup();
    executors.sort_unstable();
    executors.dedup();
    for executor in executors {
        let points = study.underload.iter().filter(|verdict| verdict.executor == executor);
        let points = points.flat_map(|verdict| verdict.variation.iter().map(|v| (verdict.load, *v)));
        curves.push(Curve::points(executor, points));
    }
    Chart::curves(
        Axis::linear("Load ρ (offered / assigned)").between(0.0, 1.0),
        Axis::linear("Standard deviation / mean of gaps").between(0.0, 1.0),
        curves,
    )
    .titled("Underload, Poisson triggers")
}

fn lateness(study: &Study) -> Chart {
    let mut groups: Vec<String> = Vec::new();
    let (mut median, mut tail) = (Vec::new(), Vec::new());
    for verdict in &study.overload {
        if groups.contains(&verdict.executor) {
            continue;
        }
        let runs = study.runs.iter().filter(|run| run.way == "shaped" && run.executor == verdict.executor);
        let best = runs.min_by(|a, b| a.late_us.p99.total_cmp(&b.late_us.p99));
        groups.push(verdict.executor.clone());
        median.push(best.map_or(f64::NAN, |run| run.late_us.p50));
        tail.push(best.map_or(f64::NAN, |run| run.late_us.p99));
    }
    for (name, tick) in [("1/HZ here", study.tick_us), ("1/HZ at 100", Some(10_000.0))] {
        if let Some(tick) = tick {
            groups.push(name.to_owned());
            median.push(tick / 2.0);
            tail.push(tick);
        }
    }
    Chart::bars(
        "",
        groups,
        Axis::log("Late against the departure time (µs)"),
        vec![Bars::new("p50", median), Bars::new("p99; of ticks: all of one", tail)],
    )
    .titled("Timers against ticks")
}
