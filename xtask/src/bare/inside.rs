//! Runs test programs in the bare place, one after the other as cargo does, and counts what they
//! say.

use std::{
    fs::File,
    io::{Read as _, Seek as _},
    process::{Command, ExitStatus},
    time::Instant,
};

use anyhow::{Context as _, Result};

use super::programs::TestProgram;

/// Time for one program, in seconds.
const LIMIT: &str = "600";

/// Numbers of tests, as the harness reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Number of lines `SKIP: needs …`.
    skipped: u64,
}

/// Runs all programs, even after a failure. Returns true if all tests passed.
pub(super) fn run(all: &[TestProgram]) -> Result<bool> {
    let mut sum = Counts::default();
    let mut broken = Vec::new();
    for program in all {
        let began = Instant::now();
        let (status, said) = execute(program)?;
        let counts = Counts::of(&said);
        println!("{:<28} {counts}, {:.1} s", program.name, began.elapsed().as_secs_f64());
        skips(&said).for_each(|line| println!("    {line}"));
        if !status.success() {
            println!("{}\n{}: {status}", failures(&said), program.name);
            broken.push(program.name.as_str());
        }
        sum = sum.plus(counts);
    }
    println!("in the bare place: {sum} in {} programs", all.len());
    if !broken.is_empty() {
        println!("FAIL: {}", broken.join(", "));
    }
    Ok(broken.is_empty())
}

/// Runs a program, and returns its result and its output.
fn execute(program: &TestProgram) -> Result<(ExitStatus, String)> {
    // A file, unlike a pipe, has an end even while a process that a test has left behind can write
    // to it.
    let mut output = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(std::env::temp_dir().join("output"))?;
    let status = Command::new("timeout")
        .args(["--kill-after=5", LIMIT])
        .arg(&program.path)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .status()
        .context("timeout does not start")?;
    let mut said = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut said)?;
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}

/// Returns the output of a program without the lines of the tests that passed.
fn failures(said: &str) -> String {
    let passed = |line: &&str| line.starts_with("test ") && line.ends_with(" ... ok");
    said.lines().filter(|line| !passed(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Returns what is missing, as the tests say it.
fn skips(said: &str) -> impl Iterator<Item = &str> {
    // The harness may have begun the line with the name of the test.
    said.lines().filter_map(|line| line.find("SKIP: needs ").map(|start| &line[start..]))
}

impl Counts {
    /// Counts the tests in the output of a program.
    fn of(said: &str) -> Self {
        let results = said.lines().filter(|line| line.starts_with("test result: "));
        let counts = results.map(|line| {
            let of = |what: &str| {
                let part = line.split(['.', ';']).find_map(|part| part.trim().strip_suffix(what));
                part.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
            };
            Self { passed: of("passed"), failed: of("failed"), ignored: of("ignored"), skipped: 0 }
        });
        let skipped = Self { skipped: skips(said).count() as u64, ..Self::default() };
        counts.fold(skipped, Self::plus)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            ignored: self.ignored + other.ignored,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { passed, failed, ignored, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {ignored} ignored, {skipped} SKIP lines")
    }
}

#[cfg(test)]
mod tests;
