//! The limits of this process's control groups, versions 1 and 2 (cgroups(7)). A limit of any group
//! above counts too. `/proc/self/cgroup` has the path of the group, and `/proc/self/mountinfo` the
//! place of each hierarchy, of which a container may see only a part.

#[cfg(test)]
mod tests;

use std::{
    fs, iter,
    path::{Component, Path, PathBuf},
};

use evb_core::units::Bytes;

/// Without a limit, version 1 shows the largest number of bytes in whole pages, which depends on
/// the size of a page. No machine has as much memory as this.
const UNLIMITED: u64 = 1 << 62;

/// In place of the name of a controller: the hierarchy of version 2, which is one for all.
const VERSION_2: &str = "";

/// Returns the smallest limit of memory of this process's groups; `None` if none has one.
pub(crate) fn memory_limit() -> Option<Bytes> {
    memory_limit_in(Path::new("/"))
}

/// Returns the smallest limit of processor time of this process's groups, in cores; `None` if none
/// has one.
pub(crate) fn processor_limit() -> Option<f64> {
    processor_limit_in(Path::new("/"))
}

/// Returns the limit of memory according to the directories `proc` and `sys` in `root`.
fn memory_limit_in(root: &Path) -> Option<Bytes> {
    let number = |path: PathBuf| text(&path)?.parse().ok();
    let new = folders(root, VERSION_2).filter_map(|folder| number(folder.join("memory.max")));
    let old = folders(root, "memory").filter_map(|folder| number(folder.join("memory.limit_in_bytes")));
    new.chain(old).filter(|limit| *limit < UNLIMITED).min().map(Bytes::new)
}

/// Returns the limit of processor time, in cores, according to `proc` and `sys` in `root`.
fn processor_limit_in(root: &Path) -> Option<f64> {
    let new = folders(root, VERSION_2).filter_map(|folder| quota(&text(&folder.join("cpu.max"))?));
    let old = folders(root, "cpu").filter_map(|folder| {
        let [quota_us, period] =
            ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map(|name| text(&folder.join(name)));
        quota(&format!("{} {}", quota_us?, period?))
    });
    new.chain(old).min_by(f64::total_cmp)
}

/// Parses a limit of processor time, `QUOTA PERIOD` in microseconds, into a number of cores. `max`
/// and −1 are no limits.
fn quota(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let (quota, period): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// Returns the text of a file without blanks around it; `None` if the file cannot be read.
fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the folders of this process's group and of all visible groups above it, the lowest
/// first. The groups are those in the hierarchy of version 1 that has the `controller` (such as
/// `memory`), or, for [`VERSION_2`], those in the hierarchy of version 2.
fn folders(root: &Path, controller: &str) -> impl Iterator<Item = PathBuf> {
    let group = text(&root.join("proc/self/cgroup")).and_then(|text| group(&text, controller));
    let mounted = text(&root.join("proc/self/mountinfo")).and_then(|text| mount(&text, controller));
    let found = group.zip(mounted).map(|(group, Mount { top_group, folder })| {
        let top = inside(root, &folder);
        // Of a group outside of what is mounted, only the top of what is mounted is visible.
        (top.join(below(&group, &top_group)), top)
    });
    found.into_iter().flat_map(|(lowest, top)| {
        iter::successors(Some(lowest), move |folder| {
            (*folder != top).then(|| folder.parent().map(Path::to_owned)).flatten()
        })
    })
}

/// Returns a path within `root`.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Returns the path of `group` relative to `top_group`. The path is empty if `group` is not below
/// `top_group`, or if the path leads upwards.
fn below(group: &Path, top_group: &Path) -> PathBuf {
    let rest = group.strip_prefix(top_group).unwrap_or_else(|_| Path::new(""));
    let leads_down = rest.components().all(|component| matches!(component, Component::Normal(_)));
    if leads_down { rest.to_owned() } else { PathBuf::new() }
}

/// Finds the path of a group in `/proc/self/cgroup`, whose lines are `ID:CONTROLLERS:PATH`. The
/// line of version 2 has no controllers.
fn group(text: &str, controller: &str) -> Option<PathBuf> {
    let mut lines = text.lines().map(|line| line.splitn(3, ':'));
    lines.find_map(|mut fields| {
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then(|| PathBuf::from(path))
    })
}

/// A mounted hierarchy of control groups, of which a container may see only a branch.
struct Mount {
    /// The group at the top of what is mounted, as a path in the whole hierarchy.
    top_group: PathBuf,
    /// The folder in which that group is visible.
    folder: PathBuf,
}

/// Finds in `/proc/self/mountinfo` the hierarchy of version 1 that has the `controller`, or, for
/// [`VERSION_2`], that of version 2.
fn mount(text: &str, controller: &str) -> Option<Mount> {
    text.lines().find_map(|line| {
        // proc_pid_mountinfo(5): `ID PARENT DEVICE ROOT MOUNT_POINT OPTIONS [TAG…] - TYPE SOURCE
        // SUPER_OPTIONS`.
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, _source, super_options) = (after.next()?, after.next()?, after.next()?);
        let has_controller = match controller {
            VERSION_2 => kind == "cgroup2",
            _ => kind == "cgroup" && super_options.split(',').any(|option| option == controller),
        };
        let mut before = before.split(' ').skip(3);
        let (group, mount_point) = (before.next()?, before.next()?);
        has_controller.then(|| Mount { top_group: unescaped(group), folder: unescaped(mount_point) })
    })
}

/// Replaces the octal escapes of blanks and backslashes in a path of `/proc/self/mountinfo`.
fn unescaped(path: &str) -> PathBuf {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\").into()
}
