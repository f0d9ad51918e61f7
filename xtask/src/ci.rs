//! Runs all checks of CI, in CI or on a developer's machine. Each step has a time limit, all steps
//! share a time budget, and a table shows which steps passed, failed, or were skipped and why.

mod step;
mod plan;

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Args;

use self::step::{Ended, Step};

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
    for together in steps.chunk_by(|_, next| next.beside) {
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

/// Runs steps that start together. The output of a single step is printed as it comes; the outputs
/// of several steps are printed one after the other.
fn run_together(steps: &[Step], left: Duration) -> Vec<Row<'_>> {
    let head = |step: &Step| println!("\n=== {}: {}", step.name, step.line());
    let timed = |step: &Step, keep: bool| {
        let started = Instant::now();
        let (ended, said) = if keep { step.run_and_keep(left) } else { (step.run(left), String::new()) };
        (started.elapsed(), ended, said)
    };
    let foot = |name, took: Duration, ended: &Ended| {
        println!("=== {name}: {ended} after {:.1} s", took.as_secs_f64())
    };
    if let [step] = steps {
        head(step);
        let (took, ended, _) = timed(step, false);
        foot(&step.name, took, &ended);
        return vec![(&step.name, took, ended)];
    }
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    println!("\n=== together: {}", names.join(", "));
    thread::scope(|scope| {
        let running: Vec<_> = steps.iter().map(|step| scope.spawn(move || timed(step, true))).collect();
        let rows = steps.iter().zip(running).map(|(step, running)| {
            let panicked =
                |_| (Duration::ZERO, Ended::Failed("its thread has panicked".into()), String::new());
            let (took, ended, said) = running.join().unwrap_or_else(panicked);
            head(step);
            print!("{said}");
            foot(&step.name, took, &ended);
            (step.name.as_str(), took, ended)
        });
        rows.collect()
    })
}

#[cfg(test)]
mod tests;
