//! The execution of a plan with `tc`. Afterwards, the device has either the whole plan or the
//! kernel's default.

use std::{io, process::Command};

use super::plan::{Plan, ROOT, quoted};

/// A way to run `tc`; tests replace the program by a recorder.
pub(crate) trait TrafficControl {
    /// Runs `tc` with these arguments and returns its output.
    ///
    /// # Errors
    /// `tc` cannot be run, or it fails.
    fn run(&mut self, arguments: &[String]) -> Result<String, TcError>;
}

/// The program `tc` of iproute2.
#[derive(Debug, Default)]
pub(crate) struct Iproute;

/// The reason why a `tc` command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TcError {
    /// The program `tc` cannot be run.
    #[error("the program `tc` does not run: {0}; install the package iproute2")]
    Missing(io::Error),
    /// `tc` or the kernel refused a command.
    #[error("the command `tc {command}` failed: {said}{}", hint(.said))]
    Refused {
        /// Arguments of the command.
        command: String,
        /// Message of tc.
        said: String,
    },
    /// The output of `tc` has an unknown form.
    #[error(
        "evbd does not understand the answer of the command `tc {command}`; install iproute2 4.17 or later"
    )]
    Garbled {
        /// Arguments of the command.
        command: String,
    },
}

/// Advice for a kernel without the qdiscs of a plan.
const NO_QDISC: &str =
    "; this kernel lacks that qdisc: use one with CONFIG_NET_SCH_HTB and CONFIG_NET_SCH_TBF";

/// Returns advice for known error messages of `tc`.
fn hint(said: &str) -> &'static str {
    let hints = [
        ("Operation not permitted", "; run evbd as root, or with CAP_NET_ADMIN"),
        ("Cannot find device", "; give --device one that `ip link` lists"),
        ("Specified qdisc kind is unknown", NO_QDISC),
        ("qdisc not found", NO_QDISC),
        (
            "TC classifier not found",
            "; this kernel lacks that classifier: use one with CONFIG_NET_CLS_U32 and CONFIG_NET_CLS_BASIC",
        ),
    ];
    hints.iter().find(|(words, _)| said.contains(words)).map_or(
        "; look in `dmesg` for the reason, and give evbd another device or other rates",
        |(_, hint)| hint,
    )
}

impl TrafficControl for Iproute {
    /// Runs `tc` with these arguments, in the language that evb can read, and returns its output.
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

/// The origin of a device's root qdisc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// The kernel has set up its default qdisc of this kind.
    Default(String),
    /// evbd has set up the root qdisc.
    Ours,
    /// Another program or a person has set up the root qdisc; the text gives its kind and handle.
    Foreign(String),
}

/// The reason why provisioning failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProvisionError {
    /// `tc` failed, and nothing has changed.
    #[error(transparent)]
    Tc(#[from] TcError),
    /// Another program or a person has set up the root qdisc, and `--replace` was not given.
    #[error(
        "{device} has a {root} that another program or a person has set up, and that evbd could not restore later, so \
         evbd has changed nothing; look at it with `tc qdisc show dev {device}`, and give --replace to delete it"
    )]
    Foreign {
        /// Name of the device.
        device: String,
        /// Kind and handle of the root qdisc.
        root: String,
    },
    /// A command failed, and evbd has undone all commands before it.
    #[error("{cause}, then apply again: evbd has undone all steps, so {device} has the kernel's default")]
    RolledBack {
        /// Name of the device.
        device: String,
        /// Error of the failed command.
        cause: TcError,
    },
    /// A command failed, and evbd could not undo the commands before it.
    #[error(
        "{cause}, then remove the steps before it with `tc qdisc del dev {device} root`, because evbd could not undo them ({second}), and apply again"
    )]
    LeftOver {
        /// Name of the device.
        device: String,
        /// Error of the failed command.
        cause: TcError,
        /// Error of the attempt to undo the commands.
        second: TcError,
    },
}

/// Reads the root qdisc of a device.
///
/// # Errors
/// `tc` cannot be run, or the device does not exist.
pub(crate) fn root(tc: &mut dyn TrafficControl, device: &str) -> Result<Root, TcError> {
    let arguments = words(&format!("-j qdisc show dev {device}"));
    let garbled = || TcError::Garbled { command: spelled(&arguments) };
    let answer: serde_json::Value = serde_json::from_str(&tc.run(&arguments)?).map_err(|_| garbled())?;
    let entries = answer.as_array().ok_or_else(garbled)?;
    // If the kernel has no default for the device, `tc` shows no qdisc.
    let Some(root) = entries.iter().find(|entry| entry["root"] == true) else {
        return Ok(Root::Default("none".into()));
    };
    let (kind, handle) = (root["kind"].as_str().unwrap_or("?"), root["handle"].as_str().unwrap_or("?"));
    Ok(match (kind, handle) {
        ("htb", ROOT) => Root::Ours,
        // The kernel's default qdisc has the handle 0; a qdisc that was added has another handle.
        (_, "0:") => Root::Default(kind.into()),
        _ => Root::Foreign(format!("{kind} {handle}")),
    })
}

/// Carries out a plan. The qdisc of an earlier plan is replaced; the qdisc of another program is
/// replaced only with `replace`. Returns the root qdisc before the change.
///
/// # Errors
/// [`ProvisionError`] says whether nothing has changed, the kernel's default has returned, or
/// commands could not be undone.
pub(crate) fn apply(tc: &mut dyn TrafficControl, plan: &Plan, replace: bool) -> Result<Root, ProvisionError> {
    let before = root(tc, &plan.device)?;
    refuse_foreign(&before, &plan.device, replace)?;
    if !matches!(before, Root::Default(_)) {
        tc.run(&delete(&plan.device))?;
    }
    for (done, step) in plan.steps.iter().enumerate() {
        let Err(cause) = tc.run(step) else { continue };
        let device = plan.device.clone();
        // The first command creates the root qdisc. If this command failed, there may be no qdisc
        // to delete.
        return match tc.run(&delete(&plan.device)) {
            Err(second) if done > 0 => Err(ProvisionError::LeftOver { device, cause, second }),
            _ => Err(ProvisionError::RolledBack { device, cause }),
        };
    }
    Ok(before)
}

/// Deletes the root qdisc that evbd has set up, so that the kernel restores its default. Returns
/// the root qdisc before the change.
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

/// Refuses to replace the qdisc of another program, unless that is asked.
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

/// Splits a command line at its spaces into arguments for `tc`; no argument may contain a space.
pub(super) fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Joins arguments to a shell command line, with quotes where the shell needs them.
pub(crate) fn spelled(arguments: &[String]) -> String {
    arguments.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}
