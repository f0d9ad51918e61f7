//! The executor `tbf`: token buckets of the kernel on the loopback device. The device of the host
//! carries the traffic of other programs, so the benchmark runs again in a network namespace of its
//! own, with a loopback device of its own.

use std::{
    process::{Command, ExitCode},
    sync::LazyLock,
};

use evb_core::units::Rate;

use super::sender::{Path, Stream};
use crate::output::BenchError;

/// Environment variable of a process that runs in a namespace of its own.
const MARK: &str = "EVB_BENCH_OWN_NAMESPACE";

/// Returns true if this process runs in a namespace that the benchmark has made.
fn is_own() -> bool {
    std::env::var_os(MARK).is_some()
}

/// The result of the attempt to make a namespace.
static POSSIBLE: LazyLock<Result<(), String>> = LazyLock::new(|| {
    run("unshare", &["--net", "true"])
        .map_err(|reason| format!("no network namespace of its own ({reason})"))?;
    run("tc", &["-V"]).and_then(|()| run("ip", &["-V"]))
});

/// Runs this command again in a network namespace of its own; `None` if this process runs there
/// already or cannot make a namespace.
pub(super) fn again() -> Option<ExitCode> {
    if is_own() || POSSIBLE.is_err() {
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "--"]).arg(std::env::current_exe().ok()?);
    let status = command.args(std::env::args_os().skip(1)).env(MARK, "1").status().ok()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Some(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Checks that kernel buckets can be set up here, and starts the loopback device.
pub(super) fn ready() -> Result<(), String> {
    if is_own() {
        return run("ip", &["link", "set", "lo", "up"]);
    }
    POSSIBLE.clone()?;
    Err("it works over loopback only, where `evb-bench regularity` has a namespace of its own; between hosts, \
         use `evbd provision --bucket tbf`"
        .to_owned())
}

/// Starts the loopback device of a namespace of its own.
pub(super) fn start() -> Result<(), BenchError> {
    let fault =
        |reason| BenchError::Operator(format!("cannot start the loopback device: {reason}; run as root"));
    if is_own() { run("ip", &["link", "set", "lo", "up"]).map_err(fault) } else { Ok(()) }
}

/// A token bucket for each path on the loopback device, until the value is dropped.
#[derive(Debug)]
pub(super) struct KernelBuckets;

impl KernelBuckets {
    pub(super) fn install(paths: &[Path], stream: &Stream, rate: Rate) -> Result<Self, BenchError> {
        let fault = |reason| {
            BenchError::Operator(format!(
                "cannot set up tbf, the kernel's token buckets: {reason}; leave tbf out of --executors"
            ))
        };
        if !is_own() {
            return Err(fault("this process has no network namespace of its own".to_owned()));
        }
        tc("qdisc replace dev lo root handle 1: htb").map_err(fault)?;
        let buckets = Self;
        for line in (2..).zip(paths).flat_map(|(class, path)| lines(class, path, stream, rate)) {
            tc(&line).map_err(fault)?;
        }
        Ok(buckets)
    }
}

impl Drop for KernelBuckets {
    fn drop(&mut self) {
        if let Err(error) = tc("qdisc del dev lo root") {
            tracing::warn!(%error, "the kernel's token buckets stay on the loopback device ({error}) until this command ends, and limit the runs that follow: measure again without tbf");
        }
    }
}

/// Returns the arguments of `tc` for the bucket of one path. The class above the bucket does not
/// limit anything; other traffic passes beside the classes.
fn lines(class: u32, path: &Path, stream: &Stream, rate: Rate) -> [String; 3] {
    let (bits, depth) = (rate.bits_per_second(), stream.depth_at(rate).count());
    // All messages of a run may wait.
    let limit = u64::from(stream.messages).saturating_mul(stream.size.buffer().count()) + depth;
    let limit = limit.min(u64::from(u32::MAX));
    let port = path.to.port();
    [
        format!(
            "class add dev lo parent 1: classid 1:{class} htb rate 10gbit burst 1m cburst 1m quantum 60000"
        ),
        format!(
            "qdisc add dev lo parent 1:{class} handle {class}0: tbf rate {bits}bit burst {depth} limit {limit}"
        ),
        format!(
            "filter add dev lo parent 1: protocol ip u32 match ip protocol 17 0xff match ip dport {port} 0xffff \
             flowid 1:{class}"
        ),
    ]
}

fn tc(line: &str) -> Result<(), String> {
    run("tc", &line.split_whitespace().collect::<Vec<_>>())
}

/// Runs a program; returns its complaint if it fails.
fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program}: {}", text.lines().next().unwrap_or("failed")))
}
