//! evbd under a service manager: notifications, exit codes and log.
#![allow(clippy::unwrap_used)] // an error here is a failed test

mod signals;

use std::{
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use evb_needs::{Missing, skip};
use serde_json::Value;

const EVBD: &str = env!("CARGO_BIN_EXE_evbd");

/// Writes a configuration of one source and one builder; `run` and `supervisor` are added to the
/// sections of these names, and `more` follows these sections.
fn configuration(dir: &Path, run: &str, supervisor: &str, more: &str) -> PathBuf {
    let ports = evb_needs::free_ports(3);
    let text = format!(
        r#"
[run]
{run}
[supervisor]
listen  = "127.0.0.1:{}"
trigger = {{ kind = "periodic", rate = "500 Hz" }}
{supervisor}
{}
[[source]]
id    = 1
input = {{ kind = "generator", size = "1 kB" }}
[[builder]]
id     = 1
listen = "127.0.0.1:{}"
sink   = "null"
"#,
        ports[0],
        more.replace("PORT", &ports[1].to_string()),
        ports[2]
    );
    let path = dir.join("evb.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// A service manager that records notifications.
struct Systemd {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Systemd {
    fn new(dir: &Path) -> Self {
        let path = dir.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        Self { socket, path }
    }

    fn launch(&self, arguments: &[&str], watchdog: Duration) -> Child {
        Command::new(EVBD)
            .args(arguments)
            .env("NOTIFY_SOCKET", &self.path)
            .env("WATCHDOG_USEC", watchdog.as_micros().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Receives notifications until `enough` returns true, and returns all of them.
    fn hears(&self, enough: impl Fn(&[String]) -> bool) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(15);
        let mut heard = Vec::new();
        let mut bytes = [0; 4096];
        while !enough(&heard) {
            assert!(Instant::now() < until, "{heard:?}");
            if let Ok(length) = self.socket.recv(&mut bytes) {
                // Each line of a message is an assignment (sd_notify(3)).
                heard.extend(str::from_utf8(&bytes[..length]).unwrap().lines().map(str::to_owned));
            }
        }
        heard
    }
}

fn code(child: &mut Child) -> Option<i32> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(Instant::now() < until, "the process does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn has(message: &str) -> impl Fn(&[String]) -> bool + '_ {
    move |heard| heard.iter().any(|line| line.starts_with(message))
}

#[test]
fn the_manager_hears_of_readiness_state_life_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let manager = Systemd::new(dir.path());
    let config = configuration(dir.path(), "", "", "[control]\nlisten = \"127.0.0.1:PORT\"");
    let config = config.to_str().unwrap();
    let mut child = manager.launch(&["run", "--quiet", config], Duration::from_secs(2));
    manager.hears(has("READY=1"));
    manager.hears(has("STATUS=Configured, run 1"));
    let since = Instant::now();
    manager.hears(|heard| heard.iter().filter(|line| *line == "WATCHDOG=1").count() >= 4);
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    let started = Command::new(EVBD).args(["ctl", "--config", config, "start"]).status().unwrap();
    assert!(started.success());
    let heard = manager.hears(has("STATUS=Running, run 1: "));
    assert!(heard.iter().any(|line| line == "WATCHDOG=1"), "{heard:?}");
    // A process that is stopped by SIGSTOP sends no notification.
    signals::send("STOP", [&child]);
    std::thread::sleep(Duration::from_millis(100));
    while manager.socket.recv(&mut [0; 4096]).is_ok() {}
    std::thread::sleep(Duration::from_millis(1500));
    assert!(manager.socket.recv(&mut [0; 4096]).is_err());
    signals::send("CONT", [&child]);
    manager.hears(has("WATCHDOG=1"));
    signals::send("TERM", [&child]);
    manager.hears(has("STOPPING=1"));
    // The time in which the process was stopped may have cost events, so any exit code is accepted.
    assert!(code(&mut child).is_some());
}

#[test]
fn a_process_of_roles_is_ready_when_they_have_joined() {
    let dir = tempfile::tempdir().unwrap();
    let manager = Systemd::new(dir.path());
    let config = configuration(dir.path(), "events = 200", "", "");
    let config = config.to_str().unwrap();
    let roles = ["run", "--quiet", "--role", "source:1", "--role", "builder:1", config];
    let mut peers = manager.launch(&roles, Duration::from_secs(5));
    manager.hears(has("WATCHDOG=1"));
    std::thread::sleep(Duration::from_millis(300));
    while let Ok(length) = manager.socket.recv(&mut [0; 4096]) {
        assert!(length > 0);
    }
    let mut supervisor =
        Command::new(EVBD).args(["run", "--quiet", "--role", "supervisor", config]).spawn().unwrap();
    manager.hears(has("READY=1"));
    assert_eq!((code(&mut peers), code(&mut supervisor)), (Some(0), Some(0)));
}

#[test]
fn exit_codes_say_how_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(EVBD).args(["run", "--quiet"]).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let good = configuration(dir.path(), "events = 100", "", "");
    assert_eq!(run(&[good.to_str().unwrap()]).0, Some(0));

    let alone = configuration(dir.path(), "events = 100", "start_timeout = \"300 ms\"", "");
    let (code_of_missing, words) = run(&["--role", "supervisor", alone.to_str().unwrap()]);
    assert_eq!(code_of_missing, Some(1), "{words}");
    // No event was lost, because the run never began.
    assert!(!words.contains("ERROR"), "{words}");

    let (bad, words) = run(&[configuration(dir.path(), "evnts = 100", "", "").to_str().unwrap()]);
    assert_eq!(bad, Some(2));
    assert!(words.contains("did you mean `events`"), "{words}");
    assert_eq!(run(&[]).0, Some(2), "the command line");
    assert_eq!(run(&["no/such/file.toml"]).0, Some(2));

    // One press of Ctrl-C may arrive twice.
    let config = configuration(dir.path(), "", "", "");
    let mut child = launched(&["supervisor", "builder:1", "source:1"], &config);
    signals::send("INT", [&child]);
    signals::send("INT", [&child]);
    assert_eq!(code(&mut child), Some(0));
}

/// Starts a process with the given roles, and waits until it has had time to begin.
fn launched(roles: &[&str], config: &Path) -> Child {
    let mut command = signals::evbd();
    command.args(["run", "--quiet"]).args(roles.iter().flat_map(|role| ["--role", role])).arg(config);
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(600));
    child
}

#[test]
fn who_is_interrupted_before_there_is_a_run_leaves_at_once_and_well() {
    let dir = tempfile::tempdir().unwrap();
    for role in ["source:1", "builder:1"] {
        let config = configuration(dir.path(), "", "", "");
        let mut child = launched(&[role], &config);
        signals::send("INT", [&child]);
        assert_eq!(code(&mut child), Some(0), "{role}: nothing was under way");
    }
}

#[test]
fn a_sink_that_cannot_begin_ends_all_that_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..4 {
        let config = configuration(dir.path(), "", "", "");
        // The check before the start succeeds, because the parent directory exists; creating the
        // directory then fails, because the name is longer than file systems permit.
        let text = std::fs::read_to_string(&config).unwrap();
        let path = dir.path().join("n".repeat(300));
        let sink = format!("sink = {{ kind = \"file\", path = \"{}\" }}", path.display());
        std::fs::write(&config, text.replace("sink   = \"null\"", &sink)).unwrap();
        let began = Instant::now();
        let output = Command::new(EVBD).args(["run", "--quiet"]).arg(&config).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("builder:1") || said.contains("builder 1"), "{said}");
        assert!(began.elapsed() < Duration::from_secs(15), "as long as a start may take: {said}");
    }
}

