//! `cargo xtask seeds`: simulates whole systems with random faults from seeds. This command builds
//! the example `seeds` of evb-sim with the profile of tests, which optimises the state machines and
//! keeps assertions, and passes its arguments on.
//!
//! With `--undo`, it does the same in a copy of the tree in which a fix of the past is undone, to
//! check that the simulator finds the defect again. The patches that undo fixes are in
//! `crates/evb-sim/undo`.

#[cfg(test)]
mod tests;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::built::built_in;

/// Folder of the patches, which are named by the commits of the fixes.
const PATCHES: &str = "crates/evb-sim/undo";
/// Folder of the copy in which fixes are undone.
const COPY: &str = "target/undo";

#[derive(Args)]
pub(crate) struct SeedsArgs {
    /// Undo an earlier bug fix, given by its commit, to see whether a check detects the bug; `all`
    /// tries one fix after the other.
    #[arg(long)]
    undo: Option<String>,
    /// Arguments for the example `seeds`; see `cargo xtask seeds -- --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and runs the example `seeds`, and returns its exit code; with `--undo`, 0 if each bug was
/// found.
pub(crate) fn run(args: &SeedsArgs) -> Result<u8> {
    let root = checkout::root();
    let Some(undo) = &args.undo else { return simulate(&root, &args.arguments) };
    let known = fixes(&root)?;
    let chosen = if undo == "all" { known.clone() } else { vec![undo.clone()] };
    let mut code = 0;
    for fix in &chosen {
        ensure!(known.contains(fix), "no patch undoes `{fix}`; name one of {}, or all", known.join(", "));
        let copy = copy_without(&root, fix)?;
        match simulate(&copy, &args.arguments)? {
            0 => {
                println!("{fix}: no seed found the bug; try more seeds");
                code = 1;
            }
            1 => println!("{fix}: a seed found the bug, as it should"),
            other => bail!(
                "{fix}: the seeds ended with exit code {other}, so nothing is known; their words stand above"
            ),
        }
    }
    Ok(code)
}

/// Builds and runs the seeds of a tree, and returns their exit code.
fn simulate(tree: &Path, arguments: &[String]) -> Result<u8> {
    let seeds = built_in(tree, "--example", "seeds")?;
    let status = Command::new(seeds)
        .args(arguments)
        .current_dir(tree)
        .status()
        .context("the example `seeds` does not start")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
}

/// Returns the names of all fixes that a patch undoes.
fn fixes(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in
        fs::read_dir(root.join(PATCHES)).with_context(|| format!("cannot read the folder {PATCHES}"))?
    {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Copies the tracked files of the repository, undoes a fix in the copy, and returns its folder.
fn copy_without(root: &Path, fix: &str) -> Result<PathBuf> {
    let copy = root.join(COPY);
    let listed =
        checkout::said("git", &["ls-files"]).context("`git ls-files` fails; this needs a git checkout")?;
    for path in listed.lines().filter(|path| root.join(path).is_file()) {
        let (from, to) = (root.join(path), copy.join(path));
        let text = fs::read(&from).with_context(|| path.to_owned())?;
        // Equal files keep their times, so that cargo builds only what differs.
        if fs::read(&to).is_ok_and(|there| there == text) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        fs::write(&to, text).with_context(|| path.to_owned())?;
    }
    apply(root, fix, &["--directory", COPY])?;
    Ok(copy)
}

/// Applies the patch that undoes a fix, with further options of `git apply`.
fn apply(root: &Path, fix: &str, options: &[&str]) -> Result<()> {
    let mut git = Command::new("git");
    git.arg("apply").args(options).arg(root.join(PATCHES).join(format!("{fix}.patch")));
    let output = git.current_dir(root).output().context("git apply")?;
    ensure!(
        output.status.success(),
        "the patch of {fix} no longer applies; write a new one: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
