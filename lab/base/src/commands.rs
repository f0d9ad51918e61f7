//! Commands that tests run to their end.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Time limit of a program, in seconds.
const LIMIT: &str = "600";

/// Runs a command to its end, and returns its output. The error of a command that fails, or that
/// takes longer than `LIMIT`, has the whole output.
pub fn run(command: &mut Command) -> Result<String> {
    let mut limited = Command::new("timeout");
    limited.args(["--kill-after=5", LIMIT]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    let output = limited.output().with_context(|| format!("{command:?} does not start"))?;
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {}\n{said}{complained}", output.status);
    Ok(said.into_owned())
}
