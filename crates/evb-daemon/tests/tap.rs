//! Taps of a real evbd: what their clients get is what is in the files.
#![allow(clippy::unwrap_used)] // an error here is a failed test

mod signals;

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::LazyLock,
    thread::sleep,
    time::{Duration, Instant},
};

use evb_core::id::BuilderId;
use evb_file::{EventFile, EventStream, FileIdentity, StreamEncoder, files_at};
use serde_json::Value;

const EVBD: &str = env!("CARGO_BIN_EXE_evbd");
const EVENTS: u64 = 1000;
const KEY: &str = "0123456789abcdef-tap";

/// An evbd with two builders whose events can be looked at: the first with a key, the second with
/// shares up to 0.5 for two clients.
struct System {
    dir: tempfile::TempDir,
    control: u16,
    taps: [u16; 2],
    evbd: Child,
}

impl System {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = evb_needs::free_ports(6);
        let [supervisor, control, one, two] = [ports[0], ports[1], ports[2], ports[3]];
        let taps = [ports[4], ports[5]];
        let path = dir.path().display();
        let text = format!(
            r#"
[run]
events = {EVENTS}
[supervisor]
listen = "127.0.0.1:{supervisor}"
trigger = {{ kind = "periodic", rate = "500 Hz" }}
[control]
listen = "127.0.0.1:{control}"
[[source]]
ids = "1-2"
input = {{ kind = "generator", size = "1 kB" }}
[[builder]]
id = 1
listen = "127.0.0.1:{one}"
sink = {{ kind = "file", path = "{path}/out", rotate = "100 kB" }}
tap = {{ listen = "127.0.0.1:{}", key_file = "{path}/key" }}
[[builder]]
id = 2
listen = "127.0.0.1:{two}"
sink = {{ kind = "file", path = "{path}/out" }}
tap = {{ listen = "127.0.0.1:{}", sample = 0.5, clients = 2 }}
"#,
            taps[0], taps[1]
        );
        fs::write(dir.path().join("evb.toml"), text).unwrap();
        fs::write(dir.path().join("key"), KEY).unwrap();
        let mut chmod = Command::new("chmod");
        assert!(chmod.arg("600").arg(dir.path().join("key")).status().unwrap().success());
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let evbd = Command::new(EVBD).arg("run").arg(dir.path().join("evb.toml")).stderr(log).spawn();
        let mut system = Self { dir, control, taps, evbd: evbd.unwrap() };
        system.wait_for(|status| status["ready"] == true);
        system
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn ctl(&self, words: &[&str]) -> Output {
        let url = format!("http://127.0.0.1:{}", self.control);
        Command::new(EVBD).args(["ctl", "--url", &url]).args(words).output().unwrap()
    }

