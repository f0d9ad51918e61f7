//! Run control, tested as its users see it: `evbd` processes, `evbd ctl`, and bare HTTP.
#![allow(clippy::unwrap_used)] // an error here is a failed test

mod signals;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const EVBD: &str = env!("CARGO_BIN_EXE_evbd");

/// A configuration in a directory of its own, and the processes of its system.
struct System {
    dir: tempfile::TempDir,
    control: u16,
    processes: Vec<(String, Child)>,
}

impl System {
    /// Two sources, builders 1 and 2, files; `control` is text for section `[control]`.
    fn new(control: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = evb_needs::free_ports(4);
        let out = dir.path().join("out");
        let text = format!(
            r#"
[supervisor]
listen  = "127.0.0.1:{}"
trigger = {{ kind = "periodic", rate = "1 kHz" }}
[control]
listen = "127.0.0.1:{}"
{}
[[source]]
ids    = "1-2"
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
            control.replace("DIR", dir.path().to_str().unwrap()),
            ports[2],
            ports[3],
            out = out.display()
        );
        std::fs::write(dir.path().join("evb.toml"), text).unwrap();
        Self { dir, control: ports[1], processes: Vec::new() }
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("evb.toml")
    }

    fn launch(&mut self, name: &str, roles: &[&str]) {
        let mut command = Command::new(EVBD);
        command.args(["run", "--quiet"]).arg(self.config()).stderr(Stdio::null()).stdout(Stdio::null());
        for role in roles {
            command.args(["--role", role]);
        }
        self.processes.push((name.to_owned(), command.spawn().unwrap()));
    }

    /// Asks all processes at once to end.
    fn terminate_all(&self) {
        signals::send("TERM", self.processes.iter().map(|(_, child)| child));
    }

    /// Ends a process by SIGTERM, and returns its exit code.
    fn end(&mut self, name: &str) -> Option<i32> {
        let (_, child) = self.processes.iter().find(|(known, _)| known == name).unwrap();
        signals::send("TERM", [child]);
        self.exit_code(name)
    }

    /// Waits for the end of a process, and returns its exit code.
    fn exit_code(&mut self, name: &str) -> Option<i32> {
        let place = self.processes.iter().position(|(known, _)| known == name).unwrap();
        let (_, mut child) = self.processes.remove(place);
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "{name} does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ctl(&self, words: &[&str]) -> Output {
        let mut command = Command::new(EVBD);
        command.arg("ctl").arg("--config").arg(self.config()).args(words).output().unwrap()
    }

    /// Runs a command that must succeed.
    fn does(&self, words: &[&str]) -> String {
        let output = self.ctl(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.does(&["status", "--json"])).unwrap()
    }

