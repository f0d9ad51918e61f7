//! Virtual environments of Python.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

/// A virtual environment of Python.
pub struct Venv {
    folder: PathBuf,
}

impl Venv {
    /// Creates an environment, or takes an existing one, with packages from PyPI. The inner error
    /// is the reason why they cannot be had.
    pub fn with(folder: &Path, packages: &[&str]) -> Result<Result<Self, String>> {
        let venv = match Self::empty(folder)? {
            Ok(venv) => venv,
            Err(reason) => return Ok(Err(reason)),
        };
        let mut pip = venv.pip();
        // Packages without a wheel for this Python would need compilers.
        pip.args(["install", "--quiet", "--only-binary", ":all:"]).args(packages);
        let output = pip.output().context("pip does not start")?;
        if output.status.success() {
            return Ok(Ok(venv));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| line.starts_with("ERROR")).unwrap_or("pip fails");
        Ok(Err(format!("cannot install {}: {last}", packages.join(", "))))
    }

    /// Creates an environment without packages, or takes an existing one.
    pub fn empty(folder: &Path) -> Result<Result<Self, String>> {
        if !folder.join("bin/python").exists() {
            let made = Command::new("python3").args(["-m", "venv"]).arg(folder).output();
            let made = made.context("python3 does not start")?;
            if !made.status.success() {
                return Ok(
                    Err("python3 makes no environments here: apt-get install python3-venv".to_owned()),
                );
            }
        }
        Ok(Ok(Self { folder: folder.to_owned() }))
    }

    /// Installs a wheel, and nothing from elsewhere.
    pub fn install(&self, wheel: &Path) -> Result<()> {
        let status = self.pip().args(["install", "--quiet", "--no-index"]).arg(wheel).status()?;
        ensure!(status.success(), "{} cannot be installed", wheel.display());
        Ok(())
    }

    fn pip(&self) -> Command {
        let mut pip = self.command("python");
        pip.args(["-m", "pip", "--disable-pip-version-check"]);
        pip
    }

    /// Returns a command that starts a program of the environment, which finds other programs of it
    /// by `PATH`.
    pub fn command(&self, program: &str) -> Command {
        let programs = self.folder.join("bin");
        let mut command = Command::new(programs.join(program));
        let mut path = programs.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command.env("PATH", path).env("VIRTUAL_ENV", &self.folder);
        command
    }
}
