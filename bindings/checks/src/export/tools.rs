//! The programs of the test: `evb-export`, `evbd`, and Python with the packages of analysts.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use checkout::cargo;
use lab_base::{commands::run, setting::Setting, venv::Venv};
use serde_json::Value;

/// The packages that read exports, and one that computes CRC-64/NVME as evb does, independently.
const PACKAGES: [&str; 6] = ["numpy", "h5py", "pyarrow", "awkward", "uproot", "awscrt"];
/// Largest allowed memory of an export, in MiB.
pub(super) const MEMORY: f64 = 256.0;

/// The programs.
pub(super) struct Tools {
    pub(super) evbd: PathBuf,
    pub(super) export: PathBuf,
    venv: Venv,
}

/// Builds `evb-export`, and returns its path.
pub(crate) fn built(quick: bool) -> Result<PathBuf> {
    let (manifest, target) =
        (checkout::root().join("bindings/exports/Cargo.toml"), checkout::root().join("target/exports"));
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(manifest);
    build.arg("--target-dir").arg(&target).args((!quick).then_some("--release"));
    run(&mut build)?;
    Ok(target.join(if quick { "debug" } else { "release" }).join("evb-export"))
}

/// Duration and memory of a program, measured from outside.
pub(super) struct Measured {
    pub(super) seconds: f64,
    /// The largest resident memory, in MiB.
    pub(super) memory: f64,
}

impl Tools {
    /// Builds `evb-export`, and installs the Python packages. The inner error is the reason why
    /// they cannot be had.
    pub(super) fn find(setting: &Setting, quick: bool) -> Result<Result<Self, String>> {
        // The packages stay for the next time.
        let venv = match Venv::with(&setting.out.join("export-tools"), &PACKAGES)? {
            Ok(venv) => venv,
            Err(reason) => return Ok(Err(reason)),
        };
        let export = built(quick)?;
        Ok(Ok(Self { evbd: setting.evbd.clone(), export, venv }))
    }

    /// Returns a command that runs Python with the packages.
    pub(super) fn program(&self) -> Command {
        self.venv.command("python")
    }

    /// Runs one of the Python programs beside this file, which prints JSON.
    pub(super) fn ask<A: AsRef<OsStr>>(&self, program: &str, arguments: &[A]) -> Result<Value> {
        let path = checkout::root().join("bindings/checks/src/export").join(program);
        let said = run(self.program().arg(path).args(arguments))?;
        serde_json::from_str(&said).with_context(|| format!("{program} says {said}"))
    }

    /// Returns a command that exports a run.
    pub(super) fn export_of(&self, files: &Path, format: &str, out: &Path) -> Command {
        let mut export = Command::new(&self.export);
        export.arg(files).args(["--to", format, "--force", "--out"]).arg(out);
        export
    }

    /// Runs a program to its end, and measures it.
    pub(super) fn measure(&self, command: &Command) -> Result<Measured> {
        let line: Vec<&OsStr> = [command.get_program()].into_iter().chain(command.get_args()).collect();
        let said = self.ask("timed.py", &line)?;
        let number = |name: &str| said[name].as_f64().with_context(|| format!("no {name} in {said}"));
        anyhow::ensure!(said["code"] == 0, "{command:?} ends with {}", said["code"]);
        Ok(Measured { seconds: number("seconds")?, memory: number("memory_kib")? / 1024.0 })
    }
}
