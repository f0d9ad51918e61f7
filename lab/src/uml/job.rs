//! [`Job`]: one run of a command under User-Mode Linux.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use checkout::IN_PART;

use super::packages::Kernel;

/// Environment variables that the command inherits from its caller: full names, or prefixes that
/// end in an underscore.
const PASSED: [&str; 5] = ["PATH", "HOME", "EVB_", "RUST_", "CARGO_"];

/// A command to run under User-Mode Linux, and the folder with its files, which is removed when
/// this value is dropped.
pub(super) struct Job<'k> {
    kernel: &'k Kernel,
    folder: PathBuf,
}

impl<'k> Job<'k> {
    /// Writes the init script that the kernel starts as its first process. The script mounts file
    /// systems, loads modules, runs the command, saves its exit code and halts the kernel.
    pub(super) fn new(kernel: &'k Kernel, command: &[String]) -> Result<Self> {
        let job = Self { kernel, folder: kernel.job_folder() };
        fs::create_dir_all(&job.folder)
            .with_context(|| format!("cannot create the folder {}", job.folder.display()))?;
        let here = std::env::current_dir()?;
        let variables = std::env::vars().filter(|(name, _)| {
            PASSED.iter().any(|passed| name == passed || (passed.ends_with('_') && name.starts_with(passed)))
        });
        let text = script(&job.folder, kernel, &here, variables, command);
        let init = job.init();
        fs::write(&init, text)?;
        let executable = Command::new("chmod").arg("+x").arg(&init).status()?;
        if !executable.success() {
            bail!("{} cannot be made executable", init.display());
        }
        Ok(job)
    }

    fn init(&self) -> PathBuf {
        self.folder.join("init")
    }

    /// Runs User-Mode Linux until the command has ended, and returns the command's exit code.
    pub(super) fn run(&self, limit: Duration, memory: &str) -> Result<u8> {
        let console = self.folder.join("console");
        let writer = File::create(&console)?;
        let status = in_front()
            .arg("timeout")
            .args(["-k", "5", &limit.as_secs().max(1).to_string()])
            .arg(self.kernel.program())
            .args([&format!("mem={memory}"), "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw"])
            .arg(format!("init={}", self.init().display()))
            .args(["con=null", "con0=null", "quiet"])
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .status()
            .context("User-Mode Linux does not start")?;
        let said = fs::read(self.folder.join("out")).unwrap_or_default();
        io::stdout().write_all(&said)?;
        let code = fs::read_to_string(self.folder.join("rc")).ok();
        match code.as_deref().map(str::trim).and_then(|code| code.parse::<u8>().ok()) {
            Some(0) => Ok(if not_judged(&String::from_utf8_lossy(&said)) { IN_PART } else { 0 }),
            Some(code) => Ok(code),
            None if status.code() == Some(124) => bail!(
                "the command was ended under User-Mode Linux, because it was not done after {} s: raise --limit",
                limit.as_secs()
            ),
            None => bail!("the kernel ended without the command; its last words:\n{}", tail(&console, 20)),
        }
    }
}

/// Returns a command prefix that runs a program with high priority, because User-Mode Linux must
/// keep accurate time. The priority is real-time if permitted; otherwise the prefix is `nice -n
/// -20`, which has no effect without permission.
fn in_front() -> Command {
    const REAL_TIME: [&str; 2] = ["-f", "1"];
    let tried = Command::new("chrt").args(REAL_TIME).arg("true").stderr(Stdio::null()).status();
    let (program, arguments) = if tried.is_ok_and(|status| status.success()) {
        ("chrt", REAL_TIME)
    } else {
        ("nice", ["-n", "-20"])
    };
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns true if the command's output contains lines with `NOT JUDGED`, and prints these lines
/// again.
pub(super) fn not_judged(said: &str) -> bool {
    let lines: Vec<&str> = said.lines().filter_map(|line| Some(&line[line.find("NOT JUDGED ")?..])).collect();
    for line in &lines {
        println!("{line}");
    }
    !lines.is_empty()
}

/// Returns the init script, which is the first process of User-Mode Linux.
fn script(
    folder: &Path,
    kernel: &Kernel,
    here: &Path,
    variables: impl Iterator<Item = (String, String)>,
    command: &[String],
) -> String {
    let busybox = quoted(&kernel.busybox().to_string_lossy());
    let mut text = "#!/bin/sh\n".to_owned();
    for (name, value) in variables {
        text += &format!("export {name}={}\n", quoted(&value));
    }
    text +=
        "mount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t tmpfs run /run\nmkdir -p /run/netns\n";
    for module in kernel.modules() {
        text += &format!("{busybox} insmod {}\n", quoted(&module.to_string_lossy()));
    }
    let words: Vec<String> = command.iter().map(|word| quoted(word)).collect();
    let (out, code) = (folder.join("out"), folder.join("rc"));
    text += "ip link set lo up\n";
    text += &format!("cd {}\n", quoted(&here.to_string_lossy()));
    text += &format!("{} >{} 2>&1 </dev/null\n", words.join(" "), quoted(&out.to_string_lossy()));
    text += &format!("echo $? >{}\nsync\n{busybox} poweroff -f\n", quoted(&code.to_string_lossy()));
    text
}

/// Returns a text quoted as one word of a shell command.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
