//! The tables of the study.

use std::fmt::Write as _;

use evb_core::units::Frequency;

use super::{
    judged::{AGREEMENT, OverloadVerdict, REGULAR, Study, UnderloadVerdict},
    outcome::RunOutcome,
    ticked::TickVerdict,
};
use crate::output::columns;

/// Formats the whole text output of the study.
pub(super) fn text(study: &Study) -> String {
    let mut page = format!("Triggers made regular: {}\n", study.setting);
    let is_periodic = |run: &RunOutcome| run.trigger == "periodic";
    let over = |run: &&RunOutcome| is_periodic(run) || run.load.is_none_or(|load| load > 1.0);
    let (over, under): (Vec<_>, Vec<_>) = study.runs.iter().partition(over);
    page += "\nThe gaps at the receiver, by the kernel's time stamps; \"within 5 %\" of the gap that regular messages have\n";
    page += &columns(&HEAD, &over.into_iter().map(row).collect::<Vec<_>>());
    page += &overload(&study.overload);
    page += &passing(&study.passing);
    study.ticks.iter().for_each(|verdict| page += &ticked(verdict));
    if !under.is_empty() {
        page += "\nUnderload, random triggers: standard deviation of the gaps over their mean\n";
        page += &columns(&UNDER_HEAD, &under.into_iter().map(under_row).collect::<Vec<_>>());
        page += &underload(&study.underload);
    }
    page += &counts(study);
    let _ = writeln!(
        page,
        "{}",
        if study.holds { "All verdicts are as expected." } else { "NOT all verdicts are as expected." }
    );
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
        format!("{} {}", run.way, name(&run.executor, run.receiver)),
        trigger(run.trigger, run.trigger_hz),
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

/// Formats the name of an executor; of several receivers, all but the first have their number.
fn name(executor: &str, receiver: u32) -> String {
    if receiver > 1 { format!("{executor} to {receiver}") } else { executor.to_owned() }
}

fn trigger(word: &str, hertz: Option<f64>) -> String {
    match hertz.and_then(Frequency::from_hertz) {
        Some(rate) => format!("{word} {rate}"),
        None => word.to_owned(),
    }
}

/// Formats the verdicts on periodic triggers below the assigned rate.
fn passing(verdicts: &[OverloadVerdict]) -> String {
    let line = |verdict: &OverloadVerdict| {
        let best = verdict.shaped.iter().copied().fold(f64::NAN, f64::max) * 100.0;
        format!(
            "  {} {}, below the rate: {best:.2} % of the gaps stay as they are ({}at least {:.0} %)\n",
            name(&verdict.executor, verdict.receiver),
            trigger(verdict.trigger, verdict.trigger_hz),
            if verdict.regular { "" } else { "NOT " },
            REGULAR * 100.0,
        )
    };
    verdicts.iter().map(line).collect()
}

/// Formats the verdict on an executor with ticks.
fn ticked(verdict: &TickVerdict) -> String {
    let Some(signs) = verdict.best() else { return String::new() };
    let best = verdict.shaped.iter().copied().fold(f64::NAN, f64::max) * 100.0;
    let fails = if verdict.fails_regularity { "fails the" } else { "does NOT fail the" };
    let ticks = if verdict.clumps_expected {
        format!(
            "clumps of {:.1} messages every {}, {:.1} % of them one tick of {} apart ({}at least 95 %)",
            signs.messages_per_clump,
            micros(signs.clump_gap_us),
            signs.one_tick * 100.0,
            micros(signs.tick_us),
            if verdict.clumped_at_ticks { "" } else { "NOT " },
        )
    } else {
        format!(
            "{:.1} % of the gaps are multiples of {} within {} ({}at least 95 %)",
            signs.on_ticks * 100.0,
            micros(signs.tick_us),
            micros(signs.tick_us / 10.0),
            if verdict.on_ticks { "" } else { "NOT " },
        )
    };
    format!(
        "  {} {}: {best:.2} % within 5 %, {fails} {:.0} %, as is expected of ticks; {ticks}: {}\n",
        name(&verdict.executor, verdict.receiver),
        trigger(verdict.trigger, verdict.trigger_hz),
        REGULAR * 100.0,
        if verdict.behaves { "as a kernel with these ticks" } else { "NOT as a kernel with these ticks" },
    )
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
            name(&verdict.executor, verdict.receiver),
            trigger(verdict.trigger, verdict.trigger_hz),
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
        format!("{} {}", run.way, name(&run.executor, run.receiver)),
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
            "  {} at load {:.3}: {} from theory ({}within {:.0} %)",
            name(&verdict.executor, verdict.receiver),
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
