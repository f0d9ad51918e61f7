//! What a test needs of the machine beyond Linux, Rust and a C compiler. `cargo test --workspace`
//! must pass on every machine, so a test asks here for whatever else it needs. Where the machine
//! lacks that, the test prints `SKIP: needs X` and passes:
//!
//! ```
//! fn the_version_of_ip_is_known() {
//!     let Some(version) = evb_needs::granted(evb_needs::run("ip -V")) else { return };
//!     assert!(version.starts_with("ip utility"));
//! }
//! # the_version_of_ip_is_known();
//! ```
//!
//! A test may unwrap the outcome of a program only after [`programs`] has found it: a missing
//! program would fail the test, and cargo would run no test of the crates that follow.

use std::{
    env, fmt,
    io::{self, Write as _},
    net::{TcpListener, ToSocketAddrs as _, UdpSocket},
    ops::Range,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Ports that tests use. The kernel takes the ports of outgoing connections from 32768 on (ip(7),
/// `ip_local_port_range`), so no connection of another test takes one of these before the program
/// that a test starts listens there.
const PORTS: Range<u32> = 10_000..32_000;

/// Number of ports that this process has tried.
static TRIED: AtomicU32 = AtomicU32::new(0);

/// A thing that a test needs and the machine lacks.
///
/// ```
/// let missing = evb_needs::Missing::new("a route to the net").because("no device is up");
/// assert_eq!(missing.to_string(), "a route to the net (no device is up)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    what: String,
}

impl Missing {
    /// Names what the machine lacks.
    pub fn new(what: impl fmt::Display) -> Self {
        Self { what: what.to_string() }
    }

    /// Adds the reason, such as the error of the operating system.
    #[must_use]
    pub fn because(self, reason: impl fmt::Display) -> Self {
        Self { what: format!("{} ({reason})", self.what) }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Returns what a test has asked for, or says that the test is skipped and returns `None`.
///
/// ```
/// use evb_needs::{Missing, granted};
///
/// assert_eq!(granted(Ok(3)), Some(3));
/// assert_eq!(granted::<u32>(Err(Missing::new("a third core"))), None);
/// ```
pub fn granted<T>(asked: Result<T, Missing>) -> Option<T> {
    asked.map_err(|missing| skip(&missing)).ok()
}

/// Says that a test, or a part of it, is skipped.
///
/// The test harness hides what a passing test prints with `println!`. A skipped test must be seen,
/// so the line goes to the standard error itself.
pub fn skip(missing: &Missing) {
    let test = thread::current();
    let test = test.name().filter(|name| *name != "main").map(|name| format!(" [{name}]"));
    // Written at once, so that the harness cannot write in between.
    let line = format!("SKIP: needs {missing}{}\n", test.unwrap_or_default());
    // Nobody reads the line if the standard error is closed.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Checks that all of these programs are in the `PATH`.
///
/// # Errors
/// The programs that are not there.
pub fn programs(names: &[&str]) -> Result<(), Missing> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let is_there = |name: &&&str| folders.iter().any(|folder| is_program(&folder.join(**name)));
    let missing: Vec<&str> = names.iter().filter(|name| !is_there(name)).copied().collect();
    if missing.is_empty() { Ok(()) } else { Err(Missing::new(missing.join(", "))) }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Runs a command, given as words separated by spaces, and returns its output. This is for commands
/// that prepare a test, and fail where the kernel or the user's rights do not suffice.
///
/// # Errors
/// The command, with its complaint.
pub fn run(line: &str) -> Result<String, Missing> {
    let refused = |reason: &str| Missing::new(format_args!("`{line}` to work")).because(reason);
    let mut words = line.split_whitespace();
    let program = words.next().ok_or_else(|| refused("it is empty"))?;
    programs(&[program])?;
    let output = Command::new(program).args(words).env("LC_ALL", "C").output();
    let output = output.map_err(|error| refused(&error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(refused(said.lines().next().unwrap_or("it does not say why")))
}

/// Checks that this machine has an IPv6 loopback device.
///
/// # Errors
/// IPv6, with the error of the operating system.
pub fn ipv6() -> Result<(), Missing> {
    let bound = UdpSocket::bind("[::1]:0");
    bound.map(drop).map_err(|error| Missing::new("IPv6").because(error))
}

/// Checks that this machine knows the address of `localhost`. A system without `/etc/hosts`, such
/// as a fresh container, may not.
///
/// # Errors
/// The name, with the error of the resolver.
pub fn localhost() -> Result<(), Missing> {
    let found = ("localhost", 0).to_socket_addrs();
    found.map(drop).map_err(|error| Missing::new("an address of localhost").because(error))
}

/// Checks that the kernel's view of devices and processors is mounted at `/sys`.
///
/// # Errors
/// `/sys`.
pub fn sys() -> Result<(), Missing> {
    let is_there = Path::new("/sys/devices/system/cpu/online").exists();
    if is_there { Ok(()) } else { Err(Missing::new("a mounted /sys")) }
}

/// Returns free ports of loopback, which no other test of this process gets, and which the kernel
/// gives to no socket that asks for any port.
///
/// # Panics
/// If loopback has no more of them: every machine that can run a test has thousands.
pub fn free_ports(count: usize) -> Vec<u16> {
    let first = process::id().wrapping_mul(1009);
    let tries = (0..PORTS.end - PORTS.start).map(|_| {
        let place = first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        (PORTS.start + place % (PORTS.end - PORTS.start)) as u16
    });
    let free: Vec<u16> =
        tries.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(count).collect();
    assert_eq!(free.len(), count, "loopback has free ports");
    free
}

/// Raises the number of files that this process may open to at least `count`. A shell usually
/// allows 1024, and lets a process raise that.
///
/// # Errors
/// The number, if the hard limit is below it.
pub fn open_files(count: u64) -> Result<(), Missing> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let missing = || Missing::new(format_args!("{count} open files"));
    if let Some(maximum) = maximum.filter(|maximum| *maximum < count) {
        return Err(missing().because(format_args!("the hard limit is {maximum}")));
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    raised.map_err(|error| missing().because(error))
}

#[cfg(test)]
mod tests;
