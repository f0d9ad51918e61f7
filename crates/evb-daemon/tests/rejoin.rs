//! Builders that are removed from a run and added to it again, with files from before the removal.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command},
    time::{Duration, Instant},
};

use serde_json::Value;

const EVBD: &str = env!("CARGO_BIN_EXE_evbd");

/// A run under run control; builder 2 is a process of its own.
struct System {
    dir: tempfile::TempDir,
    processes: Vec<(&'static str, Child)>,
}

impl System {
    /// Starts the system; `two` is the configuration file of builder 2, with or without a section
    /// `[control]`.
    fn start(two: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = evb_needs::free_ports(4);
        let text = format!(
            r#"
[run]
number = 1
[supervisor]
listen  = "127.0.0.1:{}"
trigger = {{ kind = "periodic", rate = "500 Hz" }}
[[source]]
id    = 1
input = {{ kind = "generator", size = "1 kB" }}
[[builder]]
id     = 1
listen = "127.0.0.1:{}"
sink   = {{ kind = "file", path = "{out}" }}
[[builder]]
id     = 2
listen = "127.0.0.1:{}"
sink   = {{ kind = "file", path = "{out}" }}
"#,
            ports[0],
            ports[1],
            ports[2],
            out = dir.path().join("out").display()
        );
        let control = format!("[control]\nlisten = \"127.0.0.1:{}\"\nautostart = true\n", ports[3]);
        fs::write(dir.path().join("plain.toml"), &text).unwrap();
        fs::write(dir.path().join("control.toml"), text + &control).unwrap();
        let mut system = Self { dir, processes: Vec::new() };
        system.launch("control.toml", &["supervisor", "source:1", "builder:1"]);
        system.launch(two, &["builder:2"]);
        system
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn launch(&mut self, config: &str, roles: &[&'static str]) {
        let log = fs::File::options().append(true).create(true).open(self.path("log")).unwrap();
        let mut command = Command::new(EVBD);
        command.args(["run", "--quiet"]).arg(self.path(config)).stderr(log);
        command.args(roles.iter().flat_map(|role| ["--role", role]));
        self.processes.push((roles[0], command.spawn().unwrap()));
    }

    /// Waits for the end of a process that ends by itself, and returns its exit code.
    fn ends(&mut self, name: &str) -> Option<i32> {
        let place = self.processes.iter().position(|(known, _)| *known == name).unwrap();
        let (_, mut child) = self.processes.remove(place);
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "{name} does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    fn does(&self, words: &[&str]) -> Option<String> {
        let mut command = Command::new(EVBD);
        let output =
            command.arg("ctl").arg("--config").arg(self.path("control.toml")).args(words).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    /// Waits until builder 2 has completed more than that number of events, and returns the number
    /// of its events.
    fn builds(&self, more_than: u64) -> u64 {
        self.wait_for("built by builder 2", |status| {
            let builders = status["survey"]["builders"].as_array()?.iter();
            let complete =
                builders.filter(|builder| builder["id"] == 2).find_map(|two| two["complete"].as_u64());
            complete.filter(|complete| *complete > more_than)
        })
    }

    fn wait_for<T>(&self, what: &str, is: impl Fn(&Value) -> Option<T>) -> T {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let status = self.does(&["status", "--json"]);
            if let Some(found) = status.and_then(|status| is(&serde_json::from_str(&status).unwrap())) {
                return found;
            }
            assert!(Instant::now() < until, "never {what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        for (_, child) in &mut self.processes {
            // An error means that the process has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Builder 2 leaves and comes back, in a process that ends with the builder or stays.
fn comes_and_goes(config: &'static str) {
    let mut system = System::start(config);
    let before = system.builds(20);
    system.does(&["remove-builder", "2"]).unwrap();
    let first = system.path("out/run000001_b02_0000.evb");
    if config == "plain.toml" {
        assert_eq!(system.ends("builder:2"), Some(0), "{}", system.log());
    }
    let until = Instant::now() + Duration::from_secs(10);
    while system.does(&["add-builder", "2"]).is_none() {
        assert!(Instant::now() < until, "it is never added: {}", system.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    if config == "plain.toml" {
        system.launch(config, &["builder:2"]);
    }
    // When the second file exists, the first file is closed.
    let second = system.path("out/run000001_b02_0001.evb");
    system.wait_for("there again", |_| second.exists().then_some(()));
    let closed = fs::read(&first).unwrap();
    system.builds(before + 20);
    system.does(&["stop"]).unwrap();
    let last = system.wait_for("over", |status| {
        Some(status["last_run"].clone()).filter(|last| last["events"]["complete"].as_u64() > Some(40))
    });
    assert_eq!((&last["events"]["lost"], &last["events"]["incomplete"]), (&0.into(), &0.into()), "{last:#}");
    assert_eq!(fs::read(&first).unwrap(), closed, "what was written before is left as it is");
    let complete = last["events"]["complete"].to_string();
    // The next run is open already and has files of its own, which are left out.
    let files = fs::read_dir(system.path("out")).unwrap().map(|file| file.unwrap().path());
    let of_run = files.filter(|file| file.display().to_string().contains("run000001_"));
    let verified = Command::new(EVBD).args(["verify", "--events", &complete]).args(of_run).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stdout);
    assert_eq!(verified.status.code(), Some(0), "{said}");
}

#[test]
fn a_builder_whose_process_left_with_it_goes_on_behind_its_files() {
    comes_and_goes("plain.toml");
}

#[test]
fn a_builder_whose_process_stayed_goes_on_behind_its_files() {
    comes_and_goes("control.toml");
}
