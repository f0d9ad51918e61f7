//! The runs of the study, on all cores.

use std::{
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use evb_core::units::Rate;
use evb_shaper::{
    cost::{CELL, PacketCost},
    sums::{busy_time, overload_buffer},
};
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    MTU, PipeArguments,
    cases::{Case, cases, needs, pace_rate},
    judged::judge,
    outcome::{PipeStudy, RunOutcome, point},
};

/// Simulates all cases, and judges them.
pub(super) fn study(arguments: &PipeArguments) -> PipeStudy {
    let cases = cases(arguments);
    let runs = run_all(&cases, arguments.runs());
    let of_cases = cases.iter().zip(&runs).map(|(case, runs)| point(case, runs));
    let (points, series): (Vec<_>, Vec<_>) = of_cases.unzip();
    let (x, y) = (arguments.bottleneck, arguments.fast_rate);
    let cost = PacketCost::tcp(MTU, CELL);
    let per_ms = |rate: Rate| rate.bytes_per_second() / 1e3 / cost.packet_line().count() as f64;
    let busy = busy_time(x, y, arguments.rtt);
    let line = |buffer: u64| buffer / cost.packet_buffer().count() * cost.packet_line().count();
    let [slow_start, at_once] = needs(arguments).map(|pipe| line(pipe.run().queue_peak.count()));
    let mut study = PipeStudy {
        bench: "pipe",
        setting: setting(arguments),
        bottleneck_bits_per_s: x.bits_per_second(),
        bottleneck_packets_per_ms: per_ms(x),
        fast_packets_per_ms: per_ms(y),
        busy_ms: busy.as_secs_f64() * 1e3,
        computed_buffer_line_bytes: overload_buffer(y, x, busy).count(),
        queue_after_slow_start_line_bytes: slow_start,
        queue_of_window_line_bytes: at_once,
        points,
        series: series.into_iter().flatten().collect(),
        verdicts: Vec::new(),
    };
    study.verdicts = judge(&study);
    study
}

fn setting(arguments: &PipeArguments) -> String {
    let PipeArguments { bottleneck, rtt, router_buffer, fast_rate, equal_rate, .. } = arguments;
    format!(
        "bottleneck of {bottleneck}, round trip of {rtt:?}, router buffer of {router_buffer}; links of {fast_rate} (fast host) and {equal_rate} \
         (equal-rate host); receive window of {}, which fills the path; other traffic of {:.0} % in bursts, in both directions; paces of {}; \
         {} runs of {:?} from seed {}",
        arguments.window(),
        arguments.cross_load * 100.0,
        pace_rate(arguments),
        arguments.runs(),
        arguments.span(),
        arguments.seed,
    )
}

/// Simulates each case `runs` times, and returns the outcomes by case.
fn run_all(cases: &[Case], runs: u64) -> Vec<Vec<RunOutcome>> {
    let bar = ProgressBar::new(cases.len() as u64 * runs);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left: {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let all: Vec<(usize, u64)> =
        (0..runs).flat_map(|run| (0..cases.len()).map(move |case| (case, run))).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((case, run)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            bar.set_message(cases[*case].name.clone());
            let outcome = RunOutcome::of(&cases[*case], *run);
            found.lock().unwrap_or_else(PoisonError::into_inner).push((*case, *run, outcome));
            bar.inc(1);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    bar.finish_and_clear();
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(case, run, _)| (*case, *run));
    let mut by_case: Vec<Vec<RunOutcome>> = cases.iter().map(|_| Vec::new()).collect();
    for (case, _, outcome) in found {
        by_case[case].push(outcome);
    }
    by_case
}
