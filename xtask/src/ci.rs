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
    /// Run only the quick part: what must hold before every commit.
    #[arg(long)]
    quick: bool,
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
        .filter(|step| step.name.contains(&args.only) && (step.is_quick || !args.quick))
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
    for Row { name, took, ended, .. } in &rows {
        println!("{name:<28} {:>9.1}  {ended}", took.as_secs_f64());
    }
    let failed: Vec<_> = rows.iter().filter(|row| matches!(row.ended, Ended::Failed(_))).collect();
    println!(
        "{:<28} {:>9.1}  {} of {} failed",
        "all",
        began.elapsed().as_secs_f64(),
        failed.len(),
        rows.len()
    );
    for row in &failed {
        println!("\n=== {} failed; the end of its output:\n{}", row.name, end_of(&row.said));
    }
    Ok(failed.is_empty() && !rows.is_empty())
}

/// Result of a step.
#[derive(Debug)]
struct Row<'a> {
    name: &'a str,
    took: Duration,
    ended: Ended,
    /// The step's output.
    said: String,
}

/// Returns the last lines of an output.
fn end_of(said: &str) -> String {
    const SHOWN: usize = 60;
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(SHOWN)..].join("\n")
}

/// Runs steps of which none waits for all others: each lane of steps that follow each other beside
/// the other lanes. The output of a single step is printed as it comes; beside others,
/// when the step ends.
fn run_together<'a>(steps: &'a [Step], left: Duration) -> Vec<Row<'a>> {
    let is_alone = steps.len() == 1;
    if !is_alone {
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        println!("\n=== together: {}", names.join(", "));
    }
    let began = Instant::now();
    let run = |step: &'a Step| {
        let started = Instant::now();
        if is_alone {
            println!("{}", head(step));
        }
        let (ended, said) = step.run(left.saturating_sub(began.elapsed()), is_alone);
        let took = started.elapsed();
        if !is_alone {
            println!("{}\n{said}", head(step));
        }
        println!("{}", foot(step, took, &ended));
        Row { name: &step.name, took, ended, said }
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
    let ended = Ended::Failed("its thread has panicked".into());
    Row { name: "a lane of steps", took: Duration::ZERO, ended, said: String::new() }
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
