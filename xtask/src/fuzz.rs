//! `cargo xtask fuzz`: builds the fuzz targets, runs each for a given time, and prints a summary.
//! `fuzz/src/lib.rs` explains the targets.

mod outcome;
#[cfg(test)]
mod tests;

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use self::outcome::Outcome;

/// Folder of the fuzz targets.
const TARGETS: &str = "fuzz/fuzz_targets";
/// Memory limit of a fuzz target, in MiB: it detects a decoder that trusts a length field and
/// allocates too much.
const MEMORY: u32 = 1024;
/// Time limit for a single input, in seconds; an input that takes longer is a finding.
const LONGEST: u32 = 20;

#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Time for which each target runs, in seconds.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// The sanitizer that detects invalid memory accesses: `none`, `address`, … The default is
    /// `none`, because evb's decoders are safe Rust and run faster without a sanitizer; `address`
    /// also checks the libraries that evb uses.
    #[arg(long, default_value = "none")]
    sanitizer: String,
    /// Number of targets that run at the same time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    jobs: u8,
    /// Names of the targets to run; by default, all targets run.
    targets: Vec<String>,
}

/// Runs the fuzz targets, continues after a finding, and prints a table. Returns true if no fuzz
/// target had a finding.
pub(crate) fn run(args: &FuzzArgs) -> Result<bool> {
    let root = checkout::root();
    let known = targets(&root);
    ensure!(!known.is_empty(), "there is no fuzz target in {TARGETS}; run this in a whole checkout");
    if let Some(unknown) = args.targets.iter().find(|target| !known.contains(target)) {
        bail!("there is no fuzz target `{unknown}`; name one of {}", known.join(", "));
    }
    let chosen = if args.targets.is_empty() { known } else { args.targets.clone() };
    install()?;
    let mut build = vec!["build", "--sanitizer", &args.sanitizer];
    if let [only] = &chosen[..] {
        build.push(only);
    }
    let built = cargo_fuzz(&root, &build).status().context("cargo fuzz does not start")?;
    ensure!(built.success(), "the fuzz targets do not build; the errors of the compiler stand above");
    println!("\n{}", Outcome::HEAD);
    let (queue, found) = (Mutex::new(chosen.iter()), Mutex::new(Vec::new()));
    let worker = || -> Result<()> {
        // A poisoned lock is ignored, because a worker that panics leaves the queue and the results
        // consistent.
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(target) = next() {
            if !passes(&root, args, target)? {
                found.lock().unwrap_or_else(PoisonError::into_inner).push(target.as_str());
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..args.jobs).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| bail!("a thread that ran fuzz targets has panicked, which is a fault of xtask; its words stand above"))
        })
    })?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !found.is_empty() {
        println!(
            "these fuzz targets have findings: {}; CONTRIBUTING.md says how to reproduce one",
            found.join(", ")
        );
    }
    Ok(found.is_empty())
}

/// Runs a fuzz target and prints its result. Returns true if the target had no finding.
fn passes(root: &Path, args: &FuzzArgs, target: &str) -> Result<bool> {
    let (outcome, log) = run_one(root, args, target)?;
    let mut said = format!("{target:<16} {outcome}");
    if !outcome.passed {
        said = [said, outcome::finding(&log)].join("\n");
    }
    println!("{said}");
    Ok(outcome.passed)
}

/// Runs a fuzz target, and returns its result and its output on stderr.
fn run_one(root: &Path, args: &FuzzArgs, target: &str) -> Result<(Outcome, String)> {
    let seconds = format!("-max_total_time={}", args.seconds);
    let (memory, longest) = (format!("-rss_limit_mb={MEMORY}"), format!("-timeout={LONGEST}"));
    let before = ["run", "--sanitizer", &args.sanitizer, target, "--"];
    let options = [&seconds, &memory, &longest, "-print_final_stats=1"];
    let mut command = cargo_fuzz(root, &before);
    command.args(options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let began = Instant::now();
    let output = command.output().with_context(|| format!("the fuzz target {target} does not start"))?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((Outcome::read(&log, output.status.success(), began.elapsed()), log))
}

/// Returns the names of all fuzz targets.
pub(crate) fn targets(root: &Path) -> Vec<String> {
    let Ok(entries) = root.join(TARGETS).read_dir() else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut names: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Returns the reason why fuzzing is impossible on this machine; `None` if it is possible.
pub(crate) fn lacks() -> Option<String> {
    if checkout::said("cargo", &["+nightly", "--version"]).is_none() {
        return Some("there is no nightly toolchain: rustup toolchain install nightly".to_owned());
    }
    checkout::said("c++", &["--version"])
        .is_none()
        .then(|| "there is no C++ compiler for libFuzzer: install g++ or clang".to_owned())
}

/// Installs cargo-fuzz if it is missing.
fn install() -> Result<()> {
    if let Some(reason) = lacks() {
        bail!("cannot fuzz: {reason}");
    }
    if checkout::said("cargo", &["+nightly", "fuzz", "--version"]).is_some() {
        return Ok(());
    }
    println!("installing cargo-fuzz, which takes a minute");
    let install = ["install", "cargo-fuzz", "--debug", "--locked", "--version", "^0.13"];
    // The environment variable omits debug information, which makes the installation faster.
    let mut cargo = Command::new("cargo");
    let installed =
        cargo.args(install).env("CARGO_PROFILE_DEV_DEBUG", "0").status().context("cargo does not start")?;
    ensure!(
        installed.success(),
        "cargo-fuzz cannot be installed; its words stand above: is there a network?"
    );
    Ok(())
}

fn cargo_fuzz(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz"]).args(arguments).current_dir(root.join("fuzz"));
    command
}
