//! The tables of the study.

use std::fmt::Write as _;

use super::{
    judged::{AGREEMENT, OverloadVerdict, REGULAR, Study, UnderloadVerdict},
    outcome::RunOutcome,
};
use crate::output::columns;

/// Formats the whole text output of the study.
pub(super) fn text(study: &Study) -> String {
    let mut page = format!("Random triggers made regular: {}\n", study.setting);
    let over = |run: &&RunOutcome| run.load.is_none_or(|load| load > 1.0);
    let (over, under): (Vec<_>, Vec<_>) = study.runs.iter().partition(over);
    page += "\nOverload: the gaps at the receiver, by the kernel's time stamps\n";
    page += &columns(&HEAD, &over.into_iter().map(row).collect::<Vec<_>>());
    page += &overload(&study.overload);
    if !under.is_empty() {
        page += "\nUnderload, Poisson triggers: standard deviation of the gaps over their mean\n";
        page += &columns(&UNDER_HEAD, &under.into_iter().map(under_row).collect::<Vec<_>>());
        page += &underload(&study.underload);
    }
    page += &counts(study);
    for remark in &study.remarks {
        let _ = writeln!(page, "note: {remark}");
    }
    page
}

const HEAD: [&str; 11] = [
    "sent by",
    "trigger",
    "round",
    "within 5 %",
    "gap p1",
    "p50",
    "p99",
    "late p50",
    "p99",
    "rate got",
    "core",
];

fn row(run: &RunOutcome) -> Vec<String> {
    vec![
        format!("{} {}", run.way, run.executor),
        run.trigger.to_owned(),
        run.round.to_string(),
        run.within_5_percent.map_or_else(|| "-".into(), |share| format!("{:.2} %", share * 100.0)),
        micros(run.gap_us.p01),
        micros(run.gap_us.p50),
        micros(run.gap_us.p99),
        micros(run.late_us.p50),
        micros(run.late_us.p99),
        format!("{:.4} Mbit/s", run.got_bits_per_s / 1e6),
        cpu(run),
    ]
}

fn overload(verdicts: &[OverloadVerdict]) -> String {
    let mut text = String::new();
    for verdict in verdicts {
        let best = |shares: &[f64]| shares.iter().copied().fold(f64::NAN, f64::max) * 100.0;
        let bare = match verdict.difference.zip(verdict.no_worse) {
            None => "no bare loop to compare with".to_owned(),
            Some((difference, no_worse)) => format!(
                "bare loop {:.2} %, round by round {:+.2} points: {}",
                best(&verdict.bare),
                difference * 100.0,
                if no_worse { "no worse" } else { "WORSE" }
            ),
        };
        let _ = writeln!(
            text,
            "  {} {}: best of {} rounds {:.2} % ({}at least {:.0} %), {bare}",
            verdict.executor,
            verdict.trigger,
            verdict.shaped.len(),
            best(&verdict.shaped),
            if verdict.regular { "" } else { "NOT " },
            REGULAR * 100.0,
        );
    }
    text
}

const UNDER_HEAD: [&str; 9] =
    ["sent by", "round", "load", "load drawn", "triggers", "ideal line", "measured", "√(1−ρ²)", "core"];

fn under_row(run: &RunOutcome) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.3}"));
    vec![
        format!("{} {}", run.way, run.executor),
        run.round.to_string(),
        number(run.load),
        number(run.load_drawn),
        number(run.variation_triggers),
        number(run.variation_ideal),
        number(run.variation),
        number(run.load.map(super::judged::departure_variation)),
        cpu(run),
    ]
}

fn underload(verdicts: &[UnderloadVerdict]) -> String {
    let mut text = String::new();
    for verdict in verdicts {
        let off: Vec<String> = verdict
            .variation
            .iter()
            .map(|v| format!("{:+.1} %", (v / verdict.theory - 1.0) * 100.0))
            .collect();
        let _ = writeln!(
            text,
            "  {} at load {}: {} from theory ({}within {:.0} %)",
            verdict.executor,
            verdict.load,
            off.join(", "),
            if verdict.agrees { "" } else { "NOT " },
            AGREEMENT * 100.0,
        );
    }
    text
}

/// Formats the total numbers of lost, repeated, reordered and foreign messages; every gap between
/// arrivals is counted.
fn counts(study: &Study) -> String {
    let sum = |of: &dyn Fn(&RunOutcome) -> u64| study.runs.iter().map(of).sum::<u64>();
    format!(
        "\n{} messages sent in all: {} lost, {} twice, {} out of order, {} refused by the sender's kernel, {} without a time stamp \
         of the kernel's, {} foreign datagrams. Every gap between two arrivals is counted.\n",
        sum(&|run| run.sent),
        sum(&|run| run.lost),
        sum(&|run| run.duplicates),
        sum(&|run| run.reordered),
        sum(&|run| run.refused),
        sum(&|run| run.unstamped),
        sum(&|run| run.foreign),
    )
}

fn cpu(run: &RunOutcome) -> String {
    run.cpu.map_or_else(|| "?".into(), |cpu| format!("{:.0} %", cpu * 100.0))
}

/// Formats a time in microseconds with few significant digits.
fn micros(value: f64) -> String {
    match value {
        value if value.is_nan() => "-".to_owned(),
        value if value >= 1000.0 => format!("{:.3} ms", value / 1e3),
        value => format!("{value:.1} µs"),
    }
}
