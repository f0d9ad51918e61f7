//! `cargo xtask tutorial`: does what the tutorials tell the reader, command by command, and
//! compares what the commands print with what the pages promise.

mod expected;
mod hosts;
mod page;
mod terminal;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use self::{
    expected::missing,
    hosts::{Hosts, UNSHARE},
    page::{Action, Step, parse},
    terminal::Terminal,
};

/// Folder of the pages.
const PAGES: &str = "docs/tutorial";
/// Time for a program in another terminal to print what the page promises.
const PRINTS: Duration = Duration::from_secs(90);
/// Set in the process that has namespaces of its own for the hosts of a page.
const INSIDE: &str = "EVB_TUTORIAL_INSIDE";

#[derive(Args)]
pub(crate) struct TutorialArgs {
    /// Names of pages in docs/tutorial, without `.md`; all if there is none.
    pages: Vec<String>,
    /// Fail if this machine cannot create the networks of a page, or reach the packages that it
    /// installs, instead of skipping the page.
    #[arg(long)]
    require: bool,
}

/// Executes the pages. Returns true if all do what they say.
pub(crate) fn run(args: &TutorialArgs) -> Result<bool> {
    // A page may build this program again, and then its file is another one under the same path.
    let own = env::current_exe()?;
    let folder = checkout::root().join(PAGES);
    let mut all: Vec<String> = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        all.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    all.sort();
    let pages = if args.pages.is_empty() { &all } else { &args.pages };
    let mut held = true;
    for name in pages {
        let text = fs::read_to_string(folder.join(name).with_extension("md"))
            .with_context(|| format!("{PAGES} has {}", all.join(", ")))?;
        let steps = parse(&text).with_context(|| format!("{PAGES}/{name}.md"))?;
        let begun = Instant::now();
        let is_alone = hosts_of(&steps).is_empty() || env::var_os(INSIDE).is_some();
        if !args.require
            && let Some(reason) = if is_alone { lacks_packages(&steps) } else { lacks_networks() }
        {
            println!("{name}: SKIP: {reason}");
            continue;
        }
        let outcome = if is_alone {
            Reader::begin(&steps).and_then(|mut reader| reader.follow(name, &steps))
        } else {
            inside(&own, name)
        };
        match outcome {
            Ok(()) => {
                println!("{name}: {} steps hold, in {:.1} s", steps.len(), begun.elapsed().as_secs_f64())
            }
            Err(error) => {
                held = false;
                println!("{name}: {error:#}");
            }
        }
    }
    Ok(held)
}

/// Returns the reason why a process cannot create networks here.
fn lacks_networks() -> Option<String> {
    let mut command = Command::new(UNSHARE[0]);
    command.args(&UNSHARE[1..]).args(["ip", "link", "add", "switch", "type", "bridge"]);
    match command.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// Returns the reason why a page cannot install Python packages here; `None` if it installs none.
fn lacks_packages(steps: &[Step]) -> Option<String> {
    let installs = |step: &Step| match &step.action {
        Action::Run { commands, .. } => commands.iter().any(|command| command.line.contains("pip install")),
        _ => false,
    };
    if !steps.iter().any(installs) {
        return None;
    }
    let folder = env::temp_dir().join(format!("evb-packages-{}", std::process::id()));
    let script = r#"python3 -m venv "$0" && "$0/bin/pip" download --quiet --no-deps --dest "$0" packaging"#;
    let output = Command::new("sh").args(["-c", script]).arg(&folder).output();
    let _ = fs::remove_dir_all(&folder);
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Some(format!("no Python packages: {}", said.lines().next_back().unwrap_or("python3 fails")))
        }
        Err(error) => Some(format!("sh: {error}")),
    }
}

/// Executes a page in a process of the program `own` that may create networks.
fn inside(own: &Path, name: &str) -> Result<()> {
    let mut command = Command::new(UNSHARE[0]);
    command.args(&UNSHARE[1..]).arg(own).args(["tutorial", name]).env(INSIDE, "1");
    let output = command.output().context("unshare")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "in namespaces of its own: {}{}", printed.trim(), complaint.trim());
    Ok(())
}

