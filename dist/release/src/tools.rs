//! The programs that build and package a release, in fixed versions and in a folder of their own:
//! from PyPI those that PyPI has, because they need no compilation, and the others by cargo.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::finish;

/// Packages of PyPI: Zig as a linker, and the programs that call it.
const PYTHON: [&str; 3] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1", "maturin==1.16.0"];

/// The installed programs.
pub(super) struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// Installs the programs of PyPI, if they are not there.
    pub(super) fn install(folder: &Path) -> Result<Self> {
        let tools = Self { folder: folder.to_owned() };
        let stamp = folder.join("python.txt");
        let wanted = PYTHON.join("\n");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(tools);
        }
        finish(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")))
            .context("python3 makes no environments here: apt-get install python3-venv")?;
        let mut pip = tools.python("python");
        pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet"]);
        finish(pip.args(["--only-binary", ":all:"]).args(PYTHON))?;
        fs::write(stamp, wanted)?;
        Ok(tools)
    }

    /// Returns a command that starts a program of PyPI, which finds the others by `PATH`.
    pub(super) fn python(&self, program: &str) -> Command {
        let programs = self.folder.join("venv/bin");
        let mut command = Command::new(programs.join(program));
        let mut path = programs.into_os_string();
        path.push(":");
        path.push(env::var_os("PATH").unwrap_or_default());
        command.env("PATH", path).env("VIRTUAL_ENV", self.folder.join("venv"));
        command
    }

    /// Returns a command that starts a subcommand of cargo, which is installed first if it is not
    /// there in this version.
    pub(super) fn cargo(&self, name: &str, version: &str) -> Result<Command> {
        let program = format!("cargo-{name}");
        let folder = self.folder.join(format!("{program}-{version}"));
        let path = folder.join("bin").join(&program);
        if !path.exists() {
            println!("installing: {program} {version}");
            let mut cargo = checkout::cargo();
            cargo.args(["install", "--quiet", "--debug", "--locked", &program, "--version", version]);
            finish(cargo.arg("--root").arg(&folder).env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
        }
        let mut command = Command::new(path);
        command.arg(name);
        Ok(command)
    }
}
