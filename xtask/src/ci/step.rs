//! [`Step`]: a command with a time limit, or the reason why the command cannot run on this machine.

use std::{
    fmt,
    io::{self, PipeWriter, Read as _, Write as _},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use checkout::{IN_PART, SKIPPED};

/// Result of a step.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended {
    Passed,
    /// The step failed, and passed when it was repeated.
    PassedAgain,
    /// The step passed, but this machine did not allow it to judge all its checks.
    InPart,
    Failed(String),
    Skipped(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("pass"),
            Self::PassedAgain => f.write_str("pass, at the second attempt"),
            Self::InPart => f.write_str("pass in part: it says above what this machine did not let it judge"),
            Self::Failed(reason) => write!(f, "FAIL: {reason}"),
            Self::Skipped(reason) => write!(f, "SKIP: {reason}"),
        }
    }
}

/// A command of CI, which runs in the root folder of the repository.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) limit: Duration,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, &'static str)>,
    /// Reason why the step cannot run on this machine; `None` if it can.
    skip: Option<String>,
    /// True if CI fails when the step is skipped.
    required: bool,
    pub(crate) place: Place,
    /// True if the step only gets the processor time that others leave.
    is_humble: bool,
    /// True if the step is repeated once after a failure.
    is_noisy: bool,
    /// True if the step belongs to the quick part of CI.
    pub(crate) is_quick: bool,
}

/// Place of a step in the order of the steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Place {
    /// The step starts after all steps before it.
    After,
    /// The step starts together with the previous step that is [`After`](Self::After).
    Beside,
    /// The step starts as soon as the previous step ends, also if others still run beside it.
    Then,
}

impl Step {
    /// Creates a step from a command line, whose words are separated by blanks.
    pub(crate) fn new(name: &str, seconds: u64, line: &str) -> Self {
        let mut words = line.split_whitespace().map(ToOwned::to_owned);
        Self {
            name: name.to_owned(),
            limit: Duration::from_secs(seconds),
            program: words.next().unwrap_or_default().into(),
            arguments: words.collect(),
            environment: Vec::new(),
            skip: None,
            required: false,
            place: Place::After,
            is_humble: false,
            is_noisy: false,
            is_quick: false,
        }
    }

    /// Creates a step that runs this `xtask` program with other arguments.
    pub(crate) fn xtask(name: &str, seconds: u64, line: &str) -> Self {
        let own = std::env::current_exe().unwrap_or_else(|_| "xtask".into());
        let step = Self::new(name, seconds, line);
        let arguments = step.program.to_string_lossy().into_owned();
        Self { program: own, arguments: [vec![arguments], step.arguments].concat(), ..step }
    }

    /// Returns a step that runs another program with the same arguments.
    pub(crate) fn program(self, program: &Path) -> Self {
        Self { program: program.to_owned(), ..self }
    }

    pub(crate) fn environment(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.push((name, value));
        self
    }

    /// Makes the step be skipped if `reason` is given.
    pub(crate) fn unless(mut self, reason: Option<String>) -> Self {
        self.skip = self.skip.or(reason);
        self
    }

    /// Makes CI fail if the step is skipped, because its requirements have been installed.
    pub(crate) fn required(self) -> Self {
        Self { required: true, ..self }
    }

    /// Makes the step start together with the previous steps.
    pub(crate) fn beside(self) -> Self {
        Self { place: Place::Beside, ..self }
    }

    /// Makes the step start when the previous step ends, also if others still run beside it.
    pub(crate) fn then(self) -> Self {
        Self { place: Place::Then, ..self }
    }

    /// Gives the step only the processor time that others leave, so that it does not disturb those
    /// beside it, and twice its time limit. Its result must not depend on its duration.
    pub(crate) fn at_low_priority(self) -> Self {
        Self { is_humble: true, limit: self.limit * 2, ..self }
    }

    /// Makes the step be repeated once after a failure, because it tests processes against the
    /// clock, and other load on the machine can delay these.
    pub(crate) fn noisy(self) -> Self {
        Self { is_noisy: true, ..self }
    }

