//! Everything that CI checks, also on a developer's machine: each step under its own time limit,
//! all under one budget, and a table of what passed, failed, or was skipped for which reason.

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
    /// Only the steps whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Print the steps and their limits, run nothing.
    #[arg(long)]
    list: bool,
    /// Fail where a step beside other programs (`cargo xtask eco`) cannot run, instead of skipping
    /// it.
    #[arg(long)]
    require: bool,
    /// The lab's program, with the browser's client; by default it is built when it is needed.
    #[arg(long)]
    lab: Option<PathBuf>,
    /// Time budget of all steps together, in minutes.
    #[arg(long, default_value_t = 50)]
    budget: u64,
}

/// Runs all steps, also after a failure, and prints the table. Returns true if none failed.
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

/// Runs steps that start together. The output of a single step is printed at once, that of several
/// steps one after another when all have ended.
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