    fn wait_for(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let output = self.ctl(&["status", "--json"]);
            if output.status.success() {
                let status = serde_json::from_slice(&output.stdout).unwrap();
                if is(&status) {
                    return status;
                }
                assert!(Instant::now() < until, "never {what}: {status:#}");
            }
            assert!(Instant::now() < until, "never {what}: {}", String::from_utf8_lossy(&output.stderr));
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Sends the bytes of `request`, and reads the answer until the connection is closed.
    fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.control)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn asks(&self, line: &str, headers: &str, body: &str) -> (u16, Value) {
        let host = if headers.contains("Host:") { "" } else { "Host: localhost\r\n" };
        let length = body.len();
        let answer = self.raw(&format!(
            "{line} HTTP/1.1\r\n{host}{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let status = answer.split(' ').nth(1).unwrap_or_else(|| panic!("{answer}")).parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
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

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn roles_on_other_hosts_join_run_after_run() {
    let mut system = System::new("");
    system.launch("supervisor", &["supervisor"]);
    system.launch("sources", &["source:1", "source:2"]);
    system.launch("one", &["builder:1"]);
    system.wait_for("waiting", |status| status["waiting_for"] == json!(["builder 2"]));
    let refused = system.ctl(&["start"]);
    assert_eq!(refused.status.code(), Some(1));
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        words.contains("refused by builder 2: it has not registered") && words.contains("--role builder:2"),
        "{words}"
    );
    system.launch("two", &["builder:2"]);
    for run in 1..=3 {
        let status = system.wait_for("ready", |status| status["ready"] == true);
        assert_eq!(status["run"], run);
        assert!(system.does(&["start"]).starts_with("Running: "));
        system.wait_for("built", |status| status["survey"]["events"]["complete"].as_u64() > Some(50));
        assert!(system.does(&["pause"]).starts_with("Paused: "));
        assert_eq!(system.does(&["rate", "500 Hz"]), "the trigger rate is 500 Hz from now on\n");
        assert!(system.does(&["resume"]).starts_with("Running: "));
        let outcome = system.does(&["stop"]);
        assert!(
            outcome.starts_with(&format!("run {run}: ")) && outcome.contains("\nConfigured: "),
            "{outcome}"
        );
        let last = system.status()["last_run"].clone();
        assert_eq!((last["run"].as_u64(), last["exit_code"].as_u64()), (Some(run), Some(0)), "{last:#}");
        if run == 1 {
            // A process may be replaced between runs.
            assert_eq!(system.end("one"), Some(0));
            system.wait_for("gone", |status| status["waiting_for"] == json!(["builder 1"]));
            system.launch("one", &["builder:1"]);
        }
    }
    for name in ["sources", "one", "two", "supervisor"] {
        assert_eq!(system.end(name), Some(0), "{name}");
    }
    let out = system.dir.path().join("out");
    let verified = Command::new(EVBD).args(["verify", "--json"]).arg(&out).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
    let mut runs: Vec<String> = std::fs::read_dir(&out)
        .unwrap()
        .map(|file| file.unwrap().file_name().to_str().unwrap()[..9].to_owned())
        .collect();
    runs.sort();
    assert_eq!(runs, ["run000001", "run000001", "run000002", "run000002", "run000003", "run000003"]);
}

#[test]
fn a_host_that_waits_for_the_others_ends_at_once() {
    let mut system = System::new("");
    system.launch("supervisor", &["supervisor"]);
    for (role, others) in [
        ("builder:1", ["source 1", "source 2", "builder 2"]),
        ("source:2", ["source 1", "builder 1", "builder 2"]),
    ] {
        system.launch("waiting", &[role]);
        system.wait_for("registered", |status| status["waiting_for"] == json!(others));
        assert_eq!(system.end("waiting"), Some(0), "{role}");
    }
    assert_eq!(system.end("supervisor"), Some(0));
}

#[test]
fn all_hosts_end_at_once_between_runs_without_an_error() {
    for _ in 0..8 {
        let mut system = System::new("");
        system.launch("supervisor", &["supervisor"]);
        system.launch("sources", &["source:1", "source:2"]);
        system.launch("builders", &["builder:1", "builder:2"]);
        system.wait_for("ready", |status| status["ready"] == true);
        system.terminate_all();
        for name in ["sources", "builders", "supervisor"] {
            assert_eq!(system.exit_code(name), Some(0), "{name}");
        }
    }
}

#[test]
fn builders_come_and_go_in_a_run() {
    let mut system = System::new("");
    system.launch("most", &["supervisor", "source:1", "source:2", "builder:1"]);
    system.wait_for("there", |_| true);
    system.does(&["remove-builder", "2"]);
    system.wait_for("ready", |status| status["ready"] == true);
    system.does(&["start"]);
    let complete = |status: &Value, id: u64| {
        let builders = status["survey"]["builders"].as_array().unwrap().iter();
        let mut of_id = builders.filter(|builder| builder["id"] == id);
        of_id.next().map_or(0, |builder| builder["complete"].as_u64().unwrap())
    };
    system.wait_for("built", |status| complete(status, 1) > 50);
    // A builder that is not part of the run waits for admission.
    system.launch("two", &["builder:2"]);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(complete(&system.status(), 2), 0);
    assert!(system.does(&["add-builder", "2"]).starts_with("builder 2 is added: "));
    system.wait_for("built by the new one", |status| complete(status, 2) > 50);
    assert!(system.does(&["remove-builder", "1"]).starts_with("builder 1 is removed: "));
    let left = complete(
        &system.wait_for("idle", |status| {
            let builders = status["survey"]["builders"].as_array().unwrap();
            builders.iter().all(|builder| builder["id"] != 1 || builder["outstanding"] == 0)
        }),
        2,
    );
    system.wait_for("built by the one that is left", |status| complete(status, 2) > left + 100);
    let outcome = system.does(&["stop"]);
    let last = system.status()["last_run"].clone();
    assert_eq!(last["events"]["lost"], 0, "{outcome}{last:#}");
    assert_eq!(last["events"]["incomplete"], 0, "{outcome}{last:#}");
    let (assigned, complete) = (&last["events"]["assigned"], &last["events"]["complete"]);
    assert_eq!(assigned, complete);
    let out = system.dir.path().join("out");
    let verified = Command::new(EVBD).args(["verify", "--json"]).arg(&out).output().unwrap();
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(&verified["runs"][0]["complete"], complete);
    assert_eq!(verified["runs"][0]["duplicates"]["total"], 0);
}

#[test]
fn a_signal_in_a_run_drains_it_and_its_code_is_the_exit_code() {
    let mut system = System::new("autostart = true");
    system.launch("all", &[]);
    system.wait_for("running", |status| status["survey"]["events"]["complete"].as_u64() > Some(20));
    assert_eq!(system.end("all"), Some(0));
    let unreachable = system.ctl(&["status"]);
    assert_eq!(unreachable.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unreachable.stderr).contains("start evbd there"));
}

#[test]
fn every_illegal_command_is_a_conflict_that_says_who_why_and_what_to_do() {
    let mut system = System::new("");
    system.launch("all", &[]);
    system.wait_for("ready", |status| status["ready"] == true);
    let refused = |command: &str, by: &str| {
        let (code, answer) = system.asks(&format!("POST /v1/{command}"), JSON, "");
        assert_eq!((code, answer["refused_by"].as_str()), (409, Some(by)), "{command}: {answer}");
        for key in ["request", "reason", "remedy"] {
            assert!(answer[key].as_str().is_some_and(|text| text.len() > 3), "{answer}");
        }
    };
    let done = |command: &str, state: &str| {
        let (code, answer) = system.asks(&format!("POST /v1/{command}"), JSON, "");
        assert_eq!((code, answer), (200, json!({ "state": state })), "{command}");
    };
    let _ = ["pause", "resume", "stop"].map(|command| refused(command, "state Configured"));
    done("configure", "Configured");
    done("start", "Running");
    let _ = ["configure", "start", "resume", "reset"].map(|command| refused(command, "state Running"));
    done("pause", "Paused");
    let _ = ["configure", "start", "reset"].map(|command| refused(command, "state Paused"));
    // Run control cannot know whether the run paused by itself; the supervisor does.
    refused("pause", "the supervisor");
    done("resume", "Running");
    done("stop", "Stopping");
    system.wait_for("settled", |status| status["state"] == "Configured");
    done("reset", "Unconfigured");
    let _ =
        ["start", "pause", "resume", "stop", "reset"].map(|command| refused(command, "state Unconfigured"));
    // A configuration file that became invalid is refused by name and line, and nothing changes.
    let good = std::fs::read_to_string(system.config()).unwrap();
    std::fs::write(system.config(), good.replace("1 kHz", "1 furlong")).unwrap();
    let (code, answer) = system.asks("POST /v1/configure", JSON, "");
    assert_eq!((code, answer["refused_by"].as_str()), (409, Some("the configuration")), "{answer}");
    assert!(answer["reason"].as_str().unwrap().contains("supervisor.trigger.rate"), "{answer}");
    std::fs::write(system.config(), good).unwrap();
    done("configure", "Configured");
}

#[test]
fn strangers_are_turned_away() {
    let mut system = System::new("");
    system.launch("all", &[]);
    system.wait_for("there", |_| true);
    let cases = [
        ("POST /v1/start", "Host: evil.example\r\n", "", 403),
        ("GET /v1/status", "Host: evil.example:7900\r\n", "", 403),
        (
            "POST /v1/start",
            "Host: localhost\r\nOrigin: http://evil.example\r\nContent-Type: application/json\r\n",
            "",
            403,
        ),
        ("POST /v1/start", "Host: localhost\r\nOrigin: null\r\nContent-Type: application/json\r\n", "", 403),
        ("POST /v1/start", "", "", 415),
        ("POST /v1/start", "Content-Type: text/plain\r\n", "{}", 415),
        ("PUT /v1/trigger", "Content-Type: application/x-www-form-urlencoded\r\n", "rate=1", 415),
        ("PUT /v1/trigger", JSON, "{\"rate\": \"50\"}", 400),
        ("PUT /v1/trigger", JSON, "{\"rat\": \"50 Hz\"}", 400),
        ("POST /v1/builders", JSON, "{\"id\": 70000}", 400),
        ("DELETE /v1/builders/x", "", "", 404),
        ("GET /v1/start", "", "", 405),
        ("POST /v1/status", JSON, "{}", 405),
        ("DELETE /v1/trigger", "", "", 405),
        ("GET /v2/status", "", "", 404),
        ("GET /v1", "", "", 404),
        ("GET /", "Host: evil.example\r\n", "", 403),
        ("GET /metrics", "Host: evil.example\r\n", "", 403),
        ("GET /v1/history?since=3", "", "", 400),
        ("POST /v1/start", JSON, "{\"comments\": \"x\"}", 400),
        ("GET /v1/status", "Host: localhost\r\nHost: localhost\r\n", "", 400),
        ("GET /", "Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n", "", 400),
        ("GET /v1/status", "Authorization: Bearer one\r\nAuthorization: Bearer two\r\n", "", 400),
        ("GET http://evil.example/v1/status", "", "", 400),
        ("GET /v1/status", "Host: 127.0.0.1:80@evil.example\r\n", "", 400),
        ("DELETE /v1/builders/builders/5", "", "", 404),
        ("HEAD /v1/start", "Host: evil.example\r\n", "", 403),
    ];
    for (line, headers, body, wanted) in cases {
        if line.starts_with("HEAD") {
            // An answer to HEAD has no body.
            let answer = system.raw(&format!("{line} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {wanted}")), "{line} {headers}: {answer}");
            continue;
        }
        let (code, answer) = system.asks(line, headers, body);
        assert_eq!(code, wanted, "{line} {headers}: {answer}");
        assert!(answer["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{answer}");
    }
    let (code, _) = system.asks("POST /v1/start", JSON, &" ".repeat(20_000));
    assert_eq!(code, 413);
    let long = system
        .raw(&format!("GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(20_000)));
    assert!(long.starts_with("HTTP/1.1 431"), "{long}");
    // Load balancers ask by HEAD, and absolute names end with a dot.
    for (line, host) in
        [("HEAD /", "localhost"), ("HEAD /metrics", "localhost."), ("HEAD /v1/status", "LocalHost")]
    {
        let answer = system.raw(&format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && body.is_empty(), "{line} {host}: {answer}");
        assert!(head.contains("cross-origin-resource-policy: same-origin"), "{head}");
    }
    // Silent connections are closed, and do not delay other clients.
    let silent: Vec<_> =
        (0..32).map(|_| TcpStream::connect(("127.0.0.1", system.control)).unwrap()).collect();
    let since = Instant::now();
    assert_eq!(
        system.asks("GET /v1/status", "Host: 127.0.0.1:7900\r\nOrigin: http://127.0.0.1:7900\r\n", "").0,
        200
    );
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    for mut stream in silent {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).unwrap();
    }
    assert!(since.elapsed() < Duration::from_secs(12), "{:?}", since.elapsed());
    assert_eq!(system.status()["state"], "Configured");
}

#[test]
fn a_token_is_required_where_there_is_one() {
    use std::os::unix::fs::PermissionsExt;

    let mut system = System::new("token_file = \"DIR/token\"");
    let token = system.dir.path().join("token");
    let refused = |system: &System, wanted: &str| {
        let output = Command::new(EVBD).arg("run").arg(system.config()).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains(wanted), "{words}");
    };
    refused(&system, "the token file cannot be used: cannot read the file");
    std::fs::write(&token, "correct-horse-battery-staple\n").unwrap();
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o644)).unwrap();
    refused(&system, "(mode 0644)");
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::write(&token, "short\n").unwrap();
    refused(&system, "16 to 512");
    std::fs::write(&token, "correct-horse-battery-staple\n").unwrap();
    system.launch("all", &[]);
    system.wait_for("there", |_| true);
    for header in
        ["", "Authorization: Bearer correct-horse-battery-stapl\r\n", "Authorization: Basic eA==\r\n"]
    {
        let (code, answer) = system.asks("GET /v1/status", header, "");
        assert_eq!(code, 401, "{header}: {answer}");
    }
    // The files of the page hold no secret, but requests for a foreign host name get none of them.
    let page =
        |host: &str| system.raw(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    let answer = page("localhost").to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    assert!(answer.contains("content-security-policy: default-src 'none'"), "{answer}");
    assert!(page("evil.example").starts_with("HTTP/1.1 403"));
    let bearer = "Authorization: Bearer correct-horse-battery-staple\r\n";
    assert_eq!(system.asks("GET /v1/status", bearer, "").0, 200);
    let url = format!("http://127.0.0.1:{}", system.control);
    let without = Command::new(EVBD).args(["ctl", "--url", &url, "status"]).output().unwrap();
    assert_eq!(without.status.code(), Some(2), "{}", String::from_utf8_lossy(&without.stderr));
}

/// A service manager may start evbd again, because the port may become free.
#[test]
fn an_address_of_run_control_that_is_taken_is_no_fault_of_the_configuration() {
    let system = System::new("autostart = false");
    let _held = std::net::TcpListener::bind(("127.0.0.1", system.control)).unwrap();
    let output = Command::new(EVBD).args(["run", "--quiet"]).arg(system.config()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("run control cannot listen on 127.0.0.1:") && !said.contains("error: error"),
        "{said}"
    );
}

/// Load: 32 clients send byte by byte, 32 do not read, and one sends 64 MB of headers.
#[test]
fn slow_clients_and_viewers_keep_no_command_out() {
    let mut system = System::new("");
    system.launch("all", &[]);
    system.wait_for("ready", |status| status["ready"] == true);
    system.does(&["start"]);
    let address = ("127.0.0.1", system.control);
    let connect = || TcpStream::connect(address).unwrap();
    let mut slow: Vec<_> = (0..32).map(|_| connect()).collect();
    for stream in &mut slow {
        let _ = stream.write_all(b"GET /v1/status HT");
    }
    let deaf: Vec<_> = (0..32).map(|_| connect()).collect();
    for mut stream in &deaf {
        let _ = stream.write_all(
            "GET /page/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(40).as_bytes(),
        );
    }
    let flood = std::thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let line = format!("X-Y: {}\r\n", "z".repeat(1000));
        let _ = stream.write_all(b"GET /v1/status HTTP/1.1\r\n");
        (0..64_000).take_while(|_| stream.write_all(line.as_bytes()).is_ok()).count()
    });
    for stream in &mut slow {
        let _ = stream.write_all(b"TP");
    }
    let since = Instant::now();
    system.does(&["stop", "--no-wait"]);
    println!("a stop beside slow clients took {:?}", since.elapsed());
    // The stop took less time than the limit after which slow clients are closed.
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    assert!(flood.join().unwrap() < 64_000, "a head without end is cut off");
}