#[test]
fn the_log_is_text_or_json() {
    let dir = tempfile::tempdir().unwrap();
    let config = configuration(dir.path(), "events = 50", "", "");
    let log = |format: &str| {
        let output = Command::new(EVBD)
            .args(["--log-format", format, "run", "--quiet"])
            .arg(&config)
            .env("EVBD_LOG", "info")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stderr).unwrap()
    };
    let lines: Vec<Value> = log("json")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect();
    let runs =
        |line: &&Value| line["message"].as_str().is_some_and(|text| text.contains(" takes triggers, with "));
    let running = lines.iter().find(runs).unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(running["level"], "INFO");
    assert!(running["timestamp"].is_string() && running["target"].is_string(), "{running}");
    let text = log("text");
    assert!(text.contains(" INFO run ") && text.contains(" takes triggers, with "), "{text}");
}

#[test]
fn the_units_start_what_there_is_and_give_it_no_rights() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist");
    let template = std::fs::read_to_string(dist.join("evbd@.service")).unwrap();
    let here = std::fs::read_to_string(dist.join("evbd.service")).unwrap();
    for (name, text) in [("evbd@.service", &template), ("evbd.service", &here)] {
        let of = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        assert_eq!((of("Type"), of("WatchdogSec")), (Some("notify"), Some("30")));
        assert_eq!(of("LimitCORE"), Some("0"), "a core file would hold the key");
        let words: Vec<String> =
            of("ExecStart").unwrap().split(' ').map(|word| word.replace("%i", "builder:1")).collect();
        // The unit's command line is valid: only the configuration file is missing here.
        let output = Command::new(EVBD).args(&words[1..]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(
            said.contains("cannot read the configuration") && said.contains("/etc/evb/evb.toml"),
            "{said}"
        );
        // systemd's own rating of the unit, if `systemd-analyze` is installed: 0 is best, 100
        // worst.
        let dir = tempfile::tempdir().unwrap();
        let copy = dir.path().join(name);
        std::fs::write(&copy, text).unwrap();
        match Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold=20"])
            .arg(copy)
            .output()
        {
            // Before version 250, systemd rated only units of the running system.
            Ok(analysis) if String::from_utf8_lossy(&analysis.stderr).contains("unrecognized option") => {
                skip(&Missing::new("a systemd-analyze that reads files"));
            }
            Ok(analysis) => {
                assert!(analysis.status.success(), "{}", String::from_utf8_lossy(&analysis.stdout));
            }
            Err(error) => skip(&Missing::new("systemd-analyze").because(error)),
        }
    }
    // The two units differ in the roles that they host, but in no setting that protects the host.
    let rights = |text: &str| text.split_once("User=evb").map(|(_, rights)| rights.to_owned());
    assert!(rights(&here).is_some() && rights(&here) == rights(&template));
}
