//! A system of evbd processes on loopback, one per role, as in a system of many machines.
#![allow(dead_code)] // not every test program uses every function

#[path = "../owed/mod.rs"]
mod owed;
#[path = "../signals/mod.rs"]
mod signals;

use std::{
    fmt::Write as _,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

use serde_json::Value;

/// The parts of the configuration that a test chooses.
pub(crate) struct Plan {
    pub(crate) sources: u16,
    pub(crate) builders: u16,
    /// Text for section `[run]`.
    pub(crate) run: &'static str,
    /// Text for section `[supervisor]`.
    pub(crate) supervisor: &'static str,
    /// Text for section `[shaping]`.
    pub(crate) shaping: &'static str,
    pub(crate) size: &'static str,
    pub(crate) files: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            sources: 3,
            builders: 2,
            run: "",
            supervisor: "trigger = { kind = \"periodic\", rate = \"500 Hz\" }",
            shaping: "mode = \"credit\"",
            size: "2 kB",
            files: false,
        }
    }
}

/// The processes of a system; processes that still run at the end are killed.
pub(crate) struct Fleet {
    dir: tempfile::TempDir,
    roles: Vec<(String, Child)>,
}

impl Plan {
    fn text(&self, out: &str) -> String {
        // The ports are reserved together, so that they differ.
        let count = usize::from(self.builders) + 1;
        let ports = evb_needs::free_ports(count);
        let (run, supervisor, shaping) = (self.run, self.supervisor, self.shaping);
        let mut text = format!(
            "[run]\n{run}\n[supervisor]\nlisten = \"127.0.0.1:{}\"\n{supervisor}\n[shaping]\n{shaping}\n",
            ports[0]
        );
        let (sources, size) = (self.sources, self.size);
        let _ = writeln!(
            text,
            "[[source]]\nids = \"1-{sources}\"\nmax_fragment = \"1 MiB\"\ninput = {{ kind = \"generator\", size = \"{size}\" }}"
        );
        for id in 1..=self.builders {
            let sink = if self.files {
                format!("{{ kind = \"file\", path = \"{out}\" }}")
            } else {
                "\"null\"".to_owned()
            };
            let port = ports[usize::from(id)];
            let _ = writeln!(text, "[[builder]]\nid = {id}\nlisten = \"127.0.0.1:{port}\"\nsink = {sink}");
        }
        text
    }

    /// Returns all roles of the plan except those in `absent`.
    pub(crate) fn roles_but(&self, absent: &[&str]) -> Vec<String> {
        let builders = (1..=self.builders).map(|id| format!("builder:{id}"));
        let sources = (1..=self.sources).map(|id| format!("source:{id}"));
        let all = std::iter::once("supervisor".to_owned()).chain(builders).chain(sources);
        all.filter(|role| !absent.contains(&role.as_str())).collect()
    }

    /// Starts every role in a process of its own.
    pub(crate) fn start(&self) -> Fleet {
        self.start_but(&[])
    }

    pub(crate) fn start_but(&self, absent: &[&str]) -> Fleet {
        let mut fleet = Fleet { dir: tempfile::tempdir().expect("a directory"), roles: Vec::new() };
        let out = fleet.out();
        std::fs::write(fleet.dir.path().join("evb.toml"), self.text(out.to_str().expect("a plain path")))
            .expect("written");
        for role in self.roles_but(absent) {
            fleet.launch(&role);
        }
        fleet
    }
}

impl Fleet {
    pub(crate) fn launch(&mut self, role: &str) {
        self.launch_with(role, &[]);
    }

