//! The tables of the study.

use std::fmt::Write as _;

use evb_core::units::Bytes;

use super::outcome::{PipePoint, PipeStudy, Verdict};
use crate::output::columns;

const HEAD: [&str; 11] = [
    "case",
    "queue",
    "min",
    "median",
    "max Mbit/s",
    "sent/ms",
    "received/ms",
    "dropped",
    "queue full",
    "timeouts",
    "longest queue",
];

/// Formats the whole text output of the study.
pub(super) fn text(study: &PipeStudy) -> String {
    let rows: Vec<Vec<String>> = study.points.iter().map(row).collect();
    let mut page = format!("A bulk flow over a long fat path, simulated: {}\n\n", study.setting);
    page += &columns(&HEAD, &rows);
    let _ = writeln!(
        page,
        "\nqueue: packets of the host's transmit queue. min, median, max: goodput of the runs. sent/ms, received/ms: the largest peak.\n\
         dropped (by the router), queue full, timeouts: mean of the runs. The path carries {:.1} packets/ms, the fast host's link {:.1}.\n\n\
         The fast host is busy for X·RTT/Y = {:.1} ms of each round trip, and needs a buffer of (Y−X)·X·RTT/Y = {} in line bytes.\n\
         Simulated alone, its longest queue was {} after a slow start, and {} where it sent its window at once.\n",
        study.bottleneck_packets_per_ms,
        study.fast_packets_per_ms,
        study.busy_ms,
        Bytes::new(study.computed_buffer_line_bytes),
        Bytes::new(study.queue_after_slow_start_line_bytes),
        Bytes::new(study.queue_of_window_line_bytes),
    );
    for verdict in &study.verdicts {
        page += &line(verdict);
    }
    page
}

fn row(point: &PipePoint) -> Vec<String> {
    let mbit = |bits: u64| format!("{:.2}", bits as f64 / 1e6);
    vec![
        point.case.clone(),
        point.transmit_queue.to_string(),
        mbit(point.min_bits_per_s),
        mbit(point.median_bits_per_s),
        mbit(point.max_bits_per_s),
        point.peak_sent_per_ms.to_string(),
        point.peak_received_per_ms.to_string(),
        format!("{:.1}", point.mean_dropped),
        format!("{:.1}", point.mean_refused),
        format!("{:.1}", point.mean_timeouts),
        Bytes::new(point.queue_peak_bytes).to_string(),
    ]
}

fn line(verdict: &Verdict) -> String {
    let Verdict { what, figure, relation, bound, unit, holds } = verdict;
    let word = if *holds { "ok    " } else { "FAILED" };
    format!("{word}  {what}: {figure:.1}, {relation} {bound:.1} {unit}\n")
}
