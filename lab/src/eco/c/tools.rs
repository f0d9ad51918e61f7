//! Programs that the test starts: cargo, compilers, and what they build.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::repo;

/// Time limit of a program, in seconds.
const LIMIT: &str = "600";

/// Returns a command that runs cargo in the repository.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(repo::root());
    cargo
}

/// Runs a command to its end, and returns its output. The error of a command that fails, or that
/// takes longer than [`LIMIT`], has the whole output.
pub(crate) fn run(command: &mut Command) -> Result<String> {
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

/// Compilation of one program with all warnings as errors.
pub(crate) struct Compilation<'a> {
    pub(crate) compiler: &'a str,
    pub(crate) standard: &'a str,
    pub(crate) source: &'a Path,
    /// The installed copy of evb.
    pub(crate) prefix: &'a Path,
    pub(crate) options: &'a [&'a str],
    pub(crate) program: PathBuf,
}

impl Compilation<'_> {
    /// Compiles and links the program with the shared library, and returns its path.
    pub(crate) fn run(&self) -> Result<&Path> {
        let (include, lib) = (self.prefix.join("include"), self.prefix.join("lib"));
        let mut compile = Command::new(self.compiler);
        compile.args([self.standard, "-pedantic", "-Wall", "-Wextra", "-Werror", "-g", "-pthread"]);
        compile.args(self.options).arg("-I").arg(include).arg(self.source).arg("-o").arg(&self.program);
        compile.arg("-L").arg(&lib).arg("-levb").arg(format!("-Wl,-rpath,{}", lib.display()));
        run(&mut compile)?;
        Ok(&self.program)
    }
}
