//! Runs programs of the user's: JSON on standard input, output into the log, a limit of time, and
//! no process left behind.

mod output;
#[cfg(test)]
mod tests;

use std::{
    fs,
    future::Future,
    io,
    os::unix::process::ExitStatusExt as _,
    pin::pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use evb_core::quantities::time;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use output::Output;

/// Time from SIGTERM to SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Time for which killed processes may take to disappear, and pipes to be closed.
const GONE: Duration = Duration::from_millis(500);

/// Pause between two looks at a process group that is to end.
const LOOK: Duration = Duration::from_millis(10);

/// A program of the user's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program<'a> {
    /// The program, which is searched in `PATH` if it is a bare name, and its arguments.
    pub(crate) words: &'a [String],
    /// Purpose, for the log: `on_start of source 3`.
    pub(crate) part: &'a str,
    /// Variables in addition to the inherited environment.
    pub(crate) variables: &'a [(&'static str, String)],
}

/// The reason why a program has not done its work, with what it wrote to standard error at last.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("cannot be started: {0}")]
    Start(io::Error),
    #[error("exited with code {code}{said}")]
    Exit { code: i32, said: String },
    #[error("was killed by signal {signal}{said}")]
    Killed { signal: i32, said: String },
    #[error("did not end within {}, and was killed{said}", time(*.limit))]
    TimeOver { limit: Duration, said: String },
    #[error("was stopped by evb before its end, because the run was given up or this process ends")]
    Cancelled,
}

/// The way in which the wait for a program ended.
enum Waited {
    Ended(ExitStatus),
    TimeOver,
    Cancelled,
}

impl Program<'_> {
    /// Runs the program with `input` on its standard input, until it ends, `limit` is over, or
    /// `cancel` is ready. No process of its group is left when this returns.
    ///
    /// # Errors
    /// The program did not exit with code 0 in time.
    pub(crate) async fn run(
        &self,
        input: &Value,
        limit: Duration,
        cancel: impl Future<Output = ()>,
    ) -> Result<(), ProgramError> {
        let mut child = self.spawn().map_err(ProgramError::Start)?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (mut out, mut err) = (Output::new(self, "stdout"), Output::new(self, "stderr"));
        let waited = {
            let text = input.to_string();
            let tell = async {
                if let Some(mut stdin) = stdin.take() {
                    // A program need not read its input.
                    let _ = stdin.write_all(text.as_bytes()).await;
                }
            };
            let mut talk = pin!(async { tokio::join!(tell, out.read(stdout), err.read(stderr)) });
            let mut wait = pin!(async {
                let waited = tokio::select! {
                    status = child.wait() => status.map_or(Waited::Cancelled, Waited::Ended),
                    () = sleep(limit) => Waited::TimeOver,
                    () = cancel => Waited::Cancelled,
                };
                end(&mut child, group).await;
                waited
            });
            // The outputs are read on until the program has ended; they may end earlier than it
            // does.
            let mut is_silent = false;
            let waited = loop {
                tokio::select! {
                    waited = &mut wait => break waited,
                    _ = &mut talk, if !is_silent => is_silent = true,
                }
            };
            if !is_silent {
                // A process that has left the group may keep the pipes open.
                let _ = timeout(GONE, talk).await;
            }
            waited
        };
        out.finish();
        let said = err.finish();
        match waited {
            Waited::Ended(status) if status.success() => Ok(()),
            Waited::Ended(status) => Err(match status.signal() {
                Some(signal) => ProgramError::Killed { signal, said },
                None => ProgramError::Exit { code: status.code().unwrap_or(-1), said },
            }),
            Waited::TimeOver => Err(ProgramError::TimeOver { limit, said }),
            Waited::Cancelled => Err(ProgramError::Cancelled),
        }
    }

    fn spawn(&self) -> io::Result<Child> {
        let (program, arguments) = self.words.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true).spawn()
    }
}

/// Ends all processes of a program's group, and waits for the program itself.
async fn end(child: &mut Child, group: Option<Pid>) {
    let Some(group) = group else { return };
    for (signal, patience) in [(Signal::TERM, GRACE), (Signal::KILL, GONE)] {
        // An error means that there is none, or only such as have another user now.
        if kill_process_group(group, signal).is_err() {
            break;
        }
        let until = Instant::now() + patience;
        while Instant::now() < until {
            // The program belongs to its group until it is waited for.
            let _ = child.try_wait();
            if !has_live_member(group) {
                break;
            }
            sleep(LOOK).await;
        }
    }
    let _ = timeout(GONE, child.wait()).await;
}

/// Returns true if a process of the group runs. Processes that have ended stay in the group for as
/// long as nobody waits for them, which is for ever in a container without an init process.
fn has_live_member(group: Pid) -> bool {
    if test_kill_process_group(group).is_err() {
        return false;
    }
    // Without /proc, nothing tells them apart.
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    processes.flatten().filter_map(|process| fs::read_to_string(process.path().join("stat")).ok()).any(
        |stat| {
            // Behind number and name stand the state, the parent and the group.
            let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            let mut fields = rest.split_whitespace();
            let (state, of) = (fields.next(), fields.nth(1).and_then(|of| of.parse().ok()));
            of == Some(group.as_raw_nonzero().get()) && !matches!(state, Some("Z" | "X"))
        },
    )
}
