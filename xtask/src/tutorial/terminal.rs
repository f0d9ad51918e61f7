//! [`Terminal`]: a shell that runs the commands of a page one by one and keeps what they print.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// Time for a command that compiles.
const COMPILES: Duration = Duration::from_secs(900);
/// Time for any other command.
const ANSWERS: Duration = Duration::from_secs(120);
/// Time between two looks at a file that a command writes.
const LOOK: Duration = Duration::from_millis(50);

/// A shell whose commands, variables and folder last until the end of the page.
pub(crate) struct Terminal {
    shell: Child,
    log: PathBuf,
    /// File into which the shell writes the exit code of each command.
    codes: PathBuf,
    commands: usize,
    /// Length of the log when the latest block began.
    block: usize,
}

impl Terminal {
    /// Opens a terminal: `shell` runs a shell that reads commands from its standard input. `name`
    /// names its files in `scratch`.
    ///
    /// # Errors
    /// The operating system refuses a process or a file.
    pub(crate) fn open(mut shell: Command, name: &str, scratch: &Path) -> Result<Self> {
        let log = scratch.join(format!("{name}.log"));
        let codes = scratch.join(format!("{name}.codes"));
        let output = File::create(&log)?;
        fs::write(&codes, "")?;
        shell.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let shell = shell.spawn().context("starting a shell")?;
        Ok(Self { shell, log, codes, commands: 0, block: 0 })
    }

    /// Marks the begin of a block, from which [`Self::output`] counts.
    pub(crate) fn begin_block(&mut self) {
        self.block = self.printed().len();
    }

    /// Types a command.
    ///
    /// # Errors
    /// The shell has ended.
    pub(crate) fn begin(&mut self, line: &str) -> Result<()> {
        self.commands += 1;
        let input = self.shell.stdin.as_mut().context("the shell has no input")?;
        let codes = self.codes.display();
        // The command must not read the commands that follow.
        writeln!(input, "{{ {line}\n}} < /dev/null\necho $? >> '{codes}'").context("the shell has ended")
    }

    /// Waits until the latest command has ended, and returns its exit code.
    ///
    /// # Errors
    /// The command takes too long.
    pub(crate) fn wait(&self, line: &str) -> Result<i32> {
        let compiles = line.contains("cargo") || line.contains("pip install");
        let limit = if compiles { COMPILES } else { ANSWERS };
        let begun = Instant::now();
        while begun.elapsed() < limit {
            let codes = fs::read_to_string(&self.codes)?;
            let ended: Vec<&str> = codes.lines().collect();
            if let Some(code) = ended.get(self.commands - 1).filter(|_| codes.ends_with('\n')) {
                return Ok(code.parse()?);
            }
            thread::sleep(LOOK);
        }
        bail!("`{line}` has not ended after {} s\n{}", limit.as_secs(), self.output())
    }

    /// Returns what the commands have printed since the latest block began.
    pub(crate) fn output(&self) -> String {
        self.printed().get(self.block..).unwrap_or_default().to_owned()
    }

    /// Returns the id of the shell's process group.
    pub(crate) fn group(&self) -> u32 {
        self.shell.id()
    }

    /// Returns the current folder of the shell.
    ///
    /// # Errors
    /// The shell has ended.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        Ok(fs::read_link(format!("/proc/{}/cwd", self.shell.id()))?)
    }

    fn printed(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

impl Drop for Terminal {
    /// Ends everything that still runs in the terminal.
    fn drop(&mut self) {
        let group = format!("-{}", self.shell.id());
        for signal in ["-CONT", "-TERM", "-KILL"] {
            let _ = Command::new("kill").args([signal, "--", &group]).stderr(Stdio::null()).status();
            thread::sleep(LOOK);
        }
        let _ = self.shell.wait();
    }
}
