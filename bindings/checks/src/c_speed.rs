//! Compares the rate of readout in C++ with that of readout in Rust: four sources push to four
//! builders without disks, by programs that do the same work (`push_speed` in
//! `bindings/c/examples`). The result is the ratio of the payload rates of each pair of runs.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use checkout::cargo;
use clap::Args;
use lab_base::{
    commands::run as execute,
    needs::Need,
    ratios::Ratios,
    report::{Bound, Report},
};
use serde_json::json;

use super::c::{BINDINGS, tools::Compilation};

pub const NEEDS: &[Need] = &[Need { program: "g++", package: "g++" }];

/// A way to push, and what it must reach.
struct Case {
    name: &'static str,
    mode: &'static str,
    /// Size of a fragment, in bytes.
    size: u64,
    /// Events of a run for each second that it is to take, on a machine that builds 2 GB/s or a
    /// million fragments per second.
    events_per_s: u64,
    /// Least allowed lower end of the 95 % confidence interval of the ratio.
    kept: f64,
}

const CASES: [Case; 2] = [
    Case { name: "1 MB, owned", mode: "owned", size: 1_000_000, events_per_s: 500, kept: 0.95 },
    Case { name: "1 kB, many", mode: "many", size: 1_000, events_per_s: 150_000, kept: 0.9 },
];

#[derive(Args)]
pub struct SpeedArgs {
    /// Number of pairs of runs for each case.
    #[arg(long, default_value_t = 20)]
    rounds: u32,
    /// Approximate duration of each run, in seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

/// Measures all cases with release builds, and returns 0 if all ratios hold, else 1.
pub fn run(out: &Path, args: &SpeedArgs) -> Result<u8> {
    ensure!(args.rounds >= 2, "one pair says nothing of the scatter");
    let scratch = out.join("c-speed");
    fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    let bindings = checkout::root().join(BINDINGS);
    let prefix = scratch.join("installed");
    execute(cargo().args(["xtask", "sdk", "--prefix"]).arg(&prefix))?;
    let manifest = bindings.join("Cargo.toml");
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--release", "--bin", "push_speed"]);
    execute(build.args(["--target-dir", "target", "--manifest-path"]).arg(manifest))?;
    let rust = checkout::root().join("target/release/push_speed");
    let compilation = Compilation {
        compiler: "g++",
        standard: "-std=c++17",
        source: &bindings.join("examples/push_speed.cpp"),
        prefix: &prefix,
        options: &["-O2"],
        program: scratch.join("push_speed"),
    };
    let cpp = compilation.run()?;
    let mut report = Report::bare("c-speed");
    for case in &CASES {
        measure(case, &rust, cpp, args, &mut report)?;
    }
    Ok(u8::from(!report.finish(out)?))
}

/// Measures all pairs of runs of one case. The order of the two runs in a pair alternates.
fn measure(case: &Case, rust: &Path, cpp: &Path, args: &SpeedArgs, report: &mut Report) -> Result<()> {
    println!("\n4x4, {}\n{:>5} {:>12} {:>12} {:>7}", case.name, "pair", "Rust MB/s", "C++ MB/s", "ratio");
    let mut pairs = Vec::new();
    for round in 1..=args.rounds {
        let first = if round % 2 == 0 { cpp } else { rust };
        let second = if round % 2 == 0 { rust } else { cpp };
        let (one, other) = (rate(case, first, args.seconds)?, rate(case, second, args.seconds)?);
        let (of_rust, of_cpp) = if round % 2 == 0 { (other, one) } else { (one, other) };
        println!("{round:>5} {of_rust:>12.1} {of_cpp:>12.1} {:>7.4}", of_cpp / of_rust);
        pairs.push((of_rust, of_cpp));
    }
    let ratios = Ratios::of(&pairs);
    println!("ratio {:.4}, 95 % between {:.4} and {:.4}", ratios.mean, ratios.low, ratios.high);
    report.attach(
        case.name,
        json!({ "pairs": pairs, "mean": ratios.mean, "low": ratios.low, "high": ratios.high }),
    );
    report.noisy(
        &format!("{}: lower end of the 95 % interval", case.name),
        ratios.low,
        Bound::AtLeast(case.kept),
    );
    Ok(())
}

/// Performs one run, and returns its payload rate in MB/s.
fn rate(case: &Case, program: &Path, seconds: u64) -> Result<f64> {
    let mut command = Command::new(program);
    command.args([case.mode, &case.size.to_string(), &(case.events_per_s * seconds).to_string()]);
    let said = execute(&mut command)?;
    said.trim().parse().with_context(|| format!("no rate: {said}"))
}
