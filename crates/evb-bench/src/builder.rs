//! `evb-bench builder`: measures the event rate as a function of the event size and of the number
//! of slots per builder.

use std::{fmt::Write as _, process::ExitCode, time::Duration};

use evb_core::units::{Bytes, parse_duration};
use indicatif::ProgressBar;
use serde::Serialize;

use super::{
    free_ports,
    output::{BenchError, OutputArguments, failed},
};
use crate::{
    figure::{Axis, Chart, Curve, Figure},
    run::{RunError, run_system},
};

/// Arguments of `evb-bench builder`.
#[derive(clap::Args, Debug)]
pub(super) struct BuilderArguments {
    /// Number of sources.
    #[arg(long, default_value_t = 4)]
    sources: u16,
    /// Number of builders.
    #[arg(long, default_value_t = 4)]
    builders: u16,
    /// Number of sources from which a builder requests data at the same time; 0: as many as its
    /// budget of outstanding bytes allows.
    #[arg(long, default_value_t = 1)]
    sources_at_once: u32,
    /// Numbers of slots, which are the events that a builder may have under construction at the
    /// same time; each number is measured.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8])]
    slots: Vec<u32>,
    /// Event sizes; each of the N sources sends a fragment of 1/N of the event size.
    #[arg(long, value_delimiter = ',', default_value = "16 B,64 B,256 B,1 KiB,4 KiB,16 KiB,64 KiB")]
    sizes: Vec<Bytes>,
    /// Duration of the measurement of each combination of event size and slots.
    #[arg(long, default_value = "1 s", value_parser = parse_duration)]
    duration: Duration,
    #[command(flatten)]
    output: OutputArguments,
}

/// The results for one combination of event size and number of slots.
#[derive(Clone, Debug, Serialize)]
struct Point {
    event_bytes: u64,
    slots: u32,
    sources_at_once: u32,
    events_per_s: f64,
    payload_bytes_per_s: f64,
    latency_us_p50: u64,
    latency_us_p99: u64,
    complete: u64,
    exit_code: u8,
}

/// The settings and all results of the benchmark.
#[derive(Debug, Serialize)]
struct Measurement<'a> {
    bench: &'static str,
    sources: u16,
    builders: u16,
    duration_s: f64,
    points: &'a [Point],
}

/// Runs the benchmark over loopback, with supervisor, sources and builders in this process.
pub(super) fn main(arguments: &BuilderArguments) -> ExitCode {
    let measured = measure(arguments).map_err(BenchError::from);
    match measured.and_then(|points| publish(arguments, &points).map(|()| points)) {
        Ok(points) => ExitCode::from(points.iter().map(|point| point.exit_code).max().unwrap_or(0)),
        Err(error) => failed(&error, matches!(error, BenchError::Run(RunError::Operator(_)))),
    }
}

fn measure(arguments: &BuilderArguments) -> Result<Vec<Point>, RunError> {
    let total = arguments.slots.len() * arguments.sizes.len();
    let bar = ProgressBar::new(total as u64);
    let mut points = Vec::with_capacity(total);
    for size in &arguments.sizes {
        for slots in &arguments.slots {
            bar.set_message(format!("{size}, {slots} slots"));
            points.push(point(arguments, *size, *slots)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(points)
}

fn point(arguments: &BuilderArguments, size: Bytes, slots: u32) -> Result<Point, RunError> {
    let text = configuration(arguments, size, slots)?;
    let loaded =
        evb_config::read(&text, "bench builder").map_err(|error| RunError::Operator(error.to_string()))?;
    let report = run_system(loaded.config)?;
    Ok(Point {
        event_bytes: size.count(),
        slots,
        sources_at_once: arguments.sources_at_once,
        events_per_s: report.rates.events_per_s,
        payload_bytes_per_s: report.rates.payload_bytes_per_s,
        latency_us_p50: report.build_latency_us.p50,
        latency_us_p99: report.build_latency_us.p99,
        complete: report.events.complete,
        exit_code: report.exit_code,
    })
}

/// Returns the TOML configuration of the system to measure.
fn configuration(arguments: &BuilderArguments, size: Bytes, slots: u32) -> Result<String, RunError> {
    let (sources, builders) = (arguments.sources, arguments.builders);
    let fragment = size.count() / u64::from(sources.max(1));
    let ports = free_ports(usize::from(builders) + 1)?;
    let at_once = match arguments.sources_at_once {
        0 => String::new(),
        count => format!("sources_at_once = {count}\n"),
    };
    let mut text = format!(
        "[run]\nduration = \"{} ms\"\n[supervisor]\nlisten = \"127.0.0.1:{}\"\nslots = {slots}\n\
         trigger = {{ kind = \"as-fast-as-possible\" }}\n[shaping]\nmode = \"credit\"\n{at_once}\
         [[source]]\nids = \"1-{sources}\"\ninput = {{ kind = \"generator\", size = \"{fragment} B\" }}\n",
        arguments.duration.as_millis(),
        ports[0],
    );
    for (id, port) in (1..).zip(&ports[1..]) {
        let _ = write!(
            text,
            "[[builder]]\nid = {id}\nlisten = \"127.0.0.1:{port}\"\nsink = {{ kind = \"null\" }}\n"
        );
    }
    Ok(text)
}

fn publish(arguments: &BuilderArguments, points: &[Point]) -> Result<(), BenchError> {
    let measurement = Measurement {
        bench: "builder",
        sources: arguments.sources,
        builders: arguments.builders,
        duration_s: arguments.duration.as_secs_f64(),
        points,
    };
    arguments.output.publish(&measurement, &table(arguments, points), || figure(arguments, points).svg())
}

fn figure(arguments: &BuilderArguments, points: &[Point]) -> Figure {
    let curve = |slots: &u32| {
        let of_slots = points.iter().filter(|point| point.slots == *slots);
        Curve::joined(
            format!("{slots} slots"),
            of_slots.map(|point| (point.event_bytes as f64, point.events_per_s)),
        )
    };
    let curves = arguments.slots.iter().map(curve).collect();
    let chart = Chart::curves(Axis::log("Event size (B)"), Axis::log("Event rate (events/s)"), curves);
    Figure::new(format!("{} × {} event builder over loopback", arguments.sources, arguments.builders))
        .with(chart)
        .note(format!(
            "Events as fast as possible, {}, {:.1} s a point, all roles in one process.",
            at_once(arguments),
            arguments.duration.as_secs_f64()
        ))
}

fn at_once(arguments: &BuilderArguments) -> String {
    match arguments.sources_at_once {
        0 => "all sources at once".to_owned(),
        count => format!("{count} source(s) at a time"),
    }
}

fn table(arguments: &BuilderArguments, points: &[Point]) -> String {
    let mut text = format!(
        "{} sources, {} builders, {}, over loopback\n\n{:>10}  {:>6}  {:>12}  {:>12}  {:>10}  {:>10}\n",
        arguments.sources,
        arguments.builders,
        at_once(arguments),
        "event",
        "slots",
        "events/s",
        "MB/s",
        "p50 µs",
        "p99 µs"
    );
    for point in points {
        let _ = writeln!(
            text,
            "{:>10}  {:>6}  {:>12.0}  {:>12.2}  {:>10}  {:>10}{}",
            Bytes::new(point.event_bytes).to_string(),
            point.slots,
            point.events_per_s,
            point.payload_bytes_per_s / 1e6,
            point.latency_us_p50,
            point.latency_us_p99,
            if point.exit_code == 0 { "" } else { "  not all complete" },
        );
    }
    text
}

#[cfg(test)]
mod tests;
