//! `evb-bench alignment`: feeds the alignment guard with simulated boards, healthy ones and faulty
//! ones, and measures its cost.
//!
//! Five boards have clocks of their own, with jitter and drift. Fifteen patterns of triggers, three
//! divisions of the events among builders, and 23 planted faults are combined; the bounds are: no
//! flag in a healthy run, and no verdict of a slip that names another board or another size.

mod triggers;
mod boards;
mod fault;
mod world;
mod trial;
mod healthy;
mod cost;
mod tally;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use serde::Serialize;

use self::{
    boards::{boards, declared},
    fault::{FAULTS, Planted},
    healthy::HealthyRun,
    tally::Tally,
    trial::{Share, trial},
    triggers::{PATTERNS, Pattern},
};
pub use self::{cost::Cost, healthy::Healthy, tally::FaultRow};
use super::output::{BenchError, OutputArguments, columns, failed, spinner};

/// The divisions of the events among builders.
const SHARES: [Share; 3] =
    [Share { builders: 1, run: 1 }, Share { builders: 4, run: 1 }, Share { builders: 16, run: 1 }];
/// A further division for healthy runs, in which 1 % of the events also lack a fragment.
const MIXED: Share = Share { builders: 4, run: 8 };
/// Events of a short healthy run, which learns all clocks again.
const SHORT: u64 = 600;
/// First faulty event of a trial, beside which each trial adds something.
const PLANTED_AT: u64 = 3000;

/// Arguments of `evb-bench alignment`.
#[derive(clap::Args, Clone, Debug)]
pub struct AlignmentArguments {
    /// Number of trials of each pattern, division and fault.
    #[arg(long, default_value_t = 50)]
    trials: u64,
    /// Number of healthy events, over all patterns and divisions.
    #[arg(long, default_value_t = 100_000_000)]
    events: u64,
    /// Numbers of sources of which the cost is measured.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 5, 8, 16])]
    sources: Vec<usize>,
    /// Only the patterns whose name contains this text.
    #[arg(long, default_value = "")]
    pattern: String,
    /// Only the faults whose name contains this text.
    #[arg(long, default_value = "")]
    fault: String,
    #[command(flatten)]
    output: OutputArguments,
}

/// Result of the study.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AlignmentStudy {
    /// Healthy runs, by pattern.
    pub healthy: Vec<Healthy>,
    /// Healthy runs of 600 events, in which the guard learns the clocks.
    pub starts: Vec<Healthy>,
    /// Planted faults, over all patterns.
    pub faults: Vec<FaultRow>,
    /// Planted faults, by pattern and division.
    pub points: Vec<FaultRow>,
    /// Cost by number of sources; it depends on the machine and what else runs there.
    pub cost: Vec<Cost>,
    /// Number of trials.
    pub trials: u64,
    /// Number of verdicts of a slip that were wrong.
    pub wrong_slips: u64,
    /// Number of flags and suspicions in healthy runs.
    pub false_alarms: u64,
    /// True if there was no false alarm and no wrong verdict of a slip.
    pub holds: bool,
}

/// Runs the study and publishes its results.
pub(super) fn main(arguments: &AlignmentArguments) -> ExitCode {
    if arguments.output.svg.is_some() {
        let error =
            BenchError::Operator("the study of the alignment guard draws no picture: leave out --svg".into());
        return failed(&error, true);
    }
    let study = measure(arguments);
    let no_figure = || Ok(String::new());
    match arguments.output.publish(&study, &study.text(), no_figure) {
        Ok(()) if study.holds => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => failed(&error, matches!(error, BenchError::Operator(_))),
    }
}

