//! `cargo xtask instructions`: counts with valgrind the instructions in user space per byte of
//! payload on the code paths of `benches/instructions.rs`, and compares them with a committed
//! table. The counts do not depend on the load of the machine.

mod table;
#[cfg(test)]
mod tests;

use std::{
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use toml::Table as Toml;

use self::table::Table;

/// Path of the committed table of instructions per byte.
const COMMITTED: &str = "benches/instructions.json";

#[derive(Args)]
pub(crate) struct InstructionArgs {
    /// Replace the committed counts with the new counts.
    #[arg(long)]
    bless: bool,
}

/// Counts the instructions, and prints a table. Returns true if no code path needs over 20 % more
/// instructions than committed.
pub(crate) fn run(args: &InstructionArgs) -> Result<bool> {
    if let Some(reason) = lacks() {
        bail!("cannot count instructions: {reason}");
    }
    let root = checkout::root();
    let output = Command::new("cargo")
        .args(["bench", "-p", "evb", "--bench", "instructions", "--", "--output-format=json"])
        .current_dir(&root)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "the benchmark fails; its words stand above");
    let counted = Table::read_benchmarks(&said)?;
    let path = root.join(COMMITTED);
    if args.bless {
        fs::write(&path, counted.to_json()).context(COMMITTED)?;
    }
    let committed = Table::from_json(&fs::read_to_string(&path).context(COMMITTED)?)?;
    print!("{}", counted.show(&committed));
    let worse = counted.worse_than(&committed);
    worse.iter().for_each(|cell| println!("{cell}"));
    Ok(worse.is_empty())
}

/// Returns the reason why instructions cannot be counted on this machine; `None` if they can.
pub(crate) fn lacks() -> Option<String> {
    if checkout::said("valgrind", &["--version"]).is_none() {
        return Some("there is no valgrind: apt-get install valgrind".to_owned());
    }
    let lock: Toml = fs::read_to_string(checkout::root().join("Cargo.lock")).ok()?.parse().ok()?;
    let version = version(&lock, "gungraun")?;
    let is_there =
        checkout::said("gungraun-runner", &["--version"]).is_some_and(|said| said.contains(&version));
    let install = format!("cargo install --locked gungraun-runner --version {version}");
    (!is_there).then(|| format!("its runner is not installed ({install})"))
}

/// Returns the version of a package in `Cargo.lock`.
fn version(lock: &Toml, name: &str) -> Option<String> {
    let packages = lock.get("package")?.as_array()?;
    let found = packages.iter().find(|package| package.get("name").and_then(|n| n.as_str()) == Some(name))?;
    Some(found.get("version")?.as_str()?.to_owned())
}
