//! The execution of a plan: runs `tc`, and leaves either the whole plan or the kernel's default.

use std::{io, process::Command};

use super::plan::{Plan, ROOT, quoted};

/// A way to run `tc`; tests have a recorded one.
pub(crate) trait TrafficControl {
    /// Runs `tc` with these arguments and returns its output.
    ///
    /// # Errors
    /// `tc` cannot be run, or it fails.
    fn run(&mut self, arguments: &[String]) -> Result<String, TcError>;
}

/// The `tc` of iproute2.
#[derive(Debug, Default)]
pub(crate) struct Iproute;

/// The reason why a `tc` command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TcError {
    /// The program cannot be run.
    #[error("tc does not run: {0}; install iproute2")]
    Missing(io::Error),
    /// The kernel or tc refused.
    #[error("tc {command}: {said}{}", hint(.said))]
    Refused {
        /// Arguments of the command.
        command: String,
        /// Message of tc.
        said: String,
    },
    /// The output of tc has an unknown form.
    #[error("tc {command}: its answer is not understood; iproute2 4.17 or later is needed")]
    Garbled {
        /// Arguments of the command.
        command: String,
    },
}

/// Returns advice for known messages.
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

/// The root qdisc of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// The kernel's own, by kind.
    Default(String),
    /// The one that evbd has set up.
    Ours,
    /// Another program's or user's, by kind and handle.
    Foreign(String),
}

/// The reason why provisioning failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProvisionError {
    /// `tc` failed, and nothing has changed.
    #[error(transparent)]
    Tc(#[from] TcError),
    /// Another root qdisc was set up on purpose.
    #[error(
        "{device} has a {root} that another program or a person has set up, and evbd could not restore it. --replace \
         deletes it; `tc qdisc show dev {device}` shows it"
    )]
    Foreign {
        /// Name of the device.
        device: String,
        /// Kind and handle of the root qdisc.
        root: String,
    },
    /// A step failed, and all steps were undone.
    #[error("{cause}; evbd has undone all steps: {device} has the kernel's default")]
    RolledBack {
        /// Name of the device.
        device: String,
        /// Error of the step.
        cause: TcError,
    },
    /// A step failed, and the steps before it could not be undone.
    #[error(
        "{cause}; and the steps before it could not be undone: {second}; try `tc qdisc del dev {device} root`"
    )]
    LeftOver {
        /// Name of the device.
        device: String,
        /// Error of the step.
        cause: TcError,
        /// Error of undoing.
        second: TcError,
    },
}

/// Reads the root qdisc of a device.
///
/// # Errors
/// `tc` cannot be run, or does not know the device.
pub(crate) fn root(tc: &mut dyn TrafficControl, device: &str) -> Result<Root, TcError> {
    let arguments = words(&format!("-j qdisc show dev {device}"));
    let garbled = || TcError::Garbled { command: spelled(&arguments) };
    let answer: serde_json::Value = serde_json::from_str(&tc.run(&arguments)?).map_err(|_| garbled())?;
    let entries = answer.as_array().ok_or_else(garbled)?;
    // A kernel without a default for the device shows no qdisc.
    let Some(root) = entries.iter().find(|entry| entry["root"] == true) else {
        return Ok(Root::Default("none".into()));
    };
    let (kind, handle) = (root["kind"].as_str().unwrap_or("?"), root["handle"].as_str().unwrap_or("?"));
    Ok(match (kind, handle) {
        ("htb", ROOT) => Root::Ours,
        // The kernel's own qdisc has the handle 0; one that was added has another.
        (_, "0:") => Root::Default(kind.into()),
        _ => Root::Foreign(format!("{kind} {handle}")),
    })
}

/// Carries out a plan. Replaces an earlier plan's qdisc, but one of another program only with
/// `replace`.
///
/// # Errors
/// [`ProvisionError`]: either nothing has changed, or the device has the kernel's default, as the
/// error says.
pub(crate) fn apply(tc: &mut dyn TrafficControl, plan: &Plan, replace: bool) -> Result<Root, ProvisionError> {
    let before = root(tc, &plan.device)?;
    refuse_foreign(&before, &plan.device, replace)?;
    if !matches!(before, Root::Default(_)) {
        tc.run(&delete(&plan.device))?;
    }
    for (done, step) in plan.steps.iter().enumerate() {
        let Err(cause) = tc.run(step) else { continue };
        let device = plan.device.clone();
        // The first step makes the root. If that step failed, there may be no qdisc to delete.
        return match tc.run(&delete(&plan.device)) {
            Err(second) if done > 0 => Err(ProvisionError::LeftOver { device, cause, second }),
            _ => Err(ProvisionError::RolledBack { device, cause }),
        };
    }
    Ok(before)
}

/// Deletes evbd's root qdisc, whereupon the kernel restores its default. Returns the root before.
///
/// # Errors
/// [`ProvisionError`]: nothing has changed.
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

/// Splits arguments without spaces in them, as `tc` gets them.
pub(super) fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Joins arguments as one would type them in a shell.
pub(crate) fn spelled(arguments: &[String]) -> String {
    arguments.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}