    fn wait_for(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let status = serde_json::from_slice(&self.ctl(&["status", "--json"]).stdout);
            let log = || fs::read_to_string(self.path("log")).unwrap();
            match status {
                Ok(status) if is(&status) => return status,
                status => assert!(Instant::now() < until, "{status:#?}\n{}", log()),
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Starts `evbd tap` of these ports, whose output goes to the file `name`.
    fn tap(&self, name: &str, ports: &[u16], options: &[&str]) -> Child {
        let mut tap = Command::new(EVBD);
        tap.arg("tap").args(ports.iter().map(|port| format!("http://127.0.0.1:{port}"))).args(options);
        tap.stdout(fs::File::create(self.path(name)).unwrap()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits until the taps have that number of clients.
    fn wait_for_clients(&self, counts: [u64; 2]) {
        let until = Instant::now() + Duration::from_secs(20);
        while [0, 1].map(|tap| self.counts(tap)["connected"].as_u64().unwrap()) != counts {
            assert!(Instant::now() < until, "{:#} {:#}", self.counts(0), self.counts(1));
            sleep(Duration::from_millis(10));
        }
    }

    fn counts(&self, tap: usize) -> Value {
        let answer = get(self.taps[tap], "/v1/counts", KEY);
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = self.evbd.kill();
        let _ = self.evbd.wait();
    }
}

/// Begins a request, and returns its connection.
fn ask(port: u16, path: &str, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {key}\r\n\r\n")
        .unwrap();
    stream
}

/// Returns the whole answer to a request.
fn get(port: u16, path: &str, key: &str) -> String {
    let mut answer = String::new();
    ask(port, path, key).read_to_string(&mut answer).unwrap();
    answer
}

/// The stream to whose records the records of all streams and files are compared.
static SAME: LazyLock<StreamEncoder> = LazyLock::new(|| StreamEncoder::new(&FileIdentity::default()));

/// Returns the records of streams or files by event, as records of one and the same stream.
fn records(paths: &[PathBuf]) -> BTreeMap<u64, Vec<u8>> {
    let mut all = BTreeMap::new();
    for path in paths {
        let mut reader = EventStream::new(fs::File::open(path).unwrap(), path).unwrap();
        while let Some(record) = reader.next().transpose().unwrap() {
            let mut bytes = reader.bytes().to_vec();
            SAME.adopt(&record, &mut bytes);
            assert!(all.insert(record.event.number(), bytes).is_none(), "event {} twice", record.event);
        }
    }
    all
}

fn ended(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn clients_get_the_records_of_the_files() {
    let mut system = System::start();
    let key = system.path("key");
    let key = ["--key-file", key.to_str().unwrap()];
    let [one, two] = system.taps;
    let whole = system.tap("whole", &[one], &key);
    let first = system.tap("first", &[one], &[key[0], key[1], "--events", "7"]);
    let leader = system.tap("leader", &[system.control], &[key[0], key[1], "--sample", "0.5"]);
    let idle = ask(one, "/v1/events", KEY);
    system.wait_for_clients([4, 1]);
    assert!(system.ctl(&["start"]).status.success());
    let seen = |status: &Value| status["survey"]["builders"][0]["live"]["tap"]["seen"].as_u64();
    let status = system.wait_for(|status| seen(status) > Some(0));
    assert_eq!(status["survey"]["builders"][1]["tap"], format!("127.0.0.1:{two}"));
    let metrics = get(system.control, "/metrics", "");
    assert!(metrics.contains("evb_builder_tap_events_total{builder=\"1\",fate=\"sent\"} "), "{metrics}");
    assert!(ended(first).contains(" sampled out"));
    system.wait_for(|status| status["last_run"]["events"]["written"] == EVENTS);

    let said = ended(whole);
    let of_builder = |builder: u16| -> Vec<PathBuf> {
        let files = files_at(&system.path("out")).unwrap();
        let builder = Some(BuilderId::new(builder));
        files.into_iter().filter(|path| EventFile::open(path).unwrap().header().builder == builder).collect()
    };
    let (ones, twos) = (records(&of_builder(1)), records(&of_builder(2)));
    assert!(
        ones.len() as u64 + twos.len() as u64 == EVENTS && ones.len() > 100,
        "{} and {}",
        ones.len(),
        twos.len()
    );
    assert!(records(&[system.path("whole")]) == ones);
    assert!(
        said.contains(&format!("{0} events seen, {0} sent, 0 sampled out, 0 dropped", ones.len())),
        "{said}"
    );
    assert_eq!(records(&[system.path("first")]).len(), 7);

    let said = ended(leader);
    let sampled = records(&[system.path("leader")]);
    let all: BTreeMap<u64, Vec<u8>> =
        ones.iter().chain(&twos).map(|(id, bytes)| (*id, bytes.clone())).collect();
    assert!(sampled.iter().all(|(event, bytes)| all.get(event) == Some(bytes)), "{said}");
    assert!((400..600).contains(&sampled.len()), "{} of {EVENTS}: {said}", sampled.len());
    assert_eq!(said.matches("events seen").count(), 2, "{said}");

    let counts = system.counts(0);
    let clients = counts["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 4, "{counts:#}");
    for client in clients {
        let count = |key: &str| client[key].as_u64().unwrap();
        let told = count("sent") + count("sampled_out") + count("dropped") + count("waiting");
        assert_eq!(count("seen"), told, "{counts:#}");
    }
    let dump =
        Command::new(EVBD).args(["dump", "-"]).stdin(fs::File::open(system.path("leader")).unwrap()).output();
    let dump = dump.unwrap();
    let text = String::from_utf8(dump.stdout).unwrap();
    assert!(dump.status.success() && text.contains("merged, a stream"), "{text}");
    assert_eq!(text.lines().filter(|line| line.ends_with("complete")).count(), sampled.len(), "{text}");
    drop(idle);
    assert_eq!(shown(&system.path("leader"), sampled.keys().next().copied().unwrap()), Some(0));
    assert_eq!(shown(&system.path("leader"), EVENTS + 1), Some(1));
}

/// Returns the exit code of `evbd dump - --event`.
fn shown(stream: &Path, event: u64) -> Option<i32> {
    let mut dump = Command::new(EVBD);
    dump.args(["dump", "-", "--event", &event.to_string()]).stdin(fs::File::open(stream).unwrap());
    dump.output().unwrap().status.code()
}

#[test]
fn who_may_not_look_or_asks_for_too_much_is_told_why() {
    let system = System::start();
    let [one, two] = system.taps;
    for (port, path, key, status, words) in [
        (one, "/v1/events", "0123456789abcdef-wrong", "401", "the token of the request is wrong"),
        (one, "/v1/counts", "", "401", "builder.tap.key_file"),
        (one, "/v1/status", KEY, "404", "/v1/events?sample=0.01"),
        (one, "/v1/events?newst=1", KEY, "400", "`newst=1`"),
        (two, "/v1/events?sample=0.6", "", "400", "shares above 0 up to 0.5"),
        (two, "/v1/events?sample=NaN", "", "400", "shares above 0 up to 0.5"),
    ] {
        let answer = get(port, path, key);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(words), "{answer}");
        assert!(answer.contains("\"refused_by\": \"the tap\""), "{answer}");
    }
    let foreign = TcpStream::connect(("127.0.0.1", two)).and_then(|mut stream| {
        write!(stream, "GET /v1/events HTTP/1.1\r\nHost: evil.example\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    });
    assert!(foreign.unwrap().starts_with("HTTP/1.1 403"));
    let clients = [ask(two, "/v1/events", ""), ask(two, "/v1/events?newest=1", "")];
    system.wait_for_clients([0, 2]);
    let answer = get(two, "/v1/events", "");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("2 clients already"), "{answer}");
    drop(clients);
    system.wait_for_clients([0, 0]);
    let refused = system.tap("refused", &[one], &[]).wait_with_output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("--key-file"), "{said}");
}
