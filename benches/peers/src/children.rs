//! The processes of a benchmark run, which are killed with the run at the latest; their memory and
//! processor time are measured.

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use wait4::Wait4;

/// Resource usage of the processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// The largest resident memory of any process.
    pub peak_rss_bytes_max: u64,
    /// User and system time of all processes.
    pub cpu_seconds: f64,
}

/// A child process in one role; dropping the value before [`Self::wait`] kills the process.
pub struct Role {
    /// Name of the process in error messages.
    pub name: String,
    child: Option<Child>,
    stdin: Option<ChildStdin>,
    lines: Option<BufReader<ChildStdout>>,
    over_time: Arc<AtomicBool>,
}

impl Role {
    /// Starts `command`, and kills the process if it still runs after `limit`. With `talking`,
    /// stdin and stdout are piped.
    pub fn start(name: &str, command: &mut Command, talking: bool, limit: Duration) -> Result<Self> {
        if talking {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        } else {
            command.stdin(Stdio::null()).stdout(Stdio::null());
        }
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let lines = child.stdout.take().map(BufReader::new);
        let over_time = Arc::new(AtomicBool::new(false));
        let stdin = child.stdin.take();
        watch(child.id(), limit, Arc::clone(&over_time));
        Ok(Self { name: name.to_owned(), child: Some(child), stdin, lines, over_time })
    }

    /// Reads the next line of the process's output, which must begin with `word`, and returns the
    /// rest of the line.
    pub fn hear(&mut self, word: &str) -> Result<String> {
        let mut line = String::new();
        let lines = self.lines.as_mut().with_context(|| format!("{} is not listened to", self.name))?;
        lines.read_line(&mut line)?;
        let rest = line.trim().strip_prefix(word).map(|rest| rest.trim().to_owned());
        rest.with_context(|| format!("{} said {:?} where {word:?} was due", self.name, line.trim()))
    }

    /// Writes a line to the stdin of the process.
    pub fn tell(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().with_context(|| format!("{} does not listen", self.name))?;
        writeln!(stdin, "{line}").with_context(|| format!("{} is gone", self.name))
    }

    /// Waits until the process ends, and adds its resource usage to `usage`; fails if it was killed
    /// or its exit code is not 0.
    pub fn wait(mut self, usage: &mut Usage) -> Result<()> {
        let child = self.child.take().with_context(|| format!("{} was waited for", self.name))?;
        let used = child.wait4()?;
        let timely = !self.over_time.swap(true, Ordering::SeqCst);
        ensure!(timely, "{} did not end in time", self.name);
        ensure!(used.status.success(), "{} failed: {}", self.name, used.status);
        usage.peak_rss_bytes_max = usage.peak_rss_bytes_max.max(used.rusage.maxrss);
        usage.cpu_seconds += (used.rusage.utime + used.rusage.stime).as_secs_f64();
        Ok(())
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            self.over_time.store(true, Ordering::SeqCst);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Kills the process after `limit`, unless `over_time` is already set because the process has
/// ended.
fn watch(id: u32, limit: Duration, over_time: Arc<AtomicBool>) {
    thread::spawn(move || {
        thread::sleep(limit);
        if !over_time.swap(true, Ordering::SeqCst)
            && let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
}
