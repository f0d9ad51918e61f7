//! An isolated environment: a network with nothing but loopback, and separate process and mount
//! namespaces. All its processes end with the program that created it, even if this program is
//! killed.

use std::{
    ffi::OsStr,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::needs::Need;
use crate::guard::Guarded;

pub const UNSHARE: Need = Need { program: "unshare", package: "util-linux" };
pub const SETPRIV: Need = Need { program: "setpriv", package: "util-linux" };
pub const IP: Need = Need { program: "ip", package: "iproute2" };

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs this program again with other arguments in an isolated environment, within a time limit.
/// Returns its exit code, or 1 if a signal or the time limit ended it.
pub fn run<A: AsRef<OsStr>>(arguments: &[A], limit: Duration) -> Result<u8> {
    let own = std::env::current_exe().context("which program is this?")?;
    let mut command = Command::new("setpriv");
    // `--pdeathsig KILL` and `--kill-child` end all processes of the environment even if this
    // program is killed.
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
    eprintln!("the test has not ended within {} s", limit.as_secs());
    Ok(1)
}