/// Returns the hosts whose prompts a page has, each once, in the order of their names.
fn hosts_of(steps: &[Step]) -> Vec<String> {
    let mut hosts = Vec::new();
    for step in steps {
        if let Action::Run { commands, .. } = &step.action {
            hosts.extend(commands.iter().filter_map(|command| command.host.clone()));
        }
    }
    hosts.sort();
    hosts.dedup();
    hosts
}

/// A reader who follows a page: terminals, and the files that the reader writes.
struct Reader {
    /// Folder that contains the clone under the name `evb`, and what else the page creates.
    scratch: PathBuf,
    hosts: Option<Hosts>,
    /// The first terminal of each host; the key of this machine is empty.
    terminals: BTreeMap<String, Terminal>,
    /// Terminals in which programs stay running.
    background: Vec<Terminal>,
    /// Files in the clone that the page has made the reader write.
    written: Vec<PathBuf>,
    /// The terminals of the latest commands.
    latest: Latest,
}

/// The place of the output that a page shows next.
enum Latest {
    First(Vec<String>),
    Background,
}

impl Reader {
    fn begin(steps: &[Step]) -> Result<Self> {
        let scratch = env::temp_dir().join(format!("evb-tutorial-{}", std::process::id()));
        fs::create_dir(&scratch)?;
        std::os::unix::fs::symlink(checkout::root(), scratch.join("evb"))?;
        let mut reader = Self {
            scratch,
            hosts: None,
            terminals: BTreeMap::new(),
            background: Vec::new(),
            written: Vec::new(),
            latest: Latest::First(Vec::new()),
        };
        let hosts = hosts_of(steps);
        if !hosts.is_empty() {
            reader.hosts = Some(Hosts::create(&hosts, &reader.scratch)?);
        }
        Ok(reader)
    }

    fn follow(&mut self, page: &str, steps: &[Step]) -> Result<()> {
        for step in steps {
            self.take(&step.action).with_context(|| format!("{PAGES}/{page}.md:{}", step.line))?;
        }
        Ok(())
    }

    fn take(&mut self, action: &Action) -> Result<()> {
        match action {
            Action::Run { commands, code } => self.type_commands(commands, *code),
            Action::Background(command) => {
                let folder = self.terminal("")?.folder()?;
                let number = self.background.len() + 1;
                let mut shell = self.shell(None);
                shell.current_dir(folder);
                let mut terminal = Terminal::open(shell, &format!("background-{number}"), &self.scratch)?;
                terminal.begin(&command.line)?;
                // Later commands address the program by this variable.
                self.terminal("")?.begin(&format!("TERMINAL_{number}={}", terminal.group()))?;
                self.background.push(terminal);
                self.latest = Latest::Background;
                Ok(())
            }
            Action::Expect(lines) => self.expect(lines),
            Action::Write { file, text } => {
                for folder in self.folders()? {
                    let path = folder.join(file);
                    let is_new = !path.exists();
                    ensure!(
                        is_new || !path.starts_with(checkout::root()),
                        "the tutorial writes {}, which exists: move it away",
                        path.display()
                    );
                    fs::write(&path, text)?;
                    self.written.push(path);
                }
                Ok(())
            }
            Action::Append { file, text } => {
                for folder in self.folders()? {
                    append(&folder.join(file), text)?;
                }
                Ok(())
            }
        }
    }

    /// Types commands in the first terminals of their hosts: on one host one after the other, on
    /// several hosts at the same time.
    fn type_commands(&mut self, commands: &[page::Command], code: i32) -> Result<()> {
        let mut hosts: Vec<String> = Vec::new();
        let mut running: BTreeMap<String, &str> = BTreeMap::new();
        for (index, command) in commands.iter().enumerate() {
            let host = command.host.clone().unwrap_or_default();
            let wanted = if index + 1 == commands.len() { code } else { 0 };
            let terminal = self.terminal(&host)?;
            if !hosts.contains(&host) {
                terminal.begin_block();
                hosts.push(host.clone());
            }
            if let Some(line) = running.remove(&host) {
                succeeds(terminal, line, 0)?;
            }
            terminal.begin(&command.line)?;
            if command.host.is_some() {
                running.insert(host, &command.line);
            } else {
                succeeds(terminal, &command.line, wanted)?;
            }
        }
        for (host, line) in running {
            succeeds(self.terminal(&host)?, line, code)?;
        }
        self.latest = Latest::First(hosts);
        Ok(())
    }

