//! The effect of each signal on each kind of evbd's programs: the table in
//! docs/reference/operation.md. With `EVB_OUTSIDE=1`, also the effect on `evb-export` and on
//! sources in C and Python, which stand outside of the workspace. `EVB_BLESS=1` writes the tables.
#![allow(clippy::unwrap_used)] // an error here is a failed test

mod outside;
mod signals;

use std::{
    fmt::Write as _,
    fs,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::{scope, sleep},
    time::{Duration, Instant},
};

use serde_json::Value;

const SIGNALS: [&str; 16] = [
    "INT", "TERM", "HUP", "QUIT", "XCPU", "PWR", "USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "STKFLT",
    "PIPE", "XFSZ", "KILL",
];

/// A program that gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// All roles, without run control.
    Whole,
    /// All roles, under run control.
    Controlled,
    /// A source alone, in a run.
    Role,
    /// A source alone, which waits for its supervisor.
    Early,
    Merge,
    /// `evbd dump`, whose reader has stopped reading.
    Dump,
}

const KINDS: [(Kind, &str); 6] = [
    (Kind::Whole, "one process"),
    (Kind::Controlled, "with run control"),
    (Kind::Role, "one role"),
    (Kind::Early, "before the start"),
    (Kind::Merge, "`merge`"),
    (Kind::Dump, "`dump` into a pipe"),
];

/// The processes of one try, in a folder of their own.
struct Scene {
    dir: tempfile::TempDir,
    /// The process that gets the signal.
    program: Child,
    /// The other processes of its system.
    others: Vec<Child>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in self.others.iter_mut().chain([&mut self.program]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn evbd(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = signals::evbd();
    command.args(arguments).current_dir(dir).stdout(Stdio::null()).process_group(0);
    command.stderr(fs::File::options().append(true).create(true).open(dir.join("log")).unwrap());
    command
}

fn wait_for(dir: &Path, mut what: impl FnMut() -> bool) {
    // Many programs start at once, and others may keep the machine busy.
    let until = Instant::now() + Duration::from_secs(120);
    while !what() {
        assert!(Instant::now() < until, "{}", fs::read_to_string(dir.join("log")).unwrap_or_default());
        sleep(Duration::from_millis(2));
    }
}

fn has_files(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut files| files.next().is_some())
}

impl Scene {
    /// Starts the program, and waits until it is at work. `input` is a folder with many events.
    fn start(kind: Kind, input: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let control = if kind == Kind::Controlled { "[control]\nautostart = true\nlisten = " } else { "" };
        let ports = evb_needs::free_ports(3);
        let control = match control {
            "" => String::new(),
            begin => format!("{begin}\"127.0.0.1:{}\"\n", ports[2]),
        };
        let text = format!(
            "[supervisor]\nlisten = \"127.0.0.1:{}\"\ntrigger = {{ kind = \"periodic\", rate = \"200 Hz\" }}\n\
             [[source]]\nid = 1\ninput = {{ kind = \"generator\", size = \"2 kB\" }}\n\
             [[builder]]\nid = 1\nlisten = \"127.0.0.1:{}\"\nsink = {{ kind = \"file\", path = \"out\" }}\n{control}",
            ports[0], ports[1]
        );
        fs::write(path.join("evb.toml"), text).unwrap();
        let run = ["run", "--quiet", "--summary", "summary.json", "evb.toml"];
        let of_role = ["run", "--quiet", "--role", "source:1", "evb.toml"];
        let input = input.to_str().unwrap();
        let mut others = Vec::new();
        let program = match kind {
            Kind::Whole | Kind::Controlled => evbd(path, &run).spawn().unwrap(),
            Kind::Role => {
                let rest = [&run[..4], &["--role", "supervisor", "--role", "builder:1", run[4]]].concat();
                others.push(evbd(path, &rest).spawn().unwrap());
                evbd(path, &of_role).spawn().unwrap()
            }
            Kind::Early => evbd(path, &of_role).spawn().unwrap(),
            Kind::Merge => evbd(path, &["merge", "--out", "out", input]).spawn().unwrap(),
            Kind::Dump => evbd(path, &["dump", input]).stdout(Stdio::piped()).spawn().unwrap(),
        };
        match kind {
            Kind::Merge => wait_for(path, || path.join("out/merge.part").exists()),
            Kind::Dump | Kind::Early => sleep(Duration::from_millis(500)),
            _ => {
                wait_for(path, || has_files(&path.join("out")));
                sleep(Duration::from_millis(300));
            }
        }
        if kind == Kind::Merge {
            signals::send("STOP", [&program]);
        }
        Self { dir, program, others }
    }

    /// Returns the end of the program, if it ends within a time in which nothing else ends it.
    fn end(&mut self, limit: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if let Some(status) = self.program.try_wait().unwrap() {
                return Some(status);
            }
            sleep(Duration::from_millis(5));
        }
        None
    }

