//! Everything that CI checks, the same at home: each step under its own time limit, all under one budget, and a table
//! of what passed, what failed, and what was skipped for which reason.

mod step;
mod plan;

use std::time::{Duration, Instant};

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
    /// Fail where a step beside other programs (`cargo xtask eco`) cannot run, instead of skipping it.
    #[arg(long)]
    require: bool,
    /// For all steps together, in minutes.
    #[arg(long, default_value_t = 58)]
    budget: u64,
}

/// Runs all steps, goes on after a failure, and prints the table. True: none failed.
pub(crate) fn run(args: &CiArgs) -> Result<bool> {
    let began = Instant::now();
    let budget = Duration::from_secs(args.budget * 60);
    let steps: Vec<Step> =
        plan::steps(args.require)?.into_iter().filter(|step| step.name.contains(&args.only)).collect();
    if args.list {
        for step in &steps {
            println!("{:<28} {:>5} s  {}", step.name, step.limit.as_secs(), step.line());
        }
        return Ok(true);
    }
    let mut rows = Vec::new();
    for step in &steps {
        println!("\n=== {}: {}", step.name, step.line());
        let started = Instant::now();
        let ended = step.run(budget.saturating_sub(began.elapsed()));
        println!("=== {}: {ended} after {:.1} s", step.name, started.elapsed().as_secs_f64());
        rows.push((step.name.as_str(), started.elapsed(), ended));
    }
    println!("\n{:<28} {:>9}  result", "step", "seconds");
    for (name, took, ended) in &rows {
        println!("{name:<28} {:>9.1}  {ended}", took.as_secs_f64());
    }
    let failed = rows.iter().filter(|(_, _, ended)| matches!(ended, Ended::Failed(_))).count();
    println!("{:<28} {:>9.1}  {failed} of {} failed", "all", began.elapsed().as_secs_f64(), rows.len());
    Ok(failed == 0 && !rows.is_empty())
}
