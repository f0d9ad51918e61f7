//! The capabilities of a network card that `evbd provision` can use: a rate limit for each transmit
//! queue (`tx_maxrate`), and HTB in hardware.

use std::{fs, io::Write as _, path::PathBuf, process::Command};

use evb_core::units::Rate;

/// The availability of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// The device has the capability.
    There,
    /// The device does not have the capability.
    NotOnThisDevice,
    /// The availability is unknown, because only root can test it.
    NeedsRoot,
    /// The availability is unknown, because the system does not report it.
    Unknown,
}

impl Means {
    /// Returns the availability as words for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::There => "on this device",
            Self::NotOnThisDevice => "not on this device",
            Self::NeedsRoot => "not known: run this as root to see it",
            Self::Unknown => "not known: the system does not report it, and nothing needs to be done",
        }
    }
}

/// The capabilities of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nic {
    /// Control files of all transmit queues, with their present limits in Mbit/s (0: no limit;
    /// `None`: unknown).
    pub(crate) queues: Vec<(PathBuf, Option<u64>)>,
    /// Availability of rate limits for transmit queues.
    pub(crate) queue_rate: Means,
    /// Availability of HTB offload.
    pub(crate) htb_offload: Means,
}

impl Nic {
    /// Returns the reason why the limit of the only transmit queue is not used.
    pub(crate) fn why_unlimited(&self) -> String {
        const LIMIT: &str = "the network card's own limit (tx_maxrate)";
        match (self.queue_rate, self.queues.len()) {
            (Means::There, queues) => {
                format!(
                    "{LIMIT} is not used, because it limits each of the {queues} queues and not each destination"
                )
            }
            (Means::NotOnThisDevice, _) => {
                "this network card has no limit of its own (tx_maxrate)".to_owned()
            }
            (Means::NeedsRoot, _) => {
                format!("{LIMIT} is not used, because only root can see whether there is one")
            }
            (Means::Unknown, _) => {
                format!("{LIMIT} is not used, because the system does not say whether there is one")
            }
        }
    }
}

/// Reads a device's capabilities without changing settings.
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

/// Tests whether the driver supports limits. The kernel calls the driver's check before it parses
/// the number (`tx_maxrate_store`, net/core/net-sysfs.c), so that writing a text that is not a
/// number gives the answer and changes no limit.
fn takes_rates(file: &PathBuf) -> Means {
    let tried = fs::OpenOptions::new().write(true).open(file).and_then(|mut file| file.write_all(b"?"));
    match tried.map_err(|error| error.raw_os_error()) {
        Err(Some(EOPNOTSUPP)) => Means::NotOnThisDevice,
        Err(Some(EINVAL)) => Means::There,
        Err(Some(EACCES | EPERM)) => Means::NeedsRoot,
        _ => Means::Unknown,
    }
}

// Error numbers of Linux, from asm-generic/errno.h.
const EPERM: i32 = 1;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;

fn htb_offload(device: &str) -> Means {
    let Ok(output) = Command::new("ethtool").args(["-k", device]).output() else { return Means::Unknown };
    tc_offload(&String::from_utf8_lossy(&output.stdout))
}

/// Reads the availability of HTB offload from the feature `hw-tc-offload`. The value `off [fixed]`
/// means that the device does not have the capability.
pub(super) fn tc_offload(features: &str) -> Means {
    let line = features.lines().find_map(|line| line.trim().strip_prefix("hw-tc-offload:"));
    match line.map(str::trim) {
        Some("off [fixed]") => Means::NotOnThisDevice,
        Some(_) => Means::There,
        None => Means::Unknown,
    }
}

/// Returns a rate in Mbit/s, the unit of a queue's limit, rounded up.
pub(crate) fn megabits(rate: Rate) -> u64 {
    rate.bits_per_second().div_ceil(1_000_000)
}

/// Sets the rate limit of a transmit queue in Mbit/s; 0 removes the limit.
///
/// # Errors
/// The operating system refuses to set the limit.
pub(crate) fn limit_queue(file: &PathBuf, megabits: u64) -> std::io::Result<()> {
    fs::write(file, megabits.to_string())
}
