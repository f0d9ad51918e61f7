//! Runs all checks of CI, in CI or on a developer's machine. Each step has a time limit, all steps
//! share a time budget, and a table shows which steps passed, failed, or were skipped and why.

pub(crate) mod step;
mod plan;

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;

use self::step::{Ended, Place, Step};

#[derive(Args)]
pub(crate) struct CiArgs {
    /// Run only the steps whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Print the steps and their time limits, without running them.
    #[arg(long)]
    list: bool,
    /// Fail if third-party programs that a step of `cargo xtask eco` needs are missing, instead of
    /// skipping the step.
    #[arg(long)]
    require: bool,
    /// Path of the program `lab`, built with the feature `browser`; by default it is built when a
    /// step needs it.
    #[arg(long)]
    lab: Option<PathBuf>,
    /// Time budget for all steps together, in minutes.
    #[arg(long, default_value_t = 90)]
    budget: u64,
}

/// Runs all steps, even after a failure, and prints a table of the results. Returns true if no step
/// failed.
pub(crate) fn run(args: &CiArgs) -> Result<bool> {
    let began = Instant::now();
    let budget = Duration::from_secs(args.budget * 60);
    let steps: Vec<Step> = plan::steps(args.require, args.lab.as_deref())?
        .into_iter()
        .filter(|step| step.name.contains(&args.only))
        .collect();
    if args.list {
        for step in &steps {
            println!("{:<28} {:>5} s  {}", step.name, step.limit.as_secs(), step.line());
        }
        return Ok(true);
    }
    let mut rows: Vec<Row<'_>> = Vec::new();
    for together in steps.chunk_by(|_, next| next.place != Place::After) {
        rows.extend(run_together(together, budget.saturating_sub(began.elapsed())));
    }
    println!("\n{:<28} {:>9}  result", "step", "seconds");
    for (name, took, ended) in &rows {
        println!("{name:<28} {:>9.1}  {ended}", took.as_secs_f64());
    }
    let failed = rows.iter().filter(|(_, _, ended)| matches!(ended, Ended::Failed(_))).count();
    println!("{:<28} {:>9.1}  {failed} of {} failed", "all", began.elapsed().as_secs_f64(), rows.len());
    Ok(failed == 0 && !rows.is_empty())
}

/// A step's name, its duration, and its result.
type Row<'a> = (&'a str, Duration, Ended);

/// Runs steps of which none waits for all others: each lane of steps that follow each other beside
/// the other lanes. The output of a single step is printed as it comes; beside others,
/// when the step ends.
fn run_together(steps: &[Step], left: Duration) -> Vec<Row<'_>> {
    if let [step] = steps {
        println!("{}", head(step));
        let started = Instant::now();
        let ended = step.run(left);
        println!("{}", foot(step, started.elapsed(), &ended));
        return vec![(&step.name, started.elapsed(), ended)];
    }
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    println!("\n=== together: {}", names.join(", "));
    let began = Instant::now();
    let run = |step| {
        let started = Instant::now();
        let (ended, said) = Step::run_and_keep(step, left.saturating_sub(began.elapsed()));
        let took = started.elapsed();
        println!("{}\n{said}{}", head(step), foot(step, took, &ended));
        (step.name.as_str(), took, ended)
    };
    thread::scope(|scope| {
        let lanes = steps.chunk_by(|_, next| next.place == Place::Then);
        let lanes: Vec<_> =
            lanes.map(|lane| scope.spawn(move || lane.iter().map(run).collect::<Vec<_>>())).collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap_or_else(|_| vec![lane_panicked()])).collect()
    })
}

/// Returns the row of a lane whose thread has panicked.
fn lane_panicked() -> Row<'static> {
    ("a lane of steps", Duration::ZERO, Ended::Failed("its thread has panicked".into()))
}

/// Returns the line before the output of a step.
fn head(step: &Step) -> String {
    format!("\n=== {}: {}", step.name, step.line())
}

/// Returns the line after the output of a step.
fn foot(step: &Step, took: Duration, ended: &Ended) -> String {
    format!("=== {}: {ended} after {:.1} s", step.name, took.as_secs_f64())
}

#[cfg(test)]
mod tests;