    /// Waits until the latest commands have printed what the page promises.
    fn expect(&mut self, lines: &[String]) -> Result<()> {
        let begun = Instant::now();
        loop {
            let printed: String = match &self.latest {
                Latest::First(hosts) => hosts.iter().map(|host| self.terminals[host].output()).collect(),
                Latest::Background => self.background.last().map(Terminal::output).unwrap_or_default(),
            };
            let Some(line) = missing(lines, &printed) else { return Ok(()) };
            if begun.elapsed() > PRINTS {
                bail!("the page shows `{}`, but the commands print\n{printed}", line.trim());
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Returns the first terminal of a host, which opens in the clone, or in the host's home folder
    /// if the host is not the first.
    fn terminal(&mut self, host: &str) -> Result<&mut Terminal> {
        if !self.terminals.contains_key(host) {
            let mut shell = self.shell(Some(host).filter(|host| !host.is_empty()));
            let is_first = self.terminals.is_empty();
            let home = self.hosts.as_ref().filter(|_| !is_first).map(|hosts| hosts.home(host));
            shell.current_dir(home.unwrap_or_else(|| self.scratch.join("evb")));
            shell.env("PWD", self.scratch.join("evb"));
            let terminal = Terminal::open(shell, &format!("terminal-{host}"), &self.scratch)?;
            self.terminals.insert(host.to_owned(), terminal);
        }
        self.terminals.get_mut(host).context("the terminal was opened")
    }

    fn shell(&self, host: Option<&str>) -> Command {
        let mut shell = match (&self.hosts, host) {
            (Some(hosts), Some(host)) => hosts.shell(host),
            _ => Command::new("bash"),
        };
        let mut path = checkout::root().join("target/release").into_os_string();
        if let Some(hosts) = &self.hosts {
            path = hosts.programs().into_os_string();
        }
        path.push(":");
        path.push(env::var_os("PATH").unwrap_or_default());
        shell.env("PATH", path);
        // The pages promise no speed, so pip builds the Python package as the tests are built.
        shell.env("MATURIN_PEP517_ARGS", "--profile dev");
        shell.env("CARGO_TARGET_DIR", checkout::root().join("target"));
        for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let own = env::var_os(name).map(PathBuf::from);
            let default = || Path::new(&env::var_os("HOME").unwrap_or_default()).join(folder);
            shell.env(name, own.unwrap_or_else(default));
        }
        shell
    }

    /// Returns the current folders of the first terminals.
    fn folders(&mut self) -> Result<Vec<PathBuf>> {
        if self.terminals.is_empty() {
            self.terminal("")?;
        }
        self.terminals.values().map(Terminal::folder).collect()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.background.clear();
        self.terminals.clear();
        for path in self.written.iter().chain([&self.scratch]) {
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
        }
    }
}

fn succeeds(terminal: &Terminal, line: &str, wanted: i32) -> Result<()> {
    let code = terminal.wait(line)?;
    ensure!(code == wanted, "`{line}` exits with {code}, not with {wanted}:\n{}", terminal.output());
    Ok(())
}

/// Writes text at the end of a file. A section that the file ends with is not begun again.
fn append(path: &Path, text: &str) -> Result<()> {
    let before = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let last = before.lines().rfind(|line| !line.is_empty()).unwrap_or_default();
    let text = text.strip_prefix(&format!("{last}\n")).filter(|_| last.starts_with('[')).unwrap_or(text);
    fs::write(path, format!("{}\n{text}", before.trim_end()))?;
    Ok(())
}
