//! The clock source of this kernel, and its features, from its lists of modules and its build
//! configuration.

#[cfg(test)]
mod tests;

use std::{fs, io::Read as _};

use evb_net::host::{Fact, Unavailable, kernel::release, text_of};

/// Clock hardware from which the kernel takes its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockSource {
    /// Clock source in use.
    pub current: String,
    /// Clock sources that the kernel can use, including the current one.
    pub available: Vec<String>,
}

/// Reads the kernel's clock source.
///
/// # Errors
/// Fails if the kernel does not report its clock source.
pub fn clock_source() -> Fact<ClockSource> {
    let read =
        |name: &str| text_of(format!("/sys/devices/system/clocksource/clocksource0/{name}_clocksource"));
    let available = read("available")?.split_whitespace().map(str::to_owned).collect();
    Ok(ClockSource { current: read("current")?, available })
}

/// Returns true if the kernel has a feature that may be built in, loaded or loadable. The feature
/// is given by the name of its module, such as `sch_fq`, and its build option, such as
/// `CONFIG_NET_SCH_FQ`.
///
/// # Errors
/// Neither the lists of modules nor the kernel's configuration can be read.
pub fn has(module: &str, option: &str) -> Fact<bool> {
    let loaded = text_of("/proc/modules").ok().map(|list| is_loaded(&list, module));
    if loaded == Some(true) {
        return Ok(true);
    }
    let folder = format!("/lib/modules/{}", release()?);
    let lists = ["modules.builtin", "modules.dep"].map(|list| text_of(format!("{folder}/{list}")));
    if lists.iter().flatten().any(|list| is_listed(list, module)) {
        return Ok(true);
    }
    let lists_are_read = lists.iter().all(Result::is_ok);
    is_configured(configuration().as_deref(), option, lists_are_read).ok_or_else(|| {
        Unavailable::new(format!(
            "the lists of this kernel's modules cannot be read, so it is unknown if it has {module}; `modprobe -n {module}` tells"
        ))
    })
}

/// Decides if the kernel has a feature that no list of modules names; `None` if it is unknown,
/// because the feature may be a module in a list that was not read.
fn is_configured(configuration: Option<&str>, option: &str, lists_are_read: bool) -> Option<bool> {
    let is_set = |value: &str| {
        let wanted = format!("{option}={value}");
        configuration.map(|text| text.lines().any(|line| line == wanted))
    };
    // A feature is built in (`y`), a module (`m`), which is installed only if a list has it, or
    // left out.
    match (is_set("y"), is_set("m")) {
        (Some(true), _) => Some(true),
        (_, Some(false)) => Some(false),
        _ => lists_are_read.then_some(false),
    }
}

/// Searches `/proc/modules`, where the first word of each line is the name of a loaded module.
fn is_loaded(list: &str, module: &str) -> bool {
    list.lines().any(|line| line.split_whitespace().next() == Some(module))
}

/// Searches a list of module files, whose lines are such as `kernel/net/sched/sch_fq.ko.zst:
/// kernel/...`; the first word is the path of a module.
fn is_listed(list: &str, module: &str) -> bool {
    let names = |line: &str| {
        let file = line.split([':', ' ']).next().and_then(|path| path.rsplit('/').next())?;
        Some(file.split_once(".ko")?.0 == module)
    };
    list.lines().any(|line| names(line) == Some(true))
}

/// Returns the build configuration that the running kernel contains; `None` if it was built without
/// a copy.
fn configuration() -> Option<String> {
    /// Largest number of bytes that are read; a kernel's configuration usually has a quarter of a
    /// megabyte.
    const LONGEST: u64 = 8 * 1024 * 1024;
    let file = fs::File::open("/proc/config.gz").ok()?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}
