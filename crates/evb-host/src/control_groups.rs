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

/// Returns the smallest limit of memory of this process's groups; `None` if none has one.
pub(crate) fn memory_limit() -> Option<Bytes> {
    memory_limit_in(Path::new("/"))
}

/// Returns the smallest limit of processor time of this process's groups, in units of whole cores.
pub(crate) fn processor_limit() -> Option<f64> {
    processor_limit_in(Path::new("/"))
}

/// Returns the limit of memory according to `proc` and `sys` in that folder.
fn memory_limit_in(root: &Path) -> Option<Bytes> {
    let number = |path: PathBuf| text(&path)?.parse().ok();
    let new = folders(root, "").filter_map(|folder| number(folder.join("memory.max")));
    let old = folders(root, "memory").filter_map(|folder| number(folder.join("memory.limit_in_bytes")));
    new.chain(old).filter(|limit| *limit < UNLIMITED).min().map(Bytes::new)
}

/// Returns the limit of processor time according to `proc` and `sys` in that folder.
fn processor_limit_in(root: &Path) -> Option<f64> {
    let new = folders(root, "").filter_map(|folder| quota(&text(&folder.join("cpu.max"))?));
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

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the folders of this process's group and of all groups above it that are visible, in the
/// hierarchy of that controller of version 1, or with "" in that of version 2.
fn folders(root: &Path, controller: &str) -> impl Iterator<Item = PathBuf> {
    let group = text(&root.join("proc/self/cgroup")).and_then(|text| group(&text, controller));
    let mounted = text(&root.join("proc/self/mountinfo")).and_then(|text| mount(&text, controller));
    let found = group.zip(mounted).map(|(group, (part, place))| {
        let place = inside(root, &place);
        // Of a group outside of what is mounted, only the top of what is mounted is visible.
        (place.join(below(&group, &part)), place)
    });
    found.into_iter().flat_map(|(lowest, place)| {
        iter::successors(Some(lowest), move |folder| {
            (*folder != place).then(|| folder.parent().map(Path::to_owned)).flatten()
        })
    })
}

/// Returns a path within `root`.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Returns the path of `group` relative to `part`; an empty one if it is not below it, or leads
/// upwards.
fn below(group: &Path, part: &Path) -> PathBuf {
    let rest = group.strip_prefix(part).unwrap_or_else(|_| Path::new(""));
    let leads_down = rest.components().all(|part| matches!(part, Component::Normal(_)));
    if leads_down { rest.to_owned() } else { PathBuf::new() }
}

/// Finds the path of a group in `/proc/self/cgroup`, whose lines are `ID:CONTROLLERS:PATH`.
fn group(text: &str, controller: &str) -> Option<PathBuf> {
    let mut lines = text.lines().map(|line| line.splitn(3, ':'));
    lines.find_map(|mut fields| {
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then(|| PathBuf::from(path))
    })
}

/// Finds a hierarchy in `/proc/self/mountinfo`: the group that is the top of what is mounted, and
/// the place.
fn mount(text: &str, controller: &str) -> Option<(PathBuf, PathBuf)> {
    text.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (kind, options) = (system.next()?, system.nth(1)?);
        let is_it = match controller {
            "" => kind == "cgroup2",
            _ => kind == "cgroup" && options.split(',').any(|option| option == controller),
        };
        let mut fields = mount.split(' ').skip(3);
        let (part, place) = (fields.next()?, fields.next()?);
        is_it.then(|| (PathBuf::from(unescaped(part)), PathBuf::from(unescaped(place))))
    })
}

/// Replaces the octal escapes of blanks in a path of `/proc/self/mountinfo`.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}