/// Runs the whole study.
pub(super) fn measure(arguments: &AlignmentArguments) -> AlignmentStudy {
    let bar = spinner();
    let mut study = AlignmentStudy::default();
    let wanted: Vec<(&str, Pattern)> =
        PATTERNS.into_iter().filter(|(name, _)| name.contains(&arguments.pattern)).collect();
    for sources in &arguments.sources {
        study.cost.push(cost::cost(*sources));
    }
    let runs = (wanted.len() * (SHARES.len() + 1)).max(1) as u64;
    for (name, pattern) in &wanted {
        bar.set_message(format!("{name}, healthy"));
        study.add_healthy(name, *pattern, arguments.events / runs);
    }
    let mut totals: Vec<Tally> = FAULTS.iter().map(|(name, _)| Tally::new("all", 0, name)).collect();
    for (name, pattern) in &wanted {
        for share in SHARES {
            bar.set_message(format!("{name}, faults, {} builders", share.builders));
            for (total, (label, fault)) in totals.iter_mut().zip(FAULTS) {
                if !label.contains(&arguments.fault) {
                    continue;
                }
                let tally = study.trials(name, *pattern, share, (label, fault), arguments.trials);
                total.add(&tally, *pattern);
                study.points.push(tally.row());
            }
        }
    }
    bar.finish_and_clear();
    study.faults = totals.iter().filter(|total| total.trials() > 0).map(Tally::row).collect();
    study.wrong_slips = study.points.iter().map(|row| row.wrong_slips).sum();
    study.trials = study.points.iter().map(|row| row.trials).sum();
    let runs = study.healthy.iter().chain(&study.starts);
    study.false_alarms = runs.map(|run| run.flagged + run.suspected).sum();
    study.holds = study.wrong_slips == 0 && study.false_alarms == 0;
    study
}

impl AlignmentStudy {
    /// Simulates healthy events of a pattern: long runs, and a tenth of them as short ones.
    fn add_healthy(&mut self, name: &str, pattern: Pattern, events: u64) {
        let boards = boards();
        let clocks = declared(&boards);
        let (mut long, mut short) = (Healthy::of(name), Healthy::of(name));
        for share in SHARES.into_iter().chain([MIXED]) {
            let missing = if share == MIXED { 0.01 } else { 0.0 };
            let run = |events, seed| {
                HealthyRun { boards: &boards, clocks: &clocks, pattern, share, events, missing, seed }.run()
            };
            long.add(&run(events * 9 / 10, 11));
            for seed in 0..(events / 10).div_ceil(SHORT) {
                short.add(&run(SHORT, 1000 + seed));
            }
        }
        self.healthy.push(long);
        self.starts.push(short);
    }

    fn trials(
        &self,
        name: &str,
        pattern: Pattern,
        share: Share,
        (label, fault): (&str, fault::Fault),
        trials: u64,
    ) -> Tally {
        let boards = boards();
        let clocks = declared(&boards);
        let mut tally = Tally::new(name, share.builders, label);
        for seed in 1..=trials {
            let at = if fault.is_from_start() { 1 } else { PLANTED_AT + seed % 97 };
            let planted = Planted { fault, board: 1 + (seed % 3) as usize, at };
            tally.count(&planted, &trial(&boards, &clocks, pattern, share, planted, seed));
        }
        tally
    }

    /// Formats the result as tables.
    fn text(&self) -> String {
        let rows = |runs: &[Healthy]| -> Vec<Vec<String>> {
            let row = |run: &Healthy| {
                let largest = format!("{:.2}", run.largest);
                let counts = [run.events, run.flagged, run.suspected].map(|count| count.to_string());
                [vec![run.pattern.clone()], counts.to_vec(), vec![largest]].concat()
            };
            runs.iter().map(row).collect()
        };
        let heads = |first| [first, "events", "flagged", "suspected", "largest / limit"];
        let mut text = columns(&heads("healthy"), &rows(&self.healthy)) + "\n";
        text += &(columns(&heads("starts"), &rows(&self.starts)) + "\n");
        let faults: Vec<Vec<String>> = self.faults.iter().map(FaultRow::cells).collect();
        text += &(columns(&FaultRow::HEAD, &faults) + "\n");
        let cost = |cost: &Cost| {
            vec![cost.sources.to_string(), format!("{:.1}", cost.nanos), format!("{:.0}", cost.bar)]
        };
        let costs: Vec<Vec<String>> = self.cost.iter().map(cost).collect();
        text += &(columns(&["sources", "ns an event and source", "bar"], &costs) + "\n");
        text + &format!(
            "{} trials: {} wrong verdicts of a slip; {} false alarms\n",
            self.trials, self.wrong_slips, self.false_alarms
        )
    }
}