    /// Starts a role with the given environment variables, in the folder of the configuration.
    pub(crate) fn launch_with(&mut self, role: &str, variables: &[(&str, &Path)]) {
        self.roles.retain(|(name, _)| name != role);
        let log = File::create(self.path(role, "log")).expect("a file");
        let mut command = signals::evbd();
        command.args(["run", "--quiet", "--role", role, "--summary"]).arg(self.path(role, "json"));
        command.arg(self.dir.path().join("evb.toml")).stderr(log);
        command.current_dir(self.dir.path()).envs(variables.iter().copied());
        self.roles.push((role.to_owned(), command.spawn().expect("evbd starts")));
    }

    /// Starts a role again whose process has ended.
    pub(crate) fn launch_again(&mut self, role: &str) {
        self.launch(role);
    }

    /// Returns the folder of the configuration.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the folder of the event files.
    pub(crate) fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn path(&self, role: &str, kind: &str) -> PathBuf {
        self.dir.path().join(format!("{}.{kind}", role.replace(':', "_")))
    }

    /// Returns the text that a role wrote to standard error.
    pub(crate) fn log(&self, role: &str) -> String {
        std::fs::read_to_string(self.path(role, "log")).unwrap_or_default()
    }

    /// Sends a signal, given by its name, to a role's process.
    pub(crate) fn signal(&self, role: &str, signal: &str) {
        let (_, child) = self.roles.iter().find(|(name, _)| name == role).expect("that role runs");
        signals::send(signal, [child]);
    }

    /// Sends a signal to the processes of several roles, in this order.
    pub(crate) fn signal_all(&self, roles: &[&str], signal: &str) {
        let is_meant = |name: &str| roles.is_empty() || roles.contains(&name);
        signals::send(signal, self.roles.iter().filter(|(name, _)| is_meant(name)).map(|(_, child)| child));
    }

    /// Waits for a role's end, and returns its exit code; `None` if a signal ended it.
    pub(crate) fn wait(&mut self, role: &str, limit: Duration) -> Option<i32> {
        let until = Instant::now() + limit;
        loop {
            let (_, child) = self.roles.iter_mut().find(|(name, _)| name == role).expect("that role runs");
            if let Some(status) = child.try_wait().expect("our own process") {
                return ExitStatus::code(&status);
            }
            assert!(Instant::now() < until, "{role} is still there after {limit:?}: {}", self.log(role));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the summary that a role wrote.
    pub(crate) fn summary(&self, role: &str) -> Value {
        let text = std::fs::read(self.path(role, "json"))
            .unwrap_or_else(|error| panic!("{role} left no summary ({error}): {}", self.log(role)));
        serde_json::from_slice(&text).expect("JSON")
    }

    /// Asserts that the ledger is closed, and that records and ledger agree with the fragments in
    /// the event files.
    pub(crate) fn assert_closed(&self, summary: &Value) {
        assert_closed(summary);
        assert_eq!(owed::contradictions(&[self.out()], summary), [""; 0], "{:#}", summary["events"]);
    }

    /// Waits until every role has ended with the exit code `code`.
    pub(crate) fn all_end(&mut self, code: i32, limit: Duration) {
        let roles: Vec<String> = self.roles.iter().map(|(role, _)| role.clone()).collect();
        for role in roles {
            assert_eq!(self.wait(&role, limit), Some(code), "{role}: {}", self.log(&role));
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for (_, child) in &mut self.roles {
            // An error means that the process has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns a number of a summary, given its JSON pointer.
pub(crate) fn number(summary: &Value, pointer: &str) -> f64 {
    let value = summary.pointer(pointer).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("no {pointer} in {summary:#}"))
}

/// Returns the problems in the summary of a run.
pub(crate) fn problems(summary: &Value) -> String {
    summary["problems"].to_string()
}

/// Asserts that triggered = inhibited + complete + incomplete + lost + rejected.
pub(crate) fn assert_closed(summary: &Value) {
    let of = |key: &str| number(summary, &format!("/events/{key}"));
    let settled = of("inhibited") + of("complete") + of("incomplete") + of("lost") + of("rejected");
    assert!(of("triggered") == settled, "{:#}", summary["events"]);
}