#[test]
fn viewers_may_look_and_names_are_served() {
    use std::os::unix::fs::PermissionsExt;

    let mut system =
        System::new("token_file = \"DIR/token\"\nviewers = \"DIR/viewer\"\nnames = [\"DAQ0.lab\"]");
    for (file, token) in
        [("token", "correct-horse-battery-staple\n"), ("viewer", "only-look-and-do-not-touch\n")]
    {
        let path = system.dir.path().join(file);
        std::fs::write(&path, token).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    }
    system.launch("all", &[]);
    let operator = "Authorization: Bearer correct-horse-battery-staple\r\n";
    let viewer = "Authorization: Bearer only-look-and-do-not-touch\r\nHost: daq0.lab:7900\r\n";
    let until = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(("127.0.0.1", system.control)).is_err() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(system.asks("GET /v1/status", "", "").0, 401);
    let (code, status) = system.asks("GET /v1/status", viewer, "");
    assert_eq!((code, &status["access"]), (200, &json!("viewer")), "{status}");
    let (code, status) = system.asks("GET /v1/status", operator, "");
    assert_eq!((code, &status["access"]), (200, &json!("operator")), "{status}");
    let (code, answer) = system.asks("POST /v1/reset", &format!("{viewer}{JSON}"), "");
    assert_eq!((code, answer["reason"].as_str()), (403, Some("viewers may look, but not give commands")));
    assert!(
        system
            .raw("GET / HTTP/1.1\r\nHost: daq0.lab\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 200")
    );
}

