//! What the network card can do by itself, and honestly what it cannot: a rate limit per transmit queue
//! (`tx_maxrate`), and HTB in hardware.

use std::{fs, io::Write as _, path::PathBuf, process::Command};

use evb_core::units::Rate;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// The device takes it.
    There,
    /// The device does not.
    NotOnThisDevice,
    /// Only root may find out.
    NeedsRoot,
    /// This system does not tell.
    Unknown,
}

impl Means {
    /// For people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::There => "on this device",
            Self::NotOnThisDevice => "not on this device",
            Self::NeedsRoot => "unknown: only root may find out",
            Self::Unknown => "unknown: the system does not tell",
        }
    }
}

/// A device's own means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nic {
    /// Every transmit queue's file, and its present limit in Mbit/s (0: none).
    pub(crate) queues: Vec<(PathBuf, Option<u64>)>,
    /// Whether those limits can be set.
    pub(crate) queue_rate: Means,
    /// HTB offload.
    pub(crate) htb_offload: Means,
}

/// Looks at a device; changes nothing.
pub(crate) fn look(device: &str) -> Nic {
    let folder = PathBuf::from(format!("/sys/class/net/{device}/queues"));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("tx-"))
        .map(|entry| entry.path().join("tx_maxrate"))
        .collect();
    files.sort();
    let limit = |file: &PathBuf| fs::read_to_string(file).ok()?.trim().parse().ok();
    let queues: Vec<_> = files.into_iter().map(|file| (file.clone(), limit(&file))).collect();
    let queue_rate = queues.first().map_or(Means::Unknown, |(file, _)| takes_rates(file));
    Nic { queues, queue_rate, htb_offload: htb_offload(device) }
}

/// The kernel asks the driver before it looks at the number (`tx_maxrate_store`, net/core/net-sysfs.c), so something that
/// is no number tells whether there is a driver for it, and sets nothing.
fn takes_rates(file: &PathBuf) -> Means {
    let tried = fs::OpenOptions::new().write(true).open(file).and_then(|mut file| file.write_all(b"?"));
    match tried.map_err(|error| error.raw_os_error()) {
        Err(Some(EOPNOTSUPP)) => Means::NotOnThisDevice,
        Err(Some(EINVAL)) => Means::There,
        Err(Some(EACCES | EPERM)) => Means::NeedsRoot,
        _ => Means::Unknown,
    }
}

// Linux, asm-generic/errno.h.
const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;

fn htb_offload(device: &str) -> Means {
    let Ok(output) = Command::new("ethtool").args(["-k", device]).output() else { return Means::Unknown };
    tc_offload(&String::from_utf8_lossy(&output.stdout))
}

/// HTB offload is behind the feature `hw-tc-offload`; where that is fixed off there is none.
pub(super) fn tc_offload(features: &str) -> Means {
    let line = features.lines().find_map(|line| line.trim().strip_prefix("hw-tc-offload:"));
    match line.map(str::trim) {
        Some("off [fixed]") => Means::NotOnThisDevice,
        Some(_) => Means::There,
        None => Means::Unknown,
    }
}

/// The limit of a queue in the kernel's Mbit/s, no less than the rate.
pub(crate) fn megabits(rate: Rate) -> u64 {
    rate.bits_per_second().div_ceil(1_000_000)
}

/// Limits a transmit queue, in Mbit/s; 0 takes the limit away.
///
/// # Errors
/// The system's.
pub(crate) fn limit_queue(file: &PathBuf, megabits: u64) -> std::io::Result<()> {
    fs::write(file, megabits.to_string())
}
