//! Builds evbd and evb-bench for other systems than this one, and separates evbd's debug symbols.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{Release, finish};

/// Minor version of the oldest glibc 2 that runs the programs of a release: that of RHEL 8 and its
/// rebuilds.
const GLIBC: u32 = 28;

/// The C library that a program uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Libc {
    /// Shared, from the system.
    Glibc,
    /// Part of the program.
    Musl,
}

impl Libc {
    /// Returns the name of rustc's target.
    pub(super) fn target(self) -> String {
        let libc = match self {
            Self::Glibc => "gnu",
            Self::Musl => "musl",
        };
        format!("{}-unknown-linux-{libc}", env::consts::ARCH)
    }

    /// Returns the target with the version of the library, as cargo-zigbuild takes it.
    pub(super) fn versioned(self) -> String {
        match self {
            Self::Glibc => format!("{}.2.{GLIBC}", self.target()),
            Self::Musl => self.target(),
        }
    }

    /// Returns the platform in the names of files.
    pub(super) fn platform(self) -> String {
        self.target().replace("-unknown", "")
    }
}

/// The programs `evbd` and `evb-bench` without debug symbols, and the file with those of `evbd`.
pub(super) struct Binary {
    pub(super) libc: Libc,
    pub(super) program: PathBuf,
    pub(super) bench: PathBuf,
    pub(super) symbols: PathBuf,
}

impl Binary {
    pub(super) fn build(release: &Release, libc: Libc) -> Result<Self> {
        let packages = ["--package", "evb-daemon", "--package", "evb-bench"];
        let built = build(release, libc, &release.root.join("Cargo.toml"), &packages)?;
        let folder = release.staged(&libc.target())?;
        let (program, symbols) = (folder.join("evbd"), folder.join("evbd.debug"));
        let bench = folder.join("evb-bench");
        fs::copy(built.join("evbd"), &program).context("evbd")?;
        fs::copy(built.join("evb-bench"), &bench).context("evb-bench")?;
        // Debuggers look for the file that the link names beside the program.
        finish(Command::new("objcopy").arg("--only-keep-debug").args([&program, &symbols]))?;
        finish(Command::new("strip").args([&program, &bench]))?;
        let mut link = Command::new("objcopy");
        link.arg("--add-gnu-debuglink=evbd.debug").arg("evbd").current_dir(&folder);
        finish(&mut link)?;
        Ok(Self { libc, program, bench, symbols })
    }
}

/// Builds a package with Zig as its linker, and returns the folder of the built files.
pub(super) fn build(release: &Release, libc: Libc, manifest: &Path, what: &[&str]) -> Result<PathBuf> {
    let installed = checkout::said("rustup", &["target", "list", "--installed"]);
    if installed.is_some_and(|targets| !targets.contains(&libc.target())) {
        finish(Command::new("rustup").args(["target", "add", &libc.target()]))?;
    }
    let target = checkout::target();
    let mut cargo = release.tools.python("cargo-zigbuild");
    cargo.args(["zigbuild", "--release", "--locked", "--target", &libc.versioned(), "--manifest-path"]);
    cargo.arg(manifest).args(what).arg("--target-dir").arg(&target);
    finish(&mut cargo)?;
    Ok(target.join(libc.target()).join("release"))
}