#[test]
fn a_run_has_a_comment_a_history_and_metrics() {
    let mut system = System::new("");
    system.launch("all", &[]);
    system.wait_for("ready", |status| status["ready"] == true);
    let comment = "<b>new</b> \"thresholds\"\nsecond line";
    system.does(&["start", "--comment", comment, "--kind", "physics"]);
    let status = system.wait_for("reports", |status| {
        let live = |role: &str| {
            status["survey"][role].as_array().unwrap().iter().all(|peer| peer["live"].is_object())
        };
        status["survey"].is_object() && live("sources") && live("builders")
    });
    assert_eq!(status["annotation"], json!({ "kind": "physics", "comment": comment }));
    let (code, history) = system.asks("GET /v1/history?after=0", "", "");
    let samples = history["samples"].as_array().unwrap();
    assert!(code == 200 && samples.last().unwrap()["n"] == history["next"], "{history}");
    let next = history["next"].as_u64().unwrap();
    let (_, rest) = system.asks(&format!("GET /v1/history?after={next}"), "", "");
    assert!(rest["samples"].as_array().unwrap().len() <= 1, "{rest}");
    system.does(&["stop"]);
    let status = system.status();
    assert_eq!(status["last_run"]["annotation"]["comment"], comment);
    let metrics = system.raw(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\nConnection: close\r\n\r\n",
    );
    let complete =
        format!("\nevb_events_total{{outcome=\"complete\"}} {}\n", status["last_run"]["events"]["complete"]);
    assert!(metrics.contains(&complete) && metrics.ends_with("# EOF\n"), "{complete} is not in {metrics}");
    let (code, answer) =
        system.asks("POST /v1/start", JSON, &format!("{{\"comment\": \"{}\"}}", "x".repeat(5000)));
    assert_eq!((code, answer["refused_by"].as_str()), (409, Some("the run")), "{answer}");
}