    /// Returns true if the run's ledger is closed and has lost nothing.
    fn is_drained(&mut self) -> bool {
        for other in &mut self.others {
            wait_for(self.dir.path(), || other.try_wait().unwrap().is_some());
        }
        let Ok(summary) = fs::read(self.dir.path().join("summary.json")) else { return false };
        let events = serde_json::from_slice::<Value>(&summary).unwrap()["events"].clone();
        events["complete"] == events["assigned"] && events["complete"].as_u64() > Some(0)
    }
}

/// Returns in words what a signal does to a program.
fn effect(kind: Kind, signal: &str, input: &Path) -> &'static str {
    let mut scene = Scene::start(kind, input);
    signals::send(signal, [&scene.program]);
    if kind == Kind::Merge {
        signals::send("CONT", [&scene.program]);
    }
    let limit = Duration::from_secs(if kind == Kind::Merge { 20 } else { 3 });
    let Some(end) = scene.end(limit) else { return "nothing" };
    match (kind, end.code(), end.signal()) {
        (Kind::Merge, Some(0), _) => "nothing",
        (Kind::Whole | Kind::Controlled | Kind::Role, Some(0), _) if scene.is_drained() => "drains",
        (_, _, Some(_)) => "ends",
        (Kind::Early, Some(_), _) => "ends",
        _ => "?",
    }
}

/// Builds many events into a folder.
fn make_input(dir: &Path) -> PathBuf {
    let ports = evb_needs::free_ports(2);
    let text = format!(
        "[run]\nevents = 20000\n[supervisor]\nlisten = \"127.0.0.1:{}\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\n\
         [[source]]\nid = 1\ninput = {{ kind = \"generator\", size = \"4 kB\" }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:{}\"\nsink = {{ kind = \"file\", path = \"input\" }}\n",
        ports[0], ports[1]
    );
    fs::write(dir.join("input.toml"), text).unwrap();
    let status = evbd(dir, &["run", "--quiet", "input.toml"]).status().unwrap();
    assert!(status.success());
    dir.join("input")
}

/// Returns a table of the effects of all signals on all kinds of programs.
fn table<K: Copy + Sync>(kinds: &[(K, &str)], effect: impl Fn(K, &str) -> &'static str + Sync) -> String {
    let heads: Vec<&str> = kinds.iter().map(|(_, name)| *name).collect();
    let mut table = format!("| signal | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(kinds.len()));
    let mut rows = vec![Vec::new(); SIGNALS.len()];
    for (kind, _) in kinds {
        // Some at a time, because the drains of many would take the processor from each other.
        for (row, some) in rows.chunks_mut(8).zip(SIGNALS.chunks(8)) {
            let effects: Vec<&str> = scope(|scope| {
                let effect = &effect;
                let tries: Vec<_> =
                    some.iter().map(|signal| scope.spawn(move || effect(*kind, signal))).collect();
                tries.into_iter().map(|one| one.join().unwrap()).collect()
            });
            row.iter_mut().zip(effects).for_each(|(row, effect)| row.push(effect));
        }
    }
    for (signal, row) in SIGNALS.iter().zip(&rows) {
        let _ = writeln!(table, "| SIG{signal} | {} |", row.join(" | "));
    }
    table
}

/// Checks that the page has a table between the lines with a name, or writes it there.
fn hold(name: &str, table: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/operation.md");
    let text = fs::read_to_string(&page).unwrap();
    let (first, last) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (begin, rest) = text.split_once(&first).unwrap();
    let (stored, end) = rest.split_once(&last).unwrap();
    if std::env::var_os("EVB_BLESS").is_some() {
        fs::write(&page, format!("{begin}{first}{table}{last}{end}")).unwrap();
    } else {
        assert_eq!(stored, table, "bless with EVB_BLESS=1");
    }
}

#[test]
fn every_signal_does_to_every_program_what_the_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let input = make_input(dir.path());
    hold("signals", &table(&KINDS, |kind, signal| effect(kind, signal, &input)));
}

#[test]
fn every_signal_does_to_programs_outside_what_the_page_says() {
    let Some(programs) = evb_needs::granted(outside::Programs::build()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let input = make_input(dir.path());
    let effect = |kind, signal: &str| programs.effect(kind, signal, &input);
    hold("signals outside", &table(&outside::KINDS, effect));
}

#[test]
fn evb_changes_no_signal_of_a_program_outside() {
    let Some(programs) = evb_needs::granted(outside::Programs::build()) else { return };
    programs.assert_own_signals(outside::Kind::C, Command::new("env").args(["--default-signal", "cat"]));
    programs.assert_own_signals(outside::Kind::Python, &mut Command::new("python3"));
}
