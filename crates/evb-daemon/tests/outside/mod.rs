//! Programs outside of the workspace: `evb-export`, and sources in C and Python that are linked
//! with the bindings. The test that uses them builds them.

use std::{
    fs,
    os::unix::{
        fs::symlink,
        process::{CommandExt as _, ExitStatusExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::Duration,
};

use evb_needs::Missing;
use rustix::process::Signal;
use serde_json::Value;

use super::{Scene, evbd, has_files, signals, wait_for};

/// A program that gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Export,
    C,
    /// A program in C with a handler for the signal, which asks for the end of the run.
    HandlingC,
    Python,
    /// As in C.
    HandlingPython,
}

pub(super) const KINDS: [(Kind, &str); 5] = [
    (Kind::Export, "`evb-export`"),
    (Kind::C, "C source"),
    (Kind::HandlingC, "C source with a handler"),
    (Kind::Python, "Python source"),
    (Kind::HandlingPython, "Python source with a handler"),
];

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/outside");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The programs, built.
pub(super) struct Programs {
    export: PathBuf,
    /// A folder with the program in C, its library, and the Python package.
    dir: tempfile::TempDir,
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Programs {
    /// Builds the programs, if this is asked for, because it takes minutes.
    ///
    /// # Errors
    /// It is not asked for, or Python is missing.
    pub(super) fn build() -> Result<Self, Missing> {
        if std::env::var_os("EVB_OUTSIDE").is_none() {
            return Err(Missing::new("EVB_OUTSIDE=1, to build evb-export and the bindings"));
        }
        evb_needs::programs(&["python3"])?;
        let target = Path::new(env!("CARGO_BIN_EXE_evbd")).ancestors().nth(2).unwrap();
        for package in ["bindings/exports", "bindings/c", "bindings/python"] {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo.args(["build", "--quiet", "--locked", "--manifest-path"]);
            cargo.arg(format!("{ROOT}/{package}/Cargo.toml"));
            succeed(cargo.arg("--target-dir").arg(target));
        }
        let built = target.join("debug");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        fs::copy(built.join("libevb.so"), path.join("libevb.so.0")).unwrap();
        symlink("libevb.so.0", path.join("libevb.so")).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", "-L.", "-Wl,-rpath,$ORIGIN"]);
        cc.args([&format!("-I{ROOT}/bindings/c/include"), &format!("{HERE}/source.c"), "-levb"]);
        succeed(cc.args(["-o", "source"]).current_dir(path));
        let package = Path::new(ROOT).join("bindings/python/python/evb");
        succeed(Command::new("cp").arg("-r").arg(package).arg(path));
        fs::copy(built.join("lib_evb.so"), path.join("evb/_evb.abi3.so")).unwrap();
        Ok(Self { export: built.join("evb-export"), dir })
    }

    /// Starts a source that handles a signal, or none.
    fn source(&self, kind: Kind, dir: &Path, address: &str, signal: Option<&str>) -> Child {
        let own = self.dir.path();
        let (program, arguments) = match kind {
            Kind::C | Kind::HandlingC => (own.join("source").into_os_string(), None),
            _ => ("python3".into(), Some(format!("{HERE}/source.py"))),
        };
        let number = signal.map_or(0, |signal| signals::of(signal).as_raw());
        let mut command = Command::new("env");
        command.arg("--default-signal").arg(program).args(arguments).args([address, &number.to_string()]);
        command.env("PYTHONPATH", own).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(dir);
        let log = fs::File::options().append(true).create(true).open(dir.join("log")).unwrap();
        command.stderr(log).process_group(0).spawn().unwrap()
    }

    fn export(&self, dir: &Path, input: &Path) -> Child {
        let mut command = Command::new("env");
        command
            .arg("--default-signal")
            .arg(&self.export)
            .arg(input)
            .args(["--to", "hdf5", "--out", "out.h5"]);
        command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().unwrap()
    }

    /// Starts a run with a source in evbd and another one that is a program.
    pub(super) fn run(&self, kind: Kind, signal: Option<&str>) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let ports = evb_needs::free_ports(3);
        let text = format!(
            "[supervisor]\nlisten = \"127.0.0.1:{}\"\ntrigger = {{ kind = \"periodic\", rate = \"200 Hz\" }}\n\
             [[source]]\nid = 1\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n\
             [[source]]\nid = 2\ninput = {{ kind = \"tcp\", listen = \"127.0.0.1:{}\" }}\n\
             [[builder]]\nid = 1\nlisten = \"127.0.0.1:{}\"\nsink = {{ kind = \"file\", path = \"out\" }}\n",
            ports[0], ports[2], ports[1]
        );
        fs::write(path.join("evb.toml"), text).unwrap();
        let roles = ["--role", "supervisor", "--role", "builder:1", "--role", "source:1"];
        let run = ["run", "--quiet", "--summary", "summary.json", "evb.toml"];
        let others = vec![evbd(path, &[&run[..], &roles].concat()).spawn().unwrap()];
        let program = self.source(kind, path, &format!("127.0.0.1:{}", ports[0]), signal);
        let scene = Scene { dir, program, others };
        wait_for(scene.dir.path(), || has_files(&scene.dir.path().join("out")));
        sleep(Duration::from_millis(300));
        scene
    }

    /// Returns in words what a signal does to a program.
    pub(super) fn effect(&self, kind: Kind, signal: &str, input: &Path) -> &'static str {
        if kind == Kind::Export {
            return self.effect_on_export(signal, input);
        }
        let handled = matches!(kind, Kind::HandlingC | Kind::HandlingPython).then_some(signal);
        let mut scene = self.run(kind, handled.filter(|signal| *signal != "KILL"));
        signals::send(signal, [&scene.program]);
        match scene.end(Duration::from_secs(3)) {
            None => {
                assert!(scene.others[0].try_wait().unwrap().is_none(), "{signal}: the run goes on");
                "nothing"
            }
            Some(end) if end.code() == Some(0) && scene.is_drained() => "drains",
            Some(end) if end.signal() == Some(signals::of(signal).as_raw()) => {
                lacks_the_source(&mut scene, signal);
                "ends"
            }
            Some(_) => "?",
        }
    }

    /// Checks that a source has the dispositions of a plain program, and that no write of evb's
    /// threads sends it a signal.
    pub(super) fn assert_own_signals(&self, kind: Kind, plain: &mut Command) {
        let mut plain = plain.stdin(Stdio::piped()).spawn().unwrap();
        let scene = self.run(kind, None);
        let of = |child: &Child, name| mask(&format!("/proc/{}/status", child.id()), name);
        for name in ["SigIgn:", "SigCgt:"] {
            assert_eq!(of(&scene.program, name), of(&plain, name), "{kind:?}: {name}");
        }
        plain.kill().unwrap();
        plain.wait().unwrap();
        let main = scene.program.id().to_string();
        let tasks = fs::read_dir(format!("/proc/{main}/task")).unwrap().map(|task| task.unwrap());
        let mut of_evb = 0;
        for task in tasks.filter(|task| *task.file_name() != *main) {
            let path = task.path();
            let name = fs::read_to_string(path.join("comm")).unwrap();
            // The thread of timers for Python's waits writes nothing.
            if name.trim() != "evb-python" {
                let blocked = mask(path.join("status").to_str().unwrap(), "SigBlk:");
                let of_writes = 1 << (Signal::PIPE.as_raw() - 1) | 1 << (Signal::XFSZ.as_raw() - 1);
                assert_eq!(blocked, of_writes, "{kind:?}: {name}");
                of_evb += 1;
            }
        }
        assert!(of_evb > 0, "{kind:?} has threads of evb");
    }

    fn effect_on_export(&self, signal: &str, input: &Path) -> &'static str {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let mut scene = Scene { program: self.export(&path, input), dir, others: Vec::new() };
        wait_for(&path, || path.join("out.h5.part").exists());
        signals::send("STOP", [&scene.program]);
        signals::send(signal, [&scene.program]);
        signals::send("CONT", [&scene.program]);
        let ended = scene.end(Duration::from_secs(60)).map(ExitStatus::into_raw);
        match (ended, path.join("out.h5").exists()) {
            (Some(0), true) => "nothing",
            (Some(_), false) => "ends",
            _ => "?",
        }
    }
}

