//! An isolated environment with nothing but loopback: network, processes and mounts of its own. All
//! of it ends with the program that it was made for, however that ends.

use std::{
    ffi::OsStr,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::needs::Need;
use crate::lab::guard::Guarded;

pub(crate) const UNSHARE: Need = Need { program: "unshare", package: "util-linux" };
pub(crate) const SETPRIV: Need = Need { program: "setpriv", package: "util-linux" };
pub(crate) const IP: Need = Need { program: "ip", package: "iproute2" };

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs this program with other arguments in such an environment, within a time limit, and returns
/// its exit code, or 1 for a signal.
pub(crate) fn run<A: AsRef<OsStr>>(arguments: &[A], limit: Duration) -> Result<u8> {
    let own = std::env::current_exe().context("which program is this?")?;
    let mut command = Command::new("setpriv");
    // The environment, with everything that runs in it, ends with this program even if that is
    // killed.
    command.args(["--pdeathsig", "KILL", "--", "unshare"]);
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.args(["sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(own).args(arguments);
    let mut world = Guarded(command.spawn().context("unshare does not start")?);
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if let Some(status) = world.0.try_wait()? {
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
        thread::sleep(LOOK_EVERY);
    }
    eprintln!("it has not ended within {} s", limit.as_secs());
    Ok(1)
}
