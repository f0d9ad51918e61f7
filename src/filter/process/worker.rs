//! [`FilterWorker`]: one worker, its process and the events that it has.

use std::{
    io::{self, PipeReader},
    os::{
        fd::OwnedFd,
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use evb_core::{id::EventId, quantities::time};
use rustix::{
    fs::{OFlags, fcntl_setfl},
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use super::{given::GivenRecords, lines::WorkerLines, messages};

/// Pause before the first new start of a worker; it doubles with each failure, up to
/// [`LONGEST_PAUSE`], until a worker judges again.
const PAUSE: Duration = Duration::from_millis(100);

const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Time for which killed processes may take to disappear.
const GONE: Duration = Duration::from_millis(500);

/// Time for which a process that has closed its channel may take to end by itself.
const EXIT: Duration = Duration::from_millis(50);

/// Pause between two looks at a process that is to end.
const LOOK: Duration = Duration::from_millis(1);

/// The program of a filter, and where it runs.
#[derive(Debug)]
pub(super) struct Launch {
    command: Vec<String>,
    /// The cores of the thread that made the filter. Later starts come from the sink's thread,
    /// which may be pinned.
    cores: Option<CpuSet>,
}

/// The reason why a worker is not used any more.
#[derive(Debug)]
pub(super) enum WorkerFault {
    /// It could not be started.
    Start(io::Error),
    /// It has ended, or closed its channel.
    Ended,
    /// It was not ready in time.
    NotReady(Duration),
    /// It has not judged an event in time.
    Late(EventId, Duration),
    /// It broke the protocol.
    Nonsense(String),
}

/// The remains of a worker that has failed.
pub(super) struct FailedWorker {
    /// A sentence about the failure, for people.
    pub(super) sentence: String,
    /// Positions of the events that it had, in their order.
    pub(super) events: Vec<usize>,
    /// True if the first of them was being judged.
    pub(super) was_judging: bool,
}

/// A worker, whether or not its process runs.
#[derive(Debug)]
pub(super) struct FilterWorker {
    number: u16,
    pub(super) process: Option<WorkerProcess>,
    pub(super) lines: WorkerLines,
    next_start: Instant,
    pause: Duration,
}

/// The process of a worker.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    child: Child,
    group: Option<Pid>,
    pub(super) socket: OwnedFd,
    /// `None` once the process has closed its standard output and error.
    pub(super) output: Option<PipeReader>,
    pub(super) given: GivenRecords,
    pub(super) is_ready: bool,
}

impl Launch {
    pub(super) fn new(command: Vec<String>) -> Self {
        Self { command, cores: sched_getaffinity(None).ok() }
    }

    /// Starts a worker in a process group of its own, with a channel for messages, a pipe for its
    /// output and memory for events.
    fn start(&self, worker: u16, now: Instant) -> io::Result<WorkerProcess> {
        let (program, arguments) = self.command.split_first().ok_or(io::ErrorKind::NotFound)?;
        let (socket, theirs) = messages::channel()?;
        let (output, written) = io::pipe()?;
        fcntl_setfl(&output, OFlags::NONBLOCK)?;
        let given = GivenRecords::new(now)?;
        messages::greet(&socket, worker, given.ring.memory())?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        command.stdin(theirs).stdout(written.try_clone()?).stderr(Stdio::from(written));
        let child = command.spawn()?;
        let group = Pid::from_raw(child.id().cast_signed());
        if let Some(cores) = self.cores.filter(|cores| sched_getaffinity(None).is_ok_and(|own| own != *cores))
        {
            // Without this, it works on the cores of this thread.
            let _ = sched_setaffinity(group, &cores);
        }
        Ok(WorkerProcess { child, group, socket, output: Some(output), given, is_ready: false })
    }
}

impl FilterWorker {
    pub(super) fn new(number: u16, now: Instant) -> Self {
        let lines = WorkerLines::new(number, now);
        Self { number, process: None, lines, next_start: now, pause: PAUSE }
    }

    /// Starts the process, if none runs and the pause after the last one is over. Returns true if
    /// it was tried.
    pub(super) fn start_if_wanted(&mut self, launch: &Launch, now: Instant) -> Option<io::Result<()>> {
        if self.process.is_some() || now < self.next_start {
            return None;
        }
        let started = launch.start(self.number, now);
        Some(started.map(|process| self.process = Some(process)))
    }

    /// Ends the process with all its group, and returns what it leaves behind.
    pub(super) fn fail(&mut self, fault: &WorkerFault, now: Instant) -> FailedWorker {
        self.next_start = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let (mut events, mut was_judging, mut said, mut status) = (Vec::new(), false, String::new(), None);
        if let Some(mut process) = self.process.take() {
            let ended_itself = matches!(fault, WorkerFault::Ended) && process.ends_within(EXIT);
            process.signal(Signal::KILL);
            if let Some(output) = &mut process.output {
                self.lines.read(output, now);
            }
            said = self.lines.finish();
            let ended = process.reap();
            status = ended.filter(|_| ended_itself);
            was_judging = process.is_ready && process.given.is_judging();
            events = process.given.take_back();
        }
        let sentence = format!("worker {} {}{said}", self.number, fault.in_words(status));
        FailedWorker { sentence, events, was_judging }
    }

    /// Notes that the worker has judged an event.
    pub(super) fn note_right(&mut self) {
        self.pause = PAUSE;
    }
}

impl WorkerFault {
    /// Says what became of the worker; `status` is how its process ended, if that is known.
    fn in_words(&self, status: Option<ExitStatus>) -> String {
        match (self, status) {
            (Self::Start(error), _) => format!("cannot be started: {error}"),
            (Self::Ended, None) => "closed its channel (standard input), and was killed".to_owned(),
            (Self::Ended, Some(status)) => match status.signal() {
                Some(signal) => format!("was killed by signal {signal}"),
                None => format!("exited with code {}", status.code().unwrap_or(-1)),
            },
            (Self::NotReady(limit), _) => {
                format!("was not ready within {}, and was killed", time(*limit))
            }
            (Self::Late(event, limit), _) => {
                format!("did not judge event {event} within {}, and was killed", time(*limit))
            }
            (Self::Nonsense(what), _) => format!("{what}, and was killed"),
        }
    }
}

impl WorkerProcess {
    /// Returns true if the program has ended. It keeps its process id until [`Self::reap`], so that
    /// a signal for its group reaches no other one.
    pub(super) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.group.is_none_or(|id| !matches!(waitid(WaitId::Pid(id), options), Ok(None)))
    }

    /// Waits until the process has ended. Returns false if it has not within the limit.
    pub(super) fn ends_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while !self.has_ended() {
            if Instant::now() >= until {
                return false;
            }
            sleep(LOOK);
        }
        true
    }

    /// Sends a signal to all processes of the group.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // An error means that there is none, or only such as have another user now.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Waits for a program that was killed.
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        if self.ends_within(GONE) { self.child.wait().ok() } else { None }
    }
}