/// Returns a set of signals that a status of the kernel has, without those of real time, of which
/// libc keeps some for itself.
fn mask(status: &str, name: &str) -> u64 {
    let status = fs::read_to_string(status).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 0x7fff_ffff
}

/// Checks that a run goes on without its second source: no event is lost, and those that lack the
/// source name it.
fn lacks_the_source(scene: &mut Scene, signal: &str) {
    // Events are built again when the source has been away for a second.
    sleep(Duration::from_millis(2500));
    signals::send("TERM", &scene.others);
    let path = scene.dir.path().to_owned();
    wait_for(&path, || scene.others[0].try_wait().unwrap().is_some());
    let summary: Value = serde_json::from_slice(&fs::read(path.join("summary.json")).unwrap()).unwrap();
    let count = |name: &str| summary["events"][name].as_u64().unwrap();
    let (assigned, complete, incomplete) = (count("assigned"), count("complete"), count("incomplete"));
    assert_eq!((count("lost"), complete + incomplete), (0, assigned), "{signal}: {summary:#}");
    assert!(complete > 0 && incomplete > 0, "{signal}: {summary:#}");
    let missing = |source: &Value| source["missing"].as_u64().unwrap();
    let sources = summary["sources"].as_array().unwrap();
    let missing: Vec<u64> = sources.iter().map(missing).collect();
    assert_eq!(missing, [0, incomplete], "{signal}: {summary:#}");
}
