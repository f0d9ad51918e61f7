//! The files of a release, built by `cargo xtask release`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use checkout::cargo;
use lab_base::setting::QUICK;

/// Paths of the files that the checks use.
pub(super) struct Files {
    pub(super) musl: PathBuf,
    /// The files that need a second and a third build of everything; `None` in a quick test.
    pub(super) dynamic: Option<Dynamic>,
    pub(super) image: PathBuf,
    /// The package in two revisions.
    pub(super) debs: [PathBuf; 2],
}

/// Paths of the files that need the C library of the system.
pub(super) struct Dynamic {
    pub(super) glibc: PathBuf,
    pub(super) sdk: PathBuf,
}

impl Files {
    /// Builds all files; on request without optimization, and without those that need the C library
    /// of the system. The wheel has a test of its own.
    pub(super) fn build(folder: &Path, quick: bool) -> Result<Self> {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder)?;
        let parts = ["musl", "deb", "image", "glibc", "sdk"];
        release(folder, if quick { &parts[..3] } else { &parts }, 1, quick)?;
        release(folder, &["deb"], 2, quick)?;
        Self::find(folder, quick)
    }

    /// Finds the files in the folder, each by the end of its name.
    pub(super) fn find(folder: &Path, quick: bool) -> Result<Self> {
        let mut names: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            names.push(entry?.path());
        }
        let find = |begin: &str, end: &str| {
            let fits = |path: &&PathBuf| {
                path.file_name()
                    .and_then(|name| name.to_str())
                    .is_some_and(|name| name.starts_with(begin) && name.ends_with(end))
            };
            let found = names.iter().find(fits).cloned();
            found.with_context(|| format!("there is no {begin}*{end} in {}", folder.display()))
        };
        let dynamic = match quick {
            true => None,
            false => {
                Some(Dynamic { glibc: find("evbd-", "-gnu.tar.gz")?, sdk: find("evb-sdk-", ".tar.gz")? })
            }
        };
        Ok(Self {
            musl: find("evbd-", "-musl.tar.gz")?,
            dynamic,
            image: find("evbd-", "-oci.tar")?,
            debs: [find("evbd_", "-1_amd64.deb")?, find("evbd_", "-2_amd64.deb")?],
        })
    }
}

/// Runs `cargo xtask release` for some parts, and shows what it says, for it takes minutes.
fn release(folder: &Path, parts: &[&str], revision: u32, quick: bool) -> Result<()> {
    let mut xtask: Command = cargo();
    if quick {
        xtask.envs(QUICK).env("CARGO_TARGET_DIR", checkout::root().join("target/quick"));
    }
    xtask.args(["xtask", "release", "--revision", &revision.to_string(), "--out"]).arg(folder);
    xtask.args(quick.then_some("--fast"));
    xtask.args(parts.iter().flat_map(|part| ["--only", part]));
    let status = xtask.status().context("cargo does not start")?;
    anyhow::ensure!(status.success(), "cargo xtask release: {status}");
    Ok(())
}