    /// Makes the step belong to the quick part of CI, which runs before every commit.
    pub(crate) fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }

    /// Returns the command line of the step, as a user would type it.
    pub(crate) fn line(&self) -> String {
        let environment =
            self.environment.iter().map(|(name, value)| format!("{name}=\"{value}\" ")).collect::<String>();
        let program = self.program.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        format!("{environment}{program} {}", self.arguments.join(" "))
    }

    /// Runs the step, within its own time limit and `left`, the rest of the budget. Returns its
    /// result and its output, which is also printed as it comes if `is_alone` is true: the outputs
    /// of simultaneous steps must not be mixed.
    pub(crate) fn run(&self, left: Duration, is_alone: bool) -> (Ended, String) {
        let began = Instant::now();
        let (ended, said) = self.run_once(left, is_alone);
        if !self.is_noisy || !matches!(ended, Ended::Failed(_)) {
            return (ended, said);
        }
        let note = format!("=== {}: {ended}; it is repeated once\n", self.name);
        if is_alone {
            print!("{note}");
        }
        let (again, more) = self.run_once(left.saturating_sub(began.elapsed()), is_alone);
        let ended = if again == Ended::Passed { Ended::PassedAgain } else { again };
        (ended, said + &note + &more)
    }

    fn run_once(&self, left: Duration, is_alone: bool) -> (Ended, String) {
        let Ok((mut reader, writer)) = io::pipe() else { return (self.run_to(left, None), String::new()) };
        thread::scope(|scope| {
            let said = scope.spawn(move || {
                let (mut said, mut part) = (Vec::new(), [0; 4096]);
                while let Ok(size @ 1..) = reader.read(&mut part) {
                    said.extend_from_slice(&part[..size]);
                    if is_alone {
                        let mut out = io::stdout();
                        // Output that cannot be printed is still kept.
                        let _ = out.write_all(&part[..size]).and_then(|()| out.flush());
                    }
                }
                String::from_utf8_lossy(&said).into_owned()
            });
            let ended = self.run_to(left, Some(writer));
            (ended, said.join().unwrap_or_default())
        })
    }

    fn run_to(&self, left: Duration, output: Option<PipeWriter>) -> Ended {
        match self.run_or_skip(left, output) {
            Ended::Skipped(reason) if self.required => {
                Ended::Failed(format!("it must not be skipped here: {reason}"))
            }
            ended => ended,
        }
    }

    fn run_or_skip(&self, left: Duration, output: Option<PipeWriter>) -> Ended {
        if let Some(reason) = &self.skip {
            return Ended::Skipped(reason.clone());
        }
        let seconds = self.limit.min(left).as_secs();
        let ended = if seconds == 0 {
            Err("no time is left in the budget".to_owned())
        } else {
            self.attempt(seconds, output)
        };
        match ended {
            Ok(0) => Ended::Passed,
            Ok(IN_PART) => Ended::InPart,
            Ok(_) => Ended::Skipped("it says why above".into()),
            Err(reason) => Ended::Failed(reason),
        }
    }

    /// Runs the command, and returns its exit code if it is no failure: 0, [`SKIPPED`] or
    /// [`IN_PART`].
    fn attempt(&self, seconds: u64, output: Option<PipeWriter>) -> Result<u8, String> {
        // The program `timeout` kills the whole process group of the command, while
        // [`std::process::Child::kill`] would kill one process.
        let mut command = Command::new("nice");
        command.args(["-n", if self.is_humble { "19" } else { "0" }]);
        command
            .args(["timeout", "--kill-after=20", &seconds.to_string()])
            .arg(&self.program)
            .args(&self.arguments);
        command.envs(self.environment.iter().copied()).current_dir(checkout::root());
        if let Some(output) = output {
            let errors = output.try_clone().map_err(|error| format!("no pipe: {error}"))?;
            command.stdout(output).stderr(errors);
        }
        let status = command.status();
        // Dropping the command closes this process's copies of the pipe's writing end, so that the
        // reader reaches the end.
        drop(command);
        match status.map(|status| status.code()) {
            Ok(Some(0)) => Ok(0),
            Ok(Some(code)) if code == i32::from(SKIPPED) => Ok(SKIPPED),
            Ok(Some(code)) if code == i32::from(IN_PART) => Ok(IN_PART),
            Ok(Some(124 | 137)) => Err(format!("not done after {seconds} s")),
            Ok(Some(code)) => Err(format!("exit code {code}")),
            Ok(None) => Err("ended by a signal".into()),
            Err(error) => Err(format!("does not start: {error}")),
        }
    }
}

#[cfg(test)]
mod tests;
