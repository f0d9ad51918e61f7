//! What the programs that check this repository share: where it is, its cargo, the evbd to test,
//! and the exit codes by which they say that they could not judge everything.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

/// Exit code of a program that cannot run on this machine; automake's test suites use the same
/// code.
pub const SKIPPED: u8 = 77;

/// Exit code of a program that passed, but could not judge all its checks on this machine.
pub const IN_PART: u8 = 78;

/// Returns the root folder of this workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // This package is two folders below the root.
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Returns the folder into which cargo builds the workspace.
pub fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Returns a command that runs cargo in the root folder.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Runs a program, and returns its output if it succeeds.
pub fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command to its end.
///
/// # Errors
/// The command does not start or does not succeed.
pub fn finish(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?} does not start"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Returns the path of the evbd to measure: the given one, or else a release build, beside which
/// evb-bench is built as well.
///
/// # Errors
/// The given program does not exist, or evbd does not build.
pub fn evbd(given: Option<&Path>) -> Result<PathBuf> {
    let path = if let Some(path) = given {
        path.to_owned()
    } else {
        finish(cargo().args(["build", "--release", "-p", "evb-daemon", "-p", "evb-bench"]))?;
        target().join("release/evbd")
    };
    path.canonicalize().with_context(|| path.display().to_string())
}

/// Returns a command that runs the program `lab`, from the given path, or built by cargo first.
pub fn lab(lab: Option<&Path>, drives_browser: bool) -> Command {
    if let Some(lab) = lab {
        return Command::new(lab);
    }
    let mut cargo = cargo();
    // The arguments may have paths relative to the folder of the caller.
    cargo.current_dir(".");
    cargo.args(["run", "--quiet", "--package", "lab", "--manifest-path"]).arg(root().join("Cargo.toml"));
    if drives_browser {
        cargo.args(["--features", "browser"]);
    }
    cargo.arg("--");
    cargo
}
