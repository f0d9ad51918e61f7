//! Doing it: runs `tc`, and leaves either all of a plan or the kernel's default.

use std::{io, process::Command};

use super::plan::{Plan, ROOT, quoted};

/// Who runs `tc`; tests have their own.
pub(crate) trait TrafficControl {
    /// Runs `tc` with these arguments and gives what it printed.
    ///
    /// # Errors
    /// It does not run, or it says no.
    fn run(&mut self, arguments: &[String]) -> Result<String, TcError>;
}

/// The `tc` of iproute2.
#[derive(Debug, Default)]
pub(crate) struct Iproute;

/// Why a `tc` command has not been done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TcError {
    /// No such program.
    #[error("tc does not run: {0}; install iproute2")]
    Missing(io::Error),
    /// The kernel or tc refuses.
    #[error("tc {command}: {said}{}", hint(.said))]
    Refused {
        /// What was asked.
        command: String,
        /// Its words.
        said: String,
    },
    /// tc's answer has no form that we know.
    #[error("tc {command}: its answer is not understood; iproute2 4.17 or later is needed")]
    Garbled {
        /// What was asked.
        command: String,
    },
}

/// What helps, where the words are known.
fn hint(said: &str) -> &'static str {
    let hints = [
        ("Operation not permitted", "; run it as root, or with CAP_NET_ADMIN"),
        ("Cannot find device", "; `ip link` lists the devices"),
        ("Specified qdisc kind is unknown", "; this kernel lacks that qdisc (CONFIG_NET_SCH_HTB, _TBF)"),
        ("qdisc not found", "; this kernel lacks that qdisc (CONFIG_NET_SCH_HTB, _TBF)"),
        ("TC classifier not found", "; this kernel lacks that classifier (CONFIG_NET_CLS_U32, _BASIC)"),
    ];
    hints.iter().find(|(words, _)| said.contains(words)).map_or("", |(_, hint)| hint)
}

impl TrafficControl for Iproute {
    fn run(&mut self, arguments: &[String]) -> Result<String, TcError> {
        let output =
            Command::new("tc").args(arguments).env("LC_ALL", "C").output().map_err(TcError::Missing)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().map(str::trim).filter(|line| !line.starts_with("We have an error"));
        Err(TcError::Refused { command: spelled(arguments), said: said.collect::<Vec<_>>().join(" ") })
    }
}

/// What stands at a device's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// What the kernel put there itself.
    Default(String),
    /// Ours.
    Ours,
    /// Somebody's: kind and handle.
    Foreign(String),
}

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProvisionError {
    /// `tc` failed with nothing changed.
    #[error(transparent)]
    Tc(#[from] TcError),
    /// Not ours to replace.
    #[error(
        "{device} has a {root} that somebody has put there; evbd cannot restore it. With --replace it is deleted; \
         `tc qdisc show dev {device}` shows it"
    )]
    Foreign {
        /// The device.
        device: String,
        /// What stands there.
        root: String,
    },
    /// Failed half way, and taken back.
    #[error("{cause}; nothing of it is left: {device} has the kernel's default")]
    RolledBack {
        /// The device.
        device: String,
        /// What failed.
        cause: TcError,
    },
    /// Failed half way, and not taken back.
    #[error(
        "{cause}; and what was done could not be taken back: {second}; try `tc qdisc del dev {device} root`"
    )]
    LeftOver {
        /// The device.
        device: String,
        /// What failed.
        cause: TcError,
        /// What failed then.
        second: TcError,
    },
}

/// Reads what stands at the root of a device.
///
/// # Errors
/// `tc` does not run or does not know the device.
pub(crate) fn root(tc: &mut dyn TrafficControl, device: &str) -> Result<Root, TcError> {
    let arguments = words(&format!("-j qdisc show dev {device}"));
    let garbled = || TcError::Garbled { command: spelled(&arguments) };
    let answer: serde_json::Value = serde_json::from_str(&tc.run(&arguments)?).map_err(|_| garbled())?;
    let entries = answer.as_array().ok_or_else(garbled)?;
    // A kernel without a default for the device shows nothing at all.
    let Some(root) = entries.iter().find(|entry| entry["root"] == true) else {
        return Ok(Root::Default("none".into()));
    };
    let (kind, handle) = (root["kind"].as_str().unwrap_or("?"), root["handle"].as_str().unwrap_or("?"));
    Ok(match (kind, handle) {
        ("htb", ROOT) => Root::Ours,
        // The kernel gives its own the handle 0; whoever adds one has another.
        (_, "0:") => Root::Default(kind.into()),
        _ => Root::Foreign(format!("{kind} {handle}")),
    })
}

/// Carries a plan out. What was ours before is replaced; what is somebody's only with `replace`.
///
/// # Errors
/// [`ProvisionError`]; then either nothing has changed, or the device has the kernel's default, as the error says.
pub(crate) fn apply(tc: &mut dyn TrafficControl, plan: &Plan, replace: bool) -> Result<Root, ProvisionError> {
    let before = root(tc, &plan.device)?;
    refuse_foreign(&before, &plan.device, replace)?;
    if !matches!(before, Root::Default(_)) {
        tc.run(&delete(&plan.device))?;
    }
    for (done, step) in plan.steps.iter().enumerate() {
        let Err(cause) = tc.run(step) else { continue };
        let device = plan.device.clone();
        // The first step makes the root; if that failed there may be nothing to take back.
        return match tc.run(&delete(&plan.device)) {
            Err(second) if done > 0 => Err(ProvisionError::LeftOver { device, cause, second }),
            _ => Err(ProvisionError::RolledBack { device, cause }),
        };
    }
    Ok(before)
}

/// Takes away what is ours, which makes the kernel put its default back. Gives what stood there.
///
/// # Errors
/// [`ProvisionError`]; nothing has changed.
pub(crate) fn remove(
    tc: &mut dyn TrafficControl,
    device: &str,
    replace: bool,
) -> Result<Root, ProvisionError> {
    let before = root(tc, device)?;
    refuse_foreign(&before, device, replace)?;
    if !matches!(before, Root::Default(_)) {
        tc.run(&delete(device))?;
    }
    Ok(before)
}

fn refuse_foreign(root: &Root, device: &str, replace: bool) -> Result<(), ProvisionError> {
    match root {
        Root::Foreign(root) if !replace => {
            Err(ProvisionError::Foreign { device: device.into(), root: root.clone() })
        }
        _ => Ok(()),
    }
}

fn delete(device: &str) -> Vec<String> {
    words(&format!("qdisc del dev {device} root"))
}

/// Arguments without spaces in them, as `tc` gets them.
pub(super) fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Arguments as one would type them.
pub(crate) fn spelled(arguments: &[String]) -> String {
    arguments.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}
