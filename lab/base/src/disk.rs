//! [`Disk`]: a small file system for a builder, which a test can fill. If the file system is on a
//! loop device, the test can also make it hang.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::network::{Shape, run};

/// Number of bytes left free on a full disk: less than any record of an event file.
const LEFT: u64 = 4096;

/// A mounted file system; dropping it unmounts it.
pub struct Disk {
    pub folder: PathBuf,
    image: PathBuf,
    /// True if the file system is on a loop device, so that it can be frozen.
    hangs: bool,
}

/// Returns the folder to which a builder writes its event files.
pub fn folder(run: &Path, builder: u16) -> PathBuf {
    run.join(format!("disk-{builder}"))
}

/// Mounts a file system for each builder, and returns them by host name.
pub fn mount_all(run: &Path, shape: Shape, size: u64) -> Result<BTreeMap<String, Disk>> {
    let mount = |builder| Ok((format!("b{builder}"), Disk::mount(&folder(run, builder), size)?));
    (1..=shape.builders).map(mount).collect()
}

impl Disk {
    /// Mounts a file system of `size` bytes at `folder`.
    pub fn mount(folder: &Path, size: u64) -> Result<Self> {
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
        // The file system has no journal, because journal commits would make the test depend on the
        // speed of the host's own disk.
        run("mkfs.ext4", &["-q", "-F", "-m", "0", "-O", "^has_journal", &image])?;
        run("mount", &["-o", "loop", &image, target]).map(drop)
    }

    /// Returns true if the test can make the file system hang.
    pub fn hangs(&self) -> bool {
        self.hangs
    }

    /// Fills the file system with a ballast file, or removes this file again.
    pub fn fill(&self, is_full: bool) -> Result<()> {
        let ballast = self.folder.join("ballast");
        if !is_full {
            return fs::remove_file(&ballast).context("removing the ballast");
        }
        let said = run("df", &["--output=avail", "-B1", &self.folder.to_string_lossy()])?;
        let free: u64 = said.lines().last().and_then(|line| line.trim().parse().ok()).context("df")?;
        let length = free.saturating_sub(LEFT).max(1).to_string();
        // A builder may write at the same time and take the last free bytes, so that `fallocate`
        // fails.
        let tried = run("fallocate", &["-l", &length, &ballast.to_string_lossy()]);
        if tried.is_err() {
            File::create(&ballast)?;
        }
        Ok(())
    }

    /// Freezes the file system, so that all writes block, or thaws it.
    pub fn stick(&self, is_stuck: bool) -> Result<()> {
        stick(&self.folder, is_stuck)
    }
}

/// Freezes or thaws the file system that is mounted at `folder`.
pub fn stick(folder: &Path, is_stuck: bool) -> Result<()> {
    let how = if is_stuck { "--freeze" } else { "--unfreeze" };
    run("fsfreeze", &[how, &folder.to_string_lossy()]).map(drop)
}

/// Unmounts the file systems that a killed lab has left in the folder of a run.
pub fn unmount_below(run: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("reading the mounts")?;
    mounted_below(&mounts, run).iter().try_for_each(|folder| unmount(folder))
}

/// Returns the mount points below `run` in the content of `/proc/self/mounts`. Mount points with
/// blanks are not found, because the kernel escapes blanks.
fn mounted_below(mounts: &str, run: &Path) -> Vec<PathBuf> {
    let targets = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    targets.filter(|target| target.starts_with(run)).collect()
}

fn unmount(folder: &Path) -> Result<()> {
    // A frozen file system cannot be unmounted; thawing fails harmlessly if it is not frozen.
    let _ = stick(folder, false);
    run("umount", &["-l", &folder.to_string_lossy()]).map(drop)
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.folder) {
            eprintln!("{error:#}");
        }
        // The image file does not exist if the file system is a tmpfs.
        let _ = fs::remove_file(&self.image);
    }
}

#[cfg(test)]
mod tests;
