//! A small file system for each builder, which can be filled. If it is on a loop device, it can
//! also hang.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::network::{Shape, run};

/// Number of bytes left on a full disk: less than any record.
const LEFT: u64 = 4096;

/// A mounted file system; dropping it unmounts it.
pub(crate) struct Disk {
    pub(crate) folder: PathBuf,
    image: PathBuf,
    /// True if it is on a loop device, so that it can be frozen.
    hangs: bool,
}

/// Returns the folder that a builder writes to.
pub(crate) fn folder(run: &Path, builder: u16) -> PathBuf {
    run.join(format!("disk-{builder}"))
}

/// Mounts one for each builder, by host.
pub(crate) fn mount_all(run: &Path, shape: Shape, size: u64) -> Result<BTreeMap<String, Disk>> {
    let mount = |builder| Ok((format!("b{builder}"), Disk::mount(&folder(run, builder), size)?));
    (1..=shape.builders).map(mount).collect()
}

impl Disk {
    /// Mounts a file system of `size` bytes at `folder`.
    pub(crate) fn mount(folder: &Path, size: u64) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let image = folder.with_extension("image");
        let target = folder.to_string_lossy().into_owned();
        let loops = Self::mount_image(&image, &target, size);
        let hangs = loops.is_ok();
        if !hangs {
            run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", &target])?;
        }
        Ok(Self { folder: folder.to_owned(), image, hangs })
    }

    fn mount_image(image: &Path, target: &str, size: u64) -> Result<()> {
        File::create(image)?.set_len(size)?;
        let image = image.to_string_lossy();
        // It has no journal and therefore no commits, because the host's own disk is not under
        // test.
        run("mkfs.ext4", &["-q", "-F", "-m", "0", "-O", "^has_journal", &image])?;
        run("mount", &["-o", "loop", &image, target]).map(drop)
    }

    /// Returns true if it can be made to hang.
    pub(crate) fn hangs(&self) -> bool {
        self.hangs
    }

    /// Fills it, or frees the space again.
    pub(crate) fn fill(&self, is_full: bool) -> Result<()> {
        let ballast = self.folder.join("ballast");
        if !is_full {
            return fs::remove_file(&ballast).context("removing the ballast");
        }
        let said = run("df", &["--output=avail", "-B1", &self.folder.to_string_lossy()])?;
        let free: u64 = said.lines().last().and_then(|line| line.trim().parse().ok()).context("df")?;
        let length = free.saturating_sub(LEFT).max(1).to_string();
        // Concurrent writes may take the last of the space.
        let tried = run("fallocate", &["-l", &length, &ballast.to_string_lossy()]);
        if tried.is_err() {
            File::create(&ballast)?;
        }
        Ok(())
    }

    /// Freezes it, or thaws it.
    pub(crate) fn stick(&self, is_stuck: bool) -> Result<()> {
        stick(&self.folder, is_stuck)
    }
}

/// Freezes or thaws the file system that is mounted at `folder`.
pub(crate) fn stick(folder: &Path, is_stuck: bool) -> Result<()> {
    let how = if is_stuck { "--freeze" } else { "--unfreeze" };
    run("fsfreeze", &[how, &folder.to_string_lossy()]).map(drop)
}

/// Unmounts the file systems that a killed lab has left in a run's folder.
pub(crate) fn unmount_below(run: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("reading the mounts")?;
    mounted_below(&mounts, run).iter().try_for_each(|folder| unmount(folder))
}

/// Parses the format of `/proc/self/mounts`; folders with blanks, which it escapes, are not found.
fn mounted_below(mounts: &str, run: &Path) -> Vec<PathBuf> {
    let targets = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    targets.filter(|target| target.starts_with(run)).collect()
}

fn unmount(folder: &Path) -> Result<()> {
    // In most cases it is thawed already.
    let _ = stick(folder, false);
    run("umount", &["-l", &folder.to_string_lossy()]).map(drop)
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.folder) {
            eprintln!("{error:#}");
        }
        // A tmpfs has no image.
        let _ = fs::remove_file(&self.image);
    }
}

#[cfg(test)]
mod tests;
